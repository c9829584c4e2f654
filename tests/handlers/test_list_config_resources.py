"""ListConfigResources."""

from __future__ import annotations

from kompat.errors import ErrorCode
from tests.handlers.configs import BROKER, GROUP, LOGGER, METRICS, SET, TOPIC, change
from tests.handlers.conftest import Asker


def test_resources_are_listed_by_type(ask: Asker) -> None:
    name = ask.new_topic()
    change(ask, METRICS, "some", ("interval.ms", SET, "5000"))
    change(ask, GROUP, "some-group", ("consumer.session.timeout.ms", SET, "50000"))

    def names(*kinds: int) -> set[tuple[int, str]]:
        answer = ask("ListConfigResources", 1, resource_types=list(kinds))
        return {(r.resource_type, r.resource_name) for r in answer.config_resources}

    assert names(BROKER, LOGGER) == {(BROKER, "1"), (LOGGER, "1")}
    assert {(TOPIC, name), (METRICS, "some"), (GROUP, "some-group"), (LOGGER, "1")} <= names()
    assert {kind for kind, _ in names(METRICS)} == {METRICS}


def test_v0_lists_metrics_subscriptions(ask: Asker) -> None:
    change(ask, METRICS, "old", ("interval.ms", SET, "5000"))

    assert "old" in {r.resource_name for r in ask("ListConfigResources", 0).config_resources}


def test_an_unknown_type_of_resource_is_not_supported(ask: Asker) -> None:
    answer = ask("ListConfigResources", 1, resource_types=[TOPIC, 77])

    assert (answer.error_code, answer.config_resources) == (ErrorCode.UNSUPPORTED_VERSION, [])
