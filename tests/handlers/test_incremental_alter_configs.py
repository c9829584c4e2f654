"""IncrementalAlterConfigs: settings of topics, brokers, groups, metrics subscriptions and loggers."""

from __future__ import annotations

import logging

import pytest

import kompat.testing
from kompat.errors import ErrorCode
from tests.handlers.configs import APPEND, BROKER, DELETE, GROUP, LOGGER, METRICS, SET, SUBTRACT, TOPIC, change, value
from tests.handlers.conftest import Asker


def test_a_setting_is_set_and_deleted(ask: Asker) -> None:
    name = ask.new_topic()

    assert change(ask, TOPIC, name, ("retention.ms", SET, "1234")) == (ErrorCode.NONE, None)
    assert value(ask, TOPIC, name, "retention.ms") == ("1234", 1)
    assert change(ask, TOPIC, name, ("retention.ms", DELETE, None)) == (ErrorCode.NONE, None)
    assert value(ask, TOPIC, name, "retention.ms") == ("604800000", 5)


def test_lists_are_appended_to_and_subtracted_from(ask: Asker) -> None:
    name = ask.new_topic()

    change(ask, TOPIC, name, ("cleanup.policy", APPEND, "compact"))
    assert value(ask, TOPIC, name, "cleanup.policy")[0] == "delete,compact"
    change(ask, TOPIC, name, ("cleanup.policy", SUBTRACT, "delete"))
    assert value(ask, TOPIC, name, "cleanup.policy")[0] == "compact"


def test_validate_only_changes_nothing(ask: Asker) -> None:
    name = ask.new_topic()

    assert change(ask, TOPIC, name, ("retention.ms", SET, "1234"), validate_only=True) == (ErrorCode.NONE, None)
    assert value(ask, TOPIC, name, "retention.ms") == ("604800000", 5)


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ([("retention.ms", SET, "soon")], ErrorCode.INVALID_CONFIG),
        ([("no.such", SET, "1")], ErrorCode.INVALID_CONFIG),
        ([("retention.ms", APPEND, "1")], ErrorCode.INVALID_CONFIG),
        ([("retention.ms", SET, None)], ErrorCode.INVALID_REQUEST),
        ([("retention.ms", SET, "1"), ("retention.ms", DELETE, None)], ErrorCode.INVALID_REQUEST),
        ([("retention.ms", 9, "1")], ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_change_that_makes_no_sense_is_refused(
    ask: Asker, changes: list[tuple[str, int, str | None]], code: ErrorCode
) -> None:
    assert change(ask, TOPIC, ask.new_topic(), *changes)[0] == code


def test_resources_are_changed_each_by_itself(ask: Asker) -> None:
    name = ask.new_topic()
    configs = [{"name": "retention.ms", "config_operation": SET, "value": "99"}]
    asked = [(TOPIC, name), (TOPIC, "nope"), (3, "x"), (TOPIC, "")]

    responses = ask(
        "IncrementalAlterConfigs",
        1,
        resources=[{"resource_type": kind, "resource_name": n, "configs": configs} for kind, n in asked],
    ).responses

    assert [(r.error_code, r.error_message) for r in responses] == [
        (ErrorCode.NONE, None),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The topic 'nope' does not exist."),
        (ErrorCode.INVALID_REQUEST, "Unknown resource type 3"),
        (ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed."),
    ]
    assert value(ask, TOPIC, name, "retention.ms")[0] == "99"


def test_a_brokers_setting_changes_for_it_or_for_all() -> None:
    with kompat.testing.broker() as running:
        ask = Asker(running)

        assert change(ask, BROKER, "", ("log.retention.ms", SET, "1111")) == (ErrorCode.NONE, None)
        assert value(ask, BROKER, "1", "log.retention.ms") == ("1111", 3)
        assert change(ask, BROKER, "1", ("log.retention.ms", SET, "2222")) == (ErrorCode.NONE, None)
        assert value(ask, BROKER, "1", "log.retention.ms") == ("2222", 2)
        assert value(ask, TOPIC, ask.new_topic(), "retention.ms") == ("2222", 2)


def test_what_only_a_restart_can_change_is_refused(ask: Asker) -> None:
    assert change(ask, BROKER, "1", ("node.id", SET, "4")) == (
        ErrorCode.INVALID_REQUEST,
        "Cannot update these configs dynamically: [node.id]",
    )


def test_groups_and_metrics_subscriptions_have_settings(ask: Asker) -> None:
    assert change(ask, GROUP, "readers", ("consumer.session.timeout.ms", SET, "50000"))[0] == ErrorCode.NONE
    assert change(ask, METRICS, "all", ("interval.ms", SET, "5000"))[0] == ErrorCode.NONE

    assert value(ask, GROUP, "readers", "consumer.session.timeout.ms")[0] == "50000"
    assert value(ask, METRICS, "all", "interval.ms")[0] == "5000"


def test_a_loggers_level_is_changed_and_reset(ask: Asker) -> None:
    name = "kompat.tests.levels"
    logging.getLogger(name)

    assert change(ask, LOGGER, "1", (name, SET, "TRACE")) == (ErrorCode.NONE, None)
    assert value(ask, LOGGER, "1", name) == ("TRACE", 6)
    assert change(ask, LOGGER, "1", (name, DELETE, None)) == (ErrorCode.NONE, None)
    assert value(ask, LOGGER, "1", name) == value(ask, LOGGER, "1", "root")


@pytest.mark.parametrize(
    ("broker", "what", "message"),
    [
        ("1", ("no.such", SET, "INFO"), "Logger no.such does not exist!"),
        ("1", ("root", DELETE, None), "Removing the log level of the root logger is not allowed"),
        ("1", ("root", APPEND, "INFO"), "APPEND operation is not allowed for the BROKER_LOGGER resource"),
        ("9", ("root", SET, "INFO"), "Unexpected node id. Expected 1, but received 9"),
        ("x", ("root", SET, "INFO"), "Node id must be an integer, but it is: x"),
        ("1", ("root", SET, None), "Null value not supported for : root"),
        (
            "1",
            ("root", SET, "LOUD"),
            "Cannot set the log level of root to LOUD as it is not a supported log level. "
            "Valid log levels are DEBUG, ERROR, FATAL, INFO, TRACE, WARN",
        ),
    ],
)
def test_a_logger_that_cannot_be_changed_says_why(
    ask: Asker, broker: str, what: tuple[str, int, str | None], message: str
) -> None:
    code, text = change(ask, LOGGER, broker, what)

    assert code != ErrorCode.NONE
    assert text == message
