import asyncio

import pytest

from kompat.clock import SystemClock
from kompat.coordination.timers import Alarm
from kompat.errors import ErrorCode, KafkaError
from kompat.types import Millis
from tests.coordination.support import Audience, Disk, Node, TimedLedger, runtime_on


async def until(is_true: object, seconds: float = 2.0) -> None:
    async with asyncio.timeout(seconds):
        while not is_true():  # type: ignore[operator]  # noqa: ASYNC110 - what is waited for is not ours
            await asyncio.sleep(0.001)


async def test_a_deadline_becomes_a_command_whose_records_are_committed() -> None:
    audience = Audience()
    runtime = runtime_on(Node(Disk()), TimedLedger, audience=audience)
    soon = Millis(SystemClock().now() + 20)

    await runtime.run(lambda ledger: ledger.remind(soon))  # type: ignore[attr-defined]
    assert audience.heard == []
    await until(lambda: audience.heard)

    assert runtime.machine.sums == {"ticks": 1}
    assert SystemClock().now() >= soon
    await runtime.close()


async def test_an_earlier_deadline_is_met_in_time() -> None:
    audience = Audience()
    runtime = runtime_on(Node(Disk()), TimedLedger, audience=audience)
    now = SystemClock().now()

    await runtime.run(lambda ledger: ledger.remind(Millis(now + 60_000)))  # type: ignore[attr-defined]
    await runtime.run(lambda ledger: ledger.remind(Millis(now + 10)))  # type: ignore[attr-defined]
    await until(lambda: audience.heard)
    await runtime.close()


async def test_after_a_deadline_that_moved_later_the_alarm_rings_again() -> None:
    audience = Audience()
    runtime = runtime_on(Node(Disk()), TimedLedger, audience=audience)
    now = SystemClock().now()

    await runtime.run(lambda ledger: ledger.remind(Millis(now + 10)))  # type: ignore[attr-defined]
    await runtime.run(lambda ledger: ledger.remind(Millis(now + 40)))  # type: ignore[attr-defined]
    await until(lambda: audience.heard)

    assert SystemClock().now() >= now + 40
    await runtime.close()


async def test_nothing_rings_after_the_end() -> None:
    runtime = runtime_on(Node(Disk()), TimedLedger)
    await runtime.run(lambda ledger: ledger.remind(Millis(SystemClock().now() + 10)))  # type: ignore[attr-defined]
    await runtime.close()
    await asyncio.sleep(0.03)

    assert runtime.machine.sums == {}


async def test_a_command_that_could_not_be_written_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kompat.coordination.timers._RETRY", 0.01)
    attempts = 0

    async def ring() -> None:
        nonlocal attempts
        attempts += 1
        if attempts < 3:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)

    alarm = Alarm(SystemClock(), lambda: Millis(0) if attempts < 3 else None, ring)
    alarm.arm()
    await until(lambda: attempts == 3)
    await asyncio.sleep(0.03)

    assert attempts == 3
    alarm.close()
