from pathlib import Path

import pytest

from kompat.config.broker import DEFINITIONS
from kompat.config.definitions import ConfigSource
from kompat.config.load import assignments, load, variable_of
from kompat.config.topics import topic_config
from kompat.errors import ConfigError


def file_with(tmp_path: Path, text: str) -> str:
    file = tmp_path / "server.properties"
    file.write_text(text)
    return str(file)


def test_flags_win_over_environment_over_file_over_default(tmp_path: Path) -> None:
    file = file_with(tmp_path, "num.partitions=2\nlog.retention.ms=2\nmessage.max.bytes=2\n")
    environ = {"KOMPAT_NUM_PARTITIONS": "3", "KOMPAT_LOG_RETENTION_MS": "3", "HOME": "/"}

    config = load({"num.partitions": "4"}, file=file, environ=environ)

    assert config["num.partitions"] == 4
    assert config["log.retention.ms"] == 3
    assert config["message.max.bytes"] == 2
    assert config["log.segment.bytes"] == 1 << 30
    assert config.source("num.partitions") is ConfigSource.STATIC_BROKER_CONFIG
    assert config.source("log.segment.bytes") is ConfigSource.DEFAULT_CONFIG


def test_without_anything_it_listens_on_loopback_and_writes_below_the_working_directory() -> None:
    config = load(environ={})

    assert str(config.listener) == "PLAINTEXT://127.0.0.1:9092"
    assert config.advertised == {}
    assert config.data == "kompat-data"
    assert config.node_id == 1
    assert config["kompat.http.port"] == 8080


def test_shorthands_stand_for_kafkas_settings() -> None:
    flags = {"host": "0.0.0.0", "port": "19094", "data": ":memory:", "node-id": "7", "advertised": "kompat.example:443"}  # noqa: S104

    config = load(flags, environ={"KOMPAT_HTTP_PORT": "none"})

    assert str(config.listener) == "PLAINTEXT://0.0.0.0:19094"
    assert str(config.advertised["PLAINTEXT"]) == "PLAINTEXT://kompat.example:443"
    assert config.data == ":memory:"
    assert config.node_id == config["broker.id"] == 7
    assert config["kompat.http.port"] == -1


def test_a_port_alone_leaves_the_host_that_a_lower_layer_gave(tmp_path: Path) -> None:
    file = file_with(tmp_path, "listeners=PLAINTEXT://10.0.0.1:9092\n")

    config = load({"port": "9093"}, file=file, environ={"KOMPAT_HOST": "[::1]"})

    assert str(config.listener) == "PLAINTEXT://[::1]:9093"
    assert config.listener.host == "::1"


def test_the_file_may_be_named_by_the_environment(tmp_path: Path) -> None:
    file = file_with(tmp_path, "num.partitions=5")

    assert load(environ={"KOMPAT_CONFIG": file})["num.partitions"] == 5


def test_a_server_properties_for_kafka_starts_kompat(tmp_path: Path) -> None:
    file = file_with(
        tmp_path,
        """
        # as Kafka ships it
        process.roles=broker,controller
        node.id=1
        controller.quorum.bootstrap.servers=localhost:9093
        listeners=PLAINTEXT://:9092,CONTROLLER://:9093
        inter.broker.listener.name=PLAINTEXT
        advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
        controller.listener.names=CONTROLLER
        listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL
        num.network.threads=3
        num.io.threads=8
        socket.send.buffer.bytes=102400
        log.dirs=/tmp/kraft-combined-logs
        num.partitions : 1
        offsets.topic.replication.factor=1
        log.retention.hours=\\
            168
        ! an old kind of comment
        log.segment.bytes=1073741824
        """,
    )
    config = load(file=file, environ={})

    assert str(config.listener) == "PLAINTEXT://:9092"
    assert str(config.advertised["PLAINTEXT"]) == "PLAINTEXT://localhost:9092"
    assert config.data == "/tmp/kraft-combined-logs"  # noqa: S108
    assert config["log.retention.hours"] == 168


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"foo": "1"}, "--set foo: unknown setting foo"),
        ({"log.retention.mss": "1"}, "--set log.retention.mss: unknown setting log.retention.mss, did you mean log.retention.ms?"),
        ({"num.partitions": "many"}, "--set num.partitions: Invalid value many for configuration num.partitions: Not a number of type INT"),
        ({"num.partitions": "0"}, "--set num.partitions: Invalid value 0 for configuration num.partitions: Value must be at least 1"),
        ({"port": "99999"}, "--port: '99999' is not a port"),
        ({"port": "-1"}, "--port: '-1' is not a port"),
        ({"listeners": "9092"}, "listeners: '9092' is not of the form NAME://host:port"),
        ({"listeners": "PLAINTEXT://:1,X://:2", "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,X:NONE"}, "listeners: the protocol NONE of X does not exist"),
        ({"listeners": "PLAINTEXT://:1,PLAINTEXT://:2"}, "listeners: the names and ports of listeners must be different"),
        ({"listeners": "PLAINTEXT://:1,SSL://:1"}, "listeners: the names and ports of listeners must be different"),
        ({"listeners": "PLAINTEXT://:1", "advertised.listeners": "SSL://a:1"}, "advertised.listeners: listener SSL does not exist"),
        ({"listeners": "SASL_SSL://:1"}, "sasl.enabled.mechanisms: kompat does not support GSSAPI; the supported mechanisms of SASL_SSL are PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER"),
        ({"listeners": "INSIDE://:9092"}, "listeners: listener.security.protocol.map has no protocol for INSIDE"),
        ({"listeners": ""}, "listeners: there is no listener for clients"),
        ({"advertised": "nowhere"}, "advertised.listeners: 'PLAINTEXT://nowhere' is not of the form NAME://host:port"),
        ({"listener.security.protocol.map": "A"}, "listener.security.protocol.map: 'A' is not of the form NAME:PROTOCOL"),
        ({"log.dirs": "/a,/b"}, "log.dirs: kompat supports exactly one data directory"),
        ({"authorizer.class.name": "org.x.Y"}, "--set authorizer.class.name: Invalid value org.x.Y for configuration authorizer.class.name: String must be one of: , org.apache.kafka.metadata.authorizer.StandardAuthorizer"),
        ({"remote.log.storage.system.enable": "true"}, "remote.log.storage.system.enable=true: kompat does not support this setting"),
        ({"log.retention.ms": "0"}, "log.retention.ms must be at least 1, or -1 for no limit"),
        ({"log.roll.ms": "0"}, "log.roll.ms must be at least 1"),
        ({"group.min.session.timeout.ms": "9999999"}, "group.min.session.timeout.ms (9999999) is greater than group.max.session.timeout.ms (1800000)"),
        ({"kompat.fsync": "sometimes"}, "--set kompat.fsync: Invalid value sometimes for configuration kompat.fsync: String must be one of: always, interval, never"),
    ],
)  # fmt: skip
def test_a_setting_that_makes_no_sense_stops_the_start_with_one_clear_line(flags: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        load(flags, environ={})

    assert str(raised.value) == message
    assert "\n" not in str(raised.value)


def test_an_unknown_variable_is_named() -> None:
    with pytest.raises(ConfigError, match=r"^KOMPAT_NUM_PARTITION: this setting does not exist$"):
        load(environ={"KOMPAT_NUM_PARTITION": "3"})


def test_an_unknown_setting_in_a_file_is_named_with_its_line(tmp_path: Path) -> None:
    file = file_with(tmp_path, "# one\n\nfoo.bar=1\n")

    with pytest.raises(ConfigError, match=r"server\.properties:3: unknown setting foo\.bar$"):
        load(file=file, environ={})


@pytest.mark.parametrize("line", ["just words", "=1"])
def test_a_line_without_a_name_or_a_value_is_refused(tmp_path: Path, line: str) -> None:
    with pytest.raises(ConfigError, match=":1: expected name=value"):
        load(file=file_with(tmp_path, line), environ={})


def test_a_file_that_is_not_there_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        load(file=str(tmp_path / "nothing"), environ={})


def test_every_setting_has_a_variable_of_its_own() -> None:
    assert len({variable_of(name) for name in DEFINITIONS}) == len(DEFINITIONS)
    assert variable_of("log.retention.ms") == "KOMPAT_LOG_RETENTION_MS"
    assert variable_of("kompat.fsync") == "KOMPAT_FSYNC"


def test_assignments_need_a_name_and_an_equals_sign() -> None:
    assert assignments(["a=1", "b=x=y", " c = "]) == {"a": "1", "b": "x=y", "c": " "}
    with pytest.raises(ConfigError):
        assignments(["a"])
    with pytest.raises(ConfigError):
        assignments(["=a"])


@pytest.mark.parametrize(
    ("given", "retention_ms"),
    [
        ({}, 604_800_000),
        ({"log.retention.hours": "1"}, 3_600_000),
        ({"log.retention.hours": "1", "log.retention.minutes": "1"}, 60_000),
        ({"log.retention.hours": "1", "log.retention.minutes": "1", "log.retention.ms": "1"}, 1),
        ({"log.retention.hours": "-1"}, -1),
        ({"log.retention.ms": "-1"}, -1),
    ],
)
def test_the_finer_retention_setting_wins(given: dict[str, str], retention_ms: int) -> None:
    assert topic_config({}, load(given, environ={})).retention_ms == retention_ms
