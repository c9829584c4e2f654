"""The tables are Kafka's: held against what a Kafka 4.3 answers to DescribeConfigs."""

import re
from pathlib import Path

import pytest

from kompat.config import values
from kompat.config.broker import DEFINITIONS as BROKER
from kompat.config.broker import BrokerConfig
from kompat.config.definitions import Definition, Definitions, Standing, Update, without_listener
from kompat.config.groups import CLIENT_METRICS, GROUP
from kompat.config.topics import DEFINITIONS as TOPIC
from kompat.errors import ErrorCode, KafkaError

TABLES: dict[str, Definitions] = {"topic": TOPIC, "broker": BROKER, "group": GROUP, "metrics": CLIENT_METRICS}
FACTS = [
    line.split("\t")
    for line in (Path(__file__).parent / "kafka-4.3.tsv").read_text().splitlines()
    if not line.startswith("#")
]
# Where kompat listens and keeps its data, and that it needs no KRaft set-up.
OURS = {"listeners", "log.dir", "node.id", "controller.listener.names", "process.roles", "advertised.listeners"}
# Kafka UIs read the first; the other is of Kafka 4.4.
EXTRA = {"broker": {"inter.broker.protocol.version"}, "group": {"errors.deadletterqueue.topic.name"}}
# kompat opens its sockets once.
SOCKETS = {"listeners", "listener.security.protocol.map"}


def test_every_setting_of_kafka_is_known_with_its_type() -> None:
    found = {(kind, name): TABLES[kind].get(name) for kind, name, *_ in FACTS}

    assert [key for key, definition in found.items() if definition is None] == []
    assert {(kind, name): int(type_) for kind, name, type_, *_ in FACTS} == {
        key: definition.type.value for key, definition in found.items() if definition
    }


def test_every_default_is_kafkas() -> None:
    wrong = [
        (name, default, TABLES[kind][name].default)
        for kind, name, _, default, *_ in FACTS
        if name not in OURS and _shown(TABLES[kind][name]) != (None if default == "\\N" else default)
    ]
    assert wrong == []


def _shown(definition: Definition) -> str | None:
    return values.to_text(definition.default_value)


def test_what_may_be_changed_while_the_broker_runs_is_as_in_kafka() -> None:
    for kind, name, _, _, read_only, sensitive, _ in FACTS:
        definition = TABLES[kind][name]
        if kind == "broker" and name not in SOCKETS:
            assert (definition.update is Update.READ_ONLY) == (read_only == "1"), name
        assert definition.is_sensitive == (sensitive == "1"), name


@pytest.mark.parametrize("name", sorted(SOCKETS))
def test_sockets_are_not_changed_while_the_broker_runs(name: str) -> None:
    assert BROKER[name].update is Update.READ_ONLY


def test_nothing_but_our_own_settings_is_listed_beyond_kafkas() -> None:
    for kind, table in TABLES.items():
        theirs = {name for found, name, *_ in FACTS if found == kind}
        listed = {name for name in table if not table[name].is_hidden}
        extra = {name for name in listed - theirs if not name.startswith("kompat.")}
        assert extra == EXTRA.get(kind, set())


def test_topic_and_group_settings_take_their_defaults_from_the_settings_kafka_names() -> None:
    config = BrokerConfig()
    for kind, name, _, _, _, _, synonyms in FACTS:
        if synonyms:
            assert TABLES[kind][name].synonyms[0] == synonyms, name
        for synonym in TABLES[kind][name].synonyms if kind == "topic" else ():
            assert synonym in BROKER
            config[synonym]


@pytest.mark.parametrize("kind", TABLES)
def test_every_used_setting_is_documented(kind: str) -> None:
    for definition in TABLES[kind].values():
        assert definition.documentation.endswith("."), definition.name


def test_every_setting_that_the_readme_explains_exists() -> None:
    readme = (Path(__file__).parents[2] / "README.md").read_text()
    named = re.findall(r"^\| `([a-z.]+)`", readme, re.MULTILINE)

    assert named
    assert [name for name in named if name not in BROKER] == []


def test_what_is_unsupported_is_taken_at_its_default_only() -> None:
    for name, definition in BROKER.items():
        if definition.standing is Standing.UNSUPPORTED and definition.default is not None:
            BrokerConfig({name: definition.default})


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("retention.ms", "x", "Invalid value x for configuration retention.ms: Not a number of type LONG"),
        ("retention.ms", "", "Invalid value  for configuration retention.ms: Not a number of type LONG"),
        ("retention.ms", "1_000", "Invalid value 1_000 for configuration retention.ms: Not a number of type LONG"),
        ("retention.ms", "9223372036854775808", "Invalid value 9223372036854775808 for configuration retention.ms: Not a number of type LONG"),
        ("retention.ms", "-5", "Invalid value -5 for configuration retention.ms: Value must be at least -1"),
        ("max.message.bytes", "99999999999", "Invalid value 99999999999 for configuration max.message.bytes: Not a number of type INT"),
        ("segment.bytes", "100", "Invalid value 100 for configuration segment.bytes: Value must be at least 1048576"),
        ("compression.lz4.level", "18", "Invalid value 18 for configuration compression.lz4.level: Value must be no more than 17"),
        ("compression.gzip.level", "0", "Invalid value 0 for configuration compression.gzip.level: Value must be between 1 and 9 or equal to -1"),
        ("cleanup.policy", "compact,foo", "Invalid value foo for configuration cleanup.policy: String must be one of: compact, delete"),
        ("compression.type", "none", "Invalid value none for configuration compression.type: String must be one of: uncompressed, zstd, lz4, snappy, gzip, producer"),
        ("min.cleanable.dirty.ratio", "2", "Invalid value 2.0 for configuration min.cleanable.dirty.ratio: Value must be no more than 1"),
        ("min.cleanable.dirty.ratio", "nan", "Invalid value nan for configuration min.cleanable.dirty.ratio: Not a number of type DOUBLE"),
        ("preallocate", "yes", "Invalid value yes for configuration preallocate: Expected value to be either true or false"),
        ("message.timestamp.type", "createtime", "Invalid value createtime for configuration message.timestamp.type: String must be one of: CreateTime, LogAppendTime"),
    ],
)  # fmt: skip
def test_a_wrong_value_is_refused_in_kafkas_words(name: str, text: str, message: str) -> None:
    with pytest.raises(KafkaError) as raised:
        TOPIC[name].parse(text)

    assert raised.value.code is ErrorCode.INVALID_CONFIG
    assert raised.value.message == message


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("retention.ms", " 5 ", 5),
        ("preallocate", "TRUE", True),
        ("cleanup.policy", "compact, delete", ("compact", "delete")),
        ("cleanup.policy", "", ()),
        ("compression.gzip.level", "-1", -1),
        ("min.cleanable.dirty.ratio", "1", 1.0),
        ("leader.replication.throttled.replicas", "*", ("*",)),
        ("leader.replication.throttled.replicas", "0:1,1:1", ("0:1", "1:1")),
    ],
)
def test_a_value_is_read_as_kafka_reads_it(name: str, text: str, value: object) -> None:
    assert TOPIC[name].parse(text) == value


@pytest.mark.parametrize("text", ["latest", "earliest", "by_duration:P1D", "by_duration:PT1H30M"])
def test_a_share_group_may_begin_at_an_end_or_at_a_time(text: str) -> None:
    assert GROUP["share.auto.offset.reset"].parse(text) == text


@pytest.mark.parametrize("text", ["x", "by_duration", "by_duration:", "by_duration:P", "by_duration:PT", "latest:P1D"])
def test_a_share_group_may_begin_nowhere_else(text: str) -> None:
    with pytest.raises(KafkaError):
        GROUP["share.auto.offset.reset"].parse(text)


@pytest.mark.parametrize("text", ["a", "0:1,1", "*,0:1", "0:x"])
def test_throttled_replicas_are_pairs_or_all(text: str) -> None:
    with pytest.raises(KafkaError):
        TOPIC["leader.replication.throttled.replicas"].parse(text)


def test_a_setting_of_one_listener_is_the_setting_it_is_named_after() -> None:
    assert without_listener("listener.name.internal.ssl.key.password") == "ssl.key.password"
    assert without_listener("log.dirs") == "log.dirs"
