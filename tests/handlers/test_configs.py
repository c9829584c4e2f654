"""DescribeConfigs, AlterConfigs, IncrementalAlterConfigs, ListConfigResources."""

from __future__ import annotations

import logging
import re
from typing import Any

import pytest

import kompat.testing
from kompat.errors import ErrorCode

from .conftest import Asker

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3
LONG = 5


def describe(ask: Asker, kind: int, name: str, keys: list[str] | None = None, version: int = 4, **more: Any) -> Any:
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": keys}
    [result] = ask("DescribeConfigs", version, resources=[resource], **more).results
    return result


def value(ask: Asker, kind: int, name: str, key: str) -> tuple[str | None, int]:
    [entry] = describe(ask, kind, name, [key]).configs
    return entry.value, entry.config_source


def change(
    ask: Asker, kind: int, name: str, *changes: tuple[str, int, str | None], **more: Any
) -> tuple[int, str | None]:
    configs = [{"name": n, "config_operation": op, "value": v} for n, op, v in changes]
    resource = {"resource_type": kind, "resource_name": name, "configs": configs}
    [response] = ask("IncrementalAlterConfigs", 1, resources=[resource], **more).responses
    assert (response.resource_type, response.resource_name) == (kind, name)
    return response.error_code, response.error_message


# -- DescribeConfigs ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("version", range(1, 5))
def test_a_topics_settings_are_described(ask: Asker, version: int) -> None:
    name = ask.new_topic(retention_ms="7000")

    result = describe(ask, TOPIC, name, ["retention.ms", "no.such"], version, include_synonyms=True)

    [entry] = result.configs
    assert (result.error_code, result.error_message) == (ErrorCode.NONE, "")
    assert (entry.name, entry.value, entry.config_source, entry.read_only) == ("retention.ms", "7000", 1, False)
    assert (entry.synonyms[0].name, entry.synonyms[0].value, entry.synonyms[0].source) == ("retention.ms", "7000", 1)
    assert entry.config_type == (LONG if version >= 3 else 0)


def test_a_broker_names_itself_among_its_start_up_settings_as_kafkas_have_to(ask: Asker) -> None:
    names = ["advertised.listeners", "node.id", "broker.id", "process.roles"]

    found = {entry.name: entry for entry in describe(ask, BROKER, "1", names, include_synonyms=True).configs}

    assert {entry.config_source for entry in found.values()} == {4}
    assert all(entry.read_only for entry in found.values())
    assert re.fullmatch(r"PLAINTEXT://127\.0\.0\.1:\d+", found["advertised.listeners"].value)
    assert (found["node.id"].value, found["broker.id"].value) == ("1", "1")
    assert [each.source for each in found["node.id"].synonyms] == [4]


@pytest.mark.parametrize("keys", [None, []])
def test_no_keys_asks_for_all_settings(ask: Asker, keys: list[str] | None) -> None:
    assert len(describe(ask, TOPIC, ask.new_topic(), keys).configs) > 30


def test_synonyms_and_documentation_come_where_asked_for(ask: Asker) -> None:
    name = ask.new_topic()

    [bare] = describe(ask, TOPIC, name, ["cleanup.policy"]).configs
    [full] = describe(ask, TOPIC, name, ["cleanup.policy"], include_synonyms=True, include_documentation=True).configs

    assert (bare.synonyms, bare.documentation) == ([], None)
    assert [s.name for s in full.synonyms] == ["log.cleanup.policy"]
    assert full.documentation


@pytest.mark.parametrize(
    ("kind", "name", "code", "message"),
    [
        (TOPIC, "nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ""),
        (TOPIC, "", ErrorCode.INVALID_TOPIC_EXCEPTION, "Topic name is invalid: the empty string is not allowed"),
        (BROKER, "5", ErrorCode.INVALID_REQUEST, "Unexpected broker id, expected 1 or empty string, but received 5"),
        (BROKER, "abc", ErrorCode.INVALID_REQUEST, "Broker id must be an integer, but it is: abc"),
        (LOGGER, "", ErrorCode.INVALID_REQUEST, "Broker id must not be empty"),
        (LOGGER, "9", ErrorCode.INVALID_REQUEST, "Unexpected broker id, expected 1 but received 9"),
        (METRICS, "", ErrorCode.INVALID_REQUEST, "Client metrics subscription name must not be empty"),
        (GROUP, "", ErrorCode.INVALID_REQUEST, "Group name must not be empty"),
    ],
)
def test_resources_that_do_not_exist_are_told_apart(
    ask: Asker, kind: int, name: str, code: ErrorCode, message: str
) -> None:
    result = describe(ask, kind, name)

    assert (result.error_code, result.error_message, result.configs) == (code, message, [])


@pytest.mark.parametrize("kind", [0, 3, 77])
def test_an_unknown_kind_of_resource_is_refused(ask: Asker, kind: int) -> None:
    assert describe(ask, kind, "x").error_code == ErrorCode.INVALID_REQUEST


def test_a_broker_shows_its_settings_but_no_secrets(ask: Asker) -> None:
    entries = {entry.name: entry for entry in describe(ask, BROKER, "1").configs}

    assert (entries["num.partitions"].value, entries["num.partitions"].read_only) == ("1", True)
    assert (entries["ssl.keystore.password"].value, entries["ssl.keystore.password"].is_sensitive) == (None, True)
    # Kafka has dropped it, but tools still read the cluster's version there.
    assert entries["inter.broker.protocol.version"].value


# -- IncrementalAlterConfigs -------------------------------------------------------------------------------------------
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


# -- loggers -----------------------------------------------------------------------------------------------------------
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


# -- AlterConfigs ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("version", range(3))
def test_all_settings_are_replaced(ask: Asker, version: int) -> None:
    name = ask.new_topic(retention_ms="1", segment_ms="50000")
    resource = {"resource_type": TOPIC, "resource_name": name, "configs": [{"name": "retention.ms", "value": "2"}]}

    [response] = ask("AlterConfigs", version, resources=[resource]).responses

    assert (response.error_code, response.error_message) == (ErrorCode.NONE, None)
    assert value(ask, TOPIC, name, "retention.ms") == ("2", 1)
    assert value(ask, TOPIC, name, "segment.ms") == ("604800000", 5)


def test_loggers_are_no_matter_of_alter_configs(ask: Asker) -> None:
    resource = {"resource_type": LOGGER, "resource_name": "1", "configs": [{"name": "root", "value": "INFO"}]}

    [response] = ask("AlterConfigs", 2, resources=[resource]).responses

    assert (response.error_code, response.error_message) == (ErrorCode.INVALID_REQUEST, "Unknown resource type 8")


# -- ListConfigResources -----------------------------------------------------------------------------------------------
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
