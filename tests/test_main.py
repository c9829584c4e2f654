import re
import resource
import signal
import socket
import struct
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

import kompat
from tests.cli.support import refused, started

MEMORY = ("--port", "0", "--http-port", "none", "--data", ":memory:")


def setting(bootstrap_servers: str, name: str) -> str:
    broker = ConfigResource(ResourceType.BROKER, "1")
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    found = admin.describe_configs([broker])
    return str(found[broker].result(10)[name].value)


def test_the_ready_line_is_all_that_is_on_stdout_and_sigterm_ends_with_0() -> None:
    with started(*MEMORY) as broker:
        assert broker.ready_line == f"kompat {kompat.__version__} ready: kafka 127.0.0.1:{broker.port}\n"

        status, out, err = broker.stop()

    assert status == 0
    assert out == ""
    assert all(line.startswith("time=") for line in err.splitlines())


def test_clients_and_files_may_be_as_many_as_the_system_allows() -> None:
    soft, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(256, most), most))
    try:
        with started(*MEMORY) as broker:
            assert resource.prlimit(broker.popen.pid, resource.RLIMIT_NOFILE) == (most, most)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, most))


def test_an_interrupt_from_the_keyboard_ends_with_0_too() -> None:
    with started(*MEMORY) as broker:
        assert broker.stop(signal.SIGINT)[0] == 0


def test_the_data_directory_is_kompat_data_by_default_and_outlives_a_restart(tmp_path: Path) -> None:
    flags = ("--port", "0", "--http-port", "none")
    with started(*flags, cwd=tmp_path) as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        producer.produce("kept", b"value")
        assert producer.flush(10) == 0
        assert broker.stop()[0] == 0

    assert (tmp_path / "kompat-data").is_dir()
    with started(*flags, cwd=tmp_path) as broker:
        consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "none"})
        consumer.assign([TopicPartition("kept", 0, 0)])
        message = consumer.poll(10)
        consumer.close()

    assert message is not None
    assert message.value() == b"value"


def test_a_flag_wins_over_the_environment_and_that_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "broker.properties"
    file.write_text("num.partitions=2\nlog.retention.ms=2000\nmessage.max.bytes=2222\n")
    environ = {"KOMPAT_NUM_PARTITIONS": "3", "KOMPAT_LOG_RETENTION_MS": "3000"}

    with started(*MEMORY, "--config", str(file), "--set", "num.partitions=4", environ=environ) as broker:
        values = [
            setting(broker.bootstrap_servers, n) for n in ("num.partitions", "log.retention.ms", "message.max.bytes")
        ]

    assert values == ["4", "3000", "2222"]


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--set", "no.such.setting=1"), "no.such.setting"),
        (("--set", "num.partitions=many"), "num.partitions"),
        (("--set", "num.partitions"), "name=value"),
        (("--port", "99999"), "99999"),
        (("--config", "/no/such/file"), "/no/such/file"),
        (("--advertised", "nowhere"), "nowhere"),
    ],
)
def test_a_setting_that_is_not_understood_stops_the_start_with_one_line(flags: tuple[str, ...], said: str) -> None:
    assert said in refused(*MEMORY, *flags)


def test_a_variable_that_is_not_understood_stops_the_start_with_one_line() -> None:
    assert "KOMPAT_NO_SUCH" in refused(*MEMORY, environ={"KOMPAT_NO_SUCH": "1"})


def test_a_second_broker_on_the_same_data_is_refused(tmp_path: Path) -> None:
    data = ("--http-port", "none", "--data", str(tmp_path))
    with started("--port", "0", *data) as broker:
        line = refused("--port", "0", *data)

        assert str(tmp_path) in line
        assert str(broker.popen.pid) in line


def test_a_port_in_use_is_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])

        assert port in refused("--data", ":memory:", "--http-port", "none", "--port", port)


def test_an_http_port_in_use_is_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])

        assert f"HTTP port 127.0.0.1:{port}" in refused("--data", ":memory:", "--port", "0", "--http-port", port)


def test_the_ready_line_tells_where_the_http_door_is() -> None:
    with started("--port", "0", "--http-port", "0", "--data", ":memory:") as broker:
        assert re.fullmatch(r"kompat \S+ ready: kafka 127.0.0.1:\d+ http 127.0.0.1:[1-9]\d*\n", broker.ready_line)


def test_a_data_directory_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    assert "file" in refused("--port", "0", "--http-port", "none", "--data", str(tmp_path / "file" / "data"))


def test_damaged_data_is_refused_and_left_alone(tmp_path: Path) -> None:
    flags = ("--port", "0", "--http-port", "none", "--data", str(tmp_path))
    with started(*flags) as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        producer.produce("kept", b"value")
        assert producer.flush(10) == 0
        broker.stop()
    (manifest,) = tmp_path.glob("db/MANIFEST-*")
    manifest.write_bytes(b"\xff" * manifest.stat().st_size)
    before = sorted(tmp_path.rglob("*.sst"))

    assert str(tmp_path) in refused(*flags)
    assert sorted(tmp_path.rglob("*.sst")) == before


def test_sigterm_answers_a_long_poll_and_does_not_wait_for_it() -> None:
    with started(*MEMORY) as broker, socket.create_connection(("127.0.0.1", broker.port), timeout=10) as client:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        producer.produce("polled", b"value", partition=0)
        assert producer.flush(10) == 0
        client.sendall(_fetch_at_the_end("polled", max_wait_ms=60_000))
        time.sleep(0.3)  # the broker has no way to tell that it holds the poll

        begun = time.monotonic()
        status, _, err = broker.stop()

        assert status == 0, err
        assert time.monotonic() - begun < 3
        length, correlation_id = struct.unpack(">ii", client.recv(8))
        assert correlation_id == 77
        assert length > 4


def _fetch_at_the_end(topic: str, max_wait_ms: int) -> bytes:
    name = struct.pack(">h", len(topic)) + topic.encode()
    header = struct.pack(">hhih", 1, 4, 77, -1)
    body = struct.pack(">iiiibi", -1, max_wait_ms, 1, 1 << 20, 0, 1) + name + struct.pack(">iiqi", 1, 0, 1, 1 << 20)
    return struct.pack(">i", len(header + body)) + header + body


def test_the_advertised_address_is_told_to_clients() -> None:
    with started(*MEMORY, "--advertised", "kafka.example.org:1234") as broker:
        brokers = AdminClient({"bootstrap.servers": broker.bootstrap_servers}).list_topics(timeout=10).brokers

        assert [(b.host, b.port) for b in brokers.values()] == [("kafka.example.org", 1234)]


def test_without_one_clients_are_told_the_address_they_dialled() -> None:
    with started(*MEMORY, "--host", "0.0.0.0") as broker:  # noqa: S104
        for host in ("127.0.0.1", "127.0.0.2"):
            brokers = AdminClient({"bootstrap.servers": f"{host}:{broker.port}"}).list_topics(timeout=10).brokers

            assert [(b.host, b.port) for b in brokers.values()] == [(host, broker.port)]


def test_the_version_is_that_of_the_package() -> None:
    told = subprocess.run([sys.executable, "-m", "kompat", "--version"], capture_output=True, text=True, check=True)
    package = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())

    assert told.stdout == f"kompat {package['project']['version']}\n"
