"""A disk without room: writes are refused, reads are served, and it goes on when there is room again."""

import contextlib
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaException

from interop_tests.conftest import StartBroker
from interop_tests.support.clients.base import Message
from interop_tests.support.clients.confluent import Confluent, producer
from interop_tests.support.codes import Code
from interop_tests.support.command import Command
from interop_tests.support.topics import Topics, fresh_name
from interop_tests.support.wait import until
from interop_tests.support.wire import Wire, batch

DISK_BYTES = 160 << 20
RESERVE_BYTES = 24 << 20
BALLAST_BYTES = 60 << 20
RECORD = b"x" * 500_000


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "kompat-test", str(place)],
        capture_output=True,
        text=True,
        check=False,
    )
    if mounted.returncode != 0:
        pytest.skip(f"a small disk needs the right to mount one: {mounted.stderr.strip()}")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def write_until_refused(wire: Wire, topic: str) -> int:
    """Large records, then small ones, until not even these are taken; the number that were."""
    taken = 0
    for size in (500_000, 50_000, 5_000, 500):
        while (answer := wire.produce(topic, batch([b"x" * size]))).error_code == 0:
            taken += 1
            assert taken < 2 * DISK_BYTES // len(RECORD), "more was taken than the disk holds"
        assert answer.error_code == Code.KAFKA_STORAGE_ERROR
    return taken


def test_a_full_disk_refuses_writes_serves_reads_and_recovers(start_broker: StartBroker, small_disk: Path) -> None:
    ballast = small_disk / "ballast"
    with ballast.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, BALLAST_BYTES)
    broker = start_broker({"kompat.disk.reserve.bytes": str(RESERVE_BYTES)}, data=small_disk / "data")
    topics = Topics(broker.bootstrap)
    topic = topics.create()

    with Wire(broker.bootstrap) as wire:
        taken = write_until_refused(wire, topic)
        assert taken > 20
        assert wire.produce(topic, batch([b"even a small one"])).error_code == Code.KAFKA_STORAGE_ERROR
        assert Confluent().watermarks(broker.bootstrap, topic, 0) == (0, taken)
        found = Confluent().consume(broker.bootstrap, topic, 0, start=0, count=taken)
        assert [record.offset for record in found] == list(range(taken))
        told = json.loads(Command(broker.bootstrap).run("doctor", "--no-http", "--json").stdout)["findings"]
        [disk] = [each for each in told if each["level"] == "wrong"]
        assert (disk["about"], "(24.0 MiB) writes are refused" in disk["advice"]) == ("disk", True)
        ballast.unlink()
        until(lambda: wire.produce(topic, batch([b"room again"])).error_code == 0, "writes are taken again")
        assert wire.fetch(topic, taken).high_watermark == taken + 1

    broker.restart()
    Topics(broker.bootstrap).wait(topic, 1)
    assert Confluent().watermarks(broker.bootstrap, topic, 0) == (0, taken + 1)
    assert Confluent().produce(broker.bootstrap, topic, [Message(value=b"after the restart")]) == [taken + 1]


def test_a_client_gets_its_error_and_a_retrying_one_gets_through(start_broker: StartBroker, small_disk: Path) -> None:
    ballast = small_disk / "ballast"
    with ballast.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, BALLAST_BYTES)
    broker = start_broker({"kompat.disk.reserve.bytes": str(RESERVE_BYTES)}, data=small_disk / "data")
    topics = Topics(broker.bootstrap)
    topic = topics.create()
    with Wire(broker.bootstrap) as wire:
        taken = write_until_refused(wire, topic)
    errors: list[str] = []
    offsets: list[int] = []

    hasty = producer(broker.bootstrap, retries=0)
    hasty.produce(topic, b"now or never", on_delivery=lambda error, _: errors.append(error.name()))
    hasty.flush(20)
    patient = producer(broker.bootstrap, **{"enable.idempotence": True})
    patient.produce(
        topic, b"whenever", on_delivery=lambda error, message: offsets.append(-1 if error else message.offset())
    )
    patient.flush(1)
    ballast.unlink()
    patient.flush(30)

    assert errors == ["KAFKA_STORAGE_ERROR"]
    assert offsets == [taken]


def fill_up(path: Path) -> None:
    """Take the very last byte of the disk."""
    with contextlib.suppress(OSError), path.open("wb", buffering=0) as file:
        while file.write(b"\0" * 65536):
            pass


def test_a_broker_killed_and_started_on_a_full_disk_serves_reads(start_broker: StartBroker, small_disk: Path) -> None:
    broker = start_broker({"kompat.disk.reserve.bytes": str(RESERVE_BYTES)}, data=small_disk / "data")
    topic = Topics(broker.bootstrap).create()
    with Wire(broker.bootstrap) as wire:
        taken = write_until_refused(wire, topic)

    broker.kill()
    broker.start()

    Topics(broker.bootstrap).wait(topic, 1)
    assert Confluent().watermarks(broker.bootstrap, topic, 0) == (0, taken)
    assert len(Confluent().consume(broker.bootstrap, topic, 0, start=0, count=taken)) == taken
    with Wire(broker.bootstrap) as wire:
        until(
            lambda: wire.produce(topic, batch([b"no room"])).error_code == Code.KAFKA_STORAGE_ERROR,
            "writes are refused",
        )


def test_reads_go_on_when_somebody_else_takes_the_last_byte(start_broker: StartBroker, small_disk: Path) -> None:
    broker = start_broker({"kompat.disk.reserve.bytes": str(RESERVE_BYTES)}, data=small_disk / "data")
    topic = Topics(broker.bootstrap).create()
    offsets = Confluent().produce(broker.bootstrap, topic, [Message(value=RECORD)] * 20)
    thief = small_disk / "thief"
    fill_up(thief)

    with Wire(broker.bootstrap) as wire:
        until(
            lambda: wire.produce(topic, batch([b"no room"])).error_code == Code.KAFKA_STORAGE_ERROR,
            "writes are refused",
        )
        assert len(Confluent().consume(broker.bootstrap, topic, 0, start=0, count=20)) == 20
        broker.kill()
        thief.unlink()
        broker.start()

    Topics(broker.bootstrap).wait(topic, 1)
    with Wire(broker.bootstrap) as wire:
        end = Confluent().watermarks(broker.bootstrap, topic, 0)[1]
        found = Confluent().consume(broker.bootstrap, topic, 0, start=0, count=end)
        assert [record.offset for record in found if record.value == RECORD] == offsets
        assert wire.produce(topic, batch([b"room"])).base_offset == end


@pytest.mark.parametrize("way", ["records", "topic"])
def test_room_can_be_made_by_deleting_through_the_broker(start_broker: StartBroker, small_disk: Path, way: str) -> None:
    upkeep = {"log.segment.delete.delay.ms": "100", "log.retention.check.interval.ms": "200"}
    broker = start_broker({"kompat.disk.reserve.bytes": str(RESERVE_BYTES), **upkeep}, data=small_disk / "data")
    topics = Topics(broker.bootstrap)
    full, other = topics.create(segment_bytes=1 << 20, file_delete_delay_ms=100), topics.create()
    with Wire(broker.bootstrap) as wire:
        taken = write_until_refused(wire, full)

        if way == "records":
            assert topics.delete_records(full, 0, before=taken) == taken
        else:
            topics.admin.delete_topics([full])[full].result(20)

        until(lambda: wire.produce(other, batch([b"room"])).error_code == 0, "there is room again", seconds=30)


def test_a_topic_that_finds_no_room_is_refused_and_not_there(start_broker: StartBroker, small_disk: Path) -> None:
    broker = start_broker({"kompat.disk.reserve.bytes": str(RESERVE_BYTES)}, data=small_disk / "data")
    topics = Topics(broker.bootstrap)
    topic, name = topics.create(), fresh_name()
    ballast = small_disk / "ballast"
    fill_up(ballast)
    os.truncate(ballast, ballast.stat().st_size - RESERVE_BYTES // 2)

    with Wire(broker.bootstrap) as wire:
        until(lambda: wire.produce(topic, batch([b"v"])).error_code == Code.KAFKA_STORAGE_ERROR, "writes are refused")
    with pytest.raises(KafkaException) as refused:
        topics.create_named(name)
    assert refused.value.args[0].code() == Code.KAFKA_STORAGE_ERROR
    assert name not in topics.names()
    ballast.unlink()

    until(lambda: is_created(topics, name), "it is created when there is room")


def is_created(topics: Topics, name: str) -> bool:
    try:
        topics.create_named(name)
    except KafkaException:
        return False
    return True
