"""The broker as a program: how it starts, refuses to start, and ends."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from interop_tests.conftest import StartBroker
from interop_tests.support.broker import Broker, clean_environment, external, free_port
from interop_tests.support.clients.base import Message
from interop_tests.support.clients.confluent import Confluent
from interop_tests.support.topics import Topics
from interop_tests.support.wire import Wire

pytestmark = pytest.mark.skipif(external() is not None, reason="the broker under test is not ours to start")

Start = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def kompat(tmp_path: Path) -> Start:
    """Runs a `kompat start` that is expected to end by itself."""

    def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        command = [
            sys.executable,
            "-m",
            "kompat",
            "start",
            "--port",
            str(free_port()),
            "--http-port",
            "none",
            "--data",
            str(tmp_path / "data"),
            *arguments,
        ]
        return subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=30,
            cwd=tmp_path,
            env=clean_environment(**variables),
            check=False,
        )

    return run


@pytest.mark.parametrize(
    "arguments",
    [
        ("--set", "no.such.setting=1"),
        ("--set", "log.retention.ms=soon"),
        ("--set", "num.partitions=0"),
        ("--set", "nonsense"),
        ("--port", "a lot"),
        ("--config", "no-such-file"),
    ],
    ids=" ".join,
)
def test_a_setting_that_cannot_be_stops_the_start_with_one_clear_line(
    kompat: Start, arguments: tuple[str, ...]
) -> None:
    ended = kompat(*arguments)

    assert ended.returncode != 0
    assert ended.stdout == ""
    [line] = ended.stderr.splitlines()
    assert arguments[1].split("=")[0] in line or arguments[0].lstrip("-") in line


def test_a_variable_that_cannot_be_stops_the_start(kompat: Start) -> None:
    ended = kompat(KOMPAT_LOG_RETENTION_MS="soon")

    assert ended.returncode != 0
    [line] = ended.stderr.splitlines()
    assert "log.retention.ms" in line.lower().replace("_", ".")


def test_flags_win_over_variables_and_these_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "broker.properties"
    file.write_text("# ours\nnum.partitions=2\nlog.retention.ms=1000\nmessage.max.bytes=3000\n")
    broker = Broker(tmp_path / "own", {"num.partitions": "4"})
    broker.options = ("--config", str(file))
    broker.environment = {"KOMPAT_NUM_PARTITIONS": "3", "KOMPAT_LOG_RETENTION_MS": "2000"}
    try:
        broker.start()
        values = Topics(broker.bootstrap).broker_configs()
    finally:
        broker.close()

    assert (values["num.partitions"], values["log.retention.ms"], values["message.max.bytes"]) == ("4", "2000", "3000")


def test_the_ready_line_names_the_address_that_serves(start_broker: StartBroker) -> None:
    broker = start_broker()

    [line] = broker.stdout().splitlines()

    assert line.startswith("kompat ")
    assert line.endswith(f" ready: kafka {broker.bootstrap}")


def test_a_second_broker_on_the_same_data_is_refused_and_the_first_goes_on(
    start_broker: StartBroker, kompat: Start
) -> None:
    broker = start_broker()
    topic = Topics(broker.bootstrap).create()

    second = kompat("--data", broker.data)

    assert second.returncode != 0
    assert broker.data in second.stderr
    assert len(second.stderr.splitlines()) == 1
    assert Confluent().produce(broker.bootstrap, topic, [Message(value=b"still here")]) == [0]


def test_a_port_that_is_taken_is_refused(start_broker: StartBroker, kompat: Start) -> None:
    broker = start_broker()

    second = kompat("--port", str(broker.port))

    assert second.returncode != 0
    assert str(broker.port) in second.stderr


def test_memory_only_leaves_nothing_behind(tmp_path: Path) -> None:
    broker = Broker(tmp_path / "own", data=":memory:")
    try:
        broker.start()
        topic = Topics(broker.bootstrap).create()
        Confluent().produce(broker.bootstrap, topic, [Message(value=b"v" * 10_000)] * 10)
        assert len(Confluent().consume(broker.bootstrap, topic, 0, start=0, count=10)) == 10
        assert broker.stop() == 0
    finally:
        broker.close()

    assert sorted(path.name for path in broker.home.iterdir()) == ["stderr", "stdout"]


def test_the_advertised_address_is_what_clients_are_told(tmp_path: Path) -> None:
    broker = Broker(tmp_path / "own")
    broker.options = ("--advertised", f"localhost:{broker.port}")
    try:
        broker.start()
        told = Topics(broker.bootstrap).admin.list_topics(timeout=10).brokers.values()
        assert [f"{node.host}:{node.port}" for node in told] == [f"localhost:{broker.port}"]
    finally:
        broker.close()


def _damage(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(0)
        file.write(b"\xde\xad\xbe\xef" * 64)


@pytest.mark.parametrize("pattern", ["MANIFEST-*", "CURRENT"])
def test_a_damaged_database_is_reported_and_left_as_it_is(
    start_broker: StartBroker, kompat: Start, pattern: str
) -> None:
    broker = start_broker()
    topic = Topics(broker.bootstrap).create()
    Confluent().produce(broker.bootstrap, topic, [Message(value=b"precious" * 1000)] * 50)
    assert broker.stop() == 0
    damaged = list(Path(broker.data).rglob(pattern))
    assert damaged
    for path in damaged:
        _damage(path)
    before = {
        path: path.stat().st_size
        for path in Path(broker.data).rglob("*")
        if path.suffix in (".sst", ".log", ".vlog") or path in damaged
    }

    ended = kompat("--data", broker.data)

    assert ended.returncode != 0
    assert broker.data in ended.stderr
    assert any(word in ended.stderr.lower() for word in ("restore", "backup", "repair", "move")), ended.stderr
    assert "Traceback" not in ended.stderr
    after = {path: path.stat().st_size for path in before if path.exists()}
    assert after == before


def test_a_torn_tail_after_a_kill_is_repaired_without_a_word_from_anyone(start_broker: StartBroker) -> None:
    broker = start_broker()
    topic = Topics(broker.bootstrap).create()
    Confluent().produce(broker.bootstrap, topic, [Message(value=b"v" * 20_000)] * 20)
    broker.kill()
    # What a machine that lost power leaves at the end of the file written last.
    newest = max(Path(broker.data).rglob("*.log"), key=lambda path: path.stat().st_mtime_ns)
    with newest.open("ab") as file:
        file.write(b"\x00torn\xff" * 7)

    broker.start()

    Topics(broker.bootstrap).wait(topic, 1)
    low, high = Confluent().watermarks(broker.bootstrap, topic, 0)
    assert (low, high) == (0, 20)
    with Wire(broker.bootstrap) as wire:
        assert wire.fetch(topic, 0, partition_max_bytes=10 << 20).error_code == 0
    assert Confluent().produce(broker.bootstrap, topic, [Message(value=b"next")]) == [20]
