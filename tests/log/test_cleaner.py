"""The cleaner at work: in steps, at its pace, one partition after the other."""

import threading
import time
from types import SimpleNamespace

import pytest

from kompat.errors import StorageError
from kompat.log import cleaner
from kompat.log.storage.store import Run
from tests.log.support import COMPACT, Log, content, write


def test_a_full_disk_stops_the_cleaner_and_loses_nothing() -> None:
    log = Log(**COMPACT)
    write(log, (b"a", b"1"))
    write(log, (b"a", b"2"))
    log.roll()
    log.store.is_full = True
    assert not log.compact()
    assert content(log) == [(0, b"a", b"1"), (1, b"a", b"2")]
    log.store.is_full = False
    assert log.compact()
    assert content(log) == [(1, b"a", b"2")]


def test_a_long_segment_is_cleaned_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cleaner, "STEP_BYTES", 300)
    monkeypatch.setattr(cleaner, "READ_BYTES", 500)
    log = Log(**COMPACT)
    for i in range(50):
        write(log, (b"%d" % (i % 7), b"%d" % i))
    log.roll()
    log.compact()
    assert [r.offset for r in log.records()] == list(range(43, 50))


def test_the_worker_keeps_to_its_bytes_per_second() -> None:
    throttle = cleaner.Throttle(1_000_000)
    begun = time.monotonic()
    for _ in range(10):
        throttle.spent(5_000)
        time.sleep(0.0011)  # real work takes its time, too
    throttle.spent(0)
    assert time.monotonic() - begun >= 0.045


def test_a_worker_that_rests_is_woken_by_the_end() -> None:
    throttle = cleaner.Throttle(1.0)
    time.sleep(0.0011)
    threading.Timer(0.01, throttle.stop).start()
    with pytest.raises(cleaner.Stopped):
        throttle.spent(1000)  # a rest of a thousand seconds


def test_a_partition_that_cannot_be_cleaned_does_not_keep_others_from_it() -> None:
    broken, good = Log(**COMPACT), Log(**COMPACT)
    for log in (broken, good):
        write(log, (b"a", b"1"))
        write(log, (b"a", b"2"))
        log.roll()

    def fail(*_: object) -> Run:
        raise StorageError("the disk is gone")

    broken.partition.log.store = SimpleNamespace(read=fail)  # type: ignore[assignment]
    worker = cleaner.Cleaner(cleaner.CleanerSettings())
    assert good.run(worker.clean_all([broken.partition, good.partition], good.clock.now())) == 1
    worker.close()
    assert content(good) == [(1, b"a", b"2")]
