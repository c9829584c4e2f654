"""DescribeConfigs."""

from __future__ import annotations

import re

import pytest

from kompat.errors import ErrorCode
from tests.handlers.configs import BROKER, GROUP, LOGGER, METRICS, TOPIC, describe
from tests.handlers.conftest import Asker

LONG = 5


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
