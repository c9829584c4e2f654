"""ACLs and quotas for routes that call no handler of Kafka's APIs, which would check them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from time import perf_counter
from typing import TYPE_CHECKING, TypeVar

from kompat.admin.requests import CLIENT_ID, LONGEST_WAIT
from kompat.handlers.support.loop_time import LoopTime
from kompat.security.acls import Kind, Operation

if TYPE_CHECKING:
    from kompat.admin.route import Call

T = TypeVar("T")


def may_read(call: Call, topic: str) -> None:
    call.require(Operation.READ, Kind.TOPIC, topic)


def may_write(call: Call, topic: str) -> None:
    call.require(Operation.WRITE, Kind.TOPIC, topic)


def may_take(call: Call, topic: str, group: str) -> None:
    """Require the rights of a member of a share group."""
    call.require(Operation.READ, Kind.GROUP, group)
    call.require(Operation.READ, Kind.TOPIC, topic)


async def charge(call: Call, size: int) -> None:
    """Count the bytes that were read, and wait as long as the caller's quota throttles it."""
    quotas = call.services.quotas
    if quotas.is_enabled:
        await _wait(call, quotas.fetched(call.principal, CLIENT_ID, size))


async def worked(call: Call, work: Awaitable[T]) -> T:
    """The result of `work`. Its time on the event loop counts for the request quota, as that of Kafka's requests does."""
    time = LoopTime(perf_counter())
    try:
        result: T = await time.timed(work)
    finally:
        waits = call.services.quotas.worked(call.principal, CLIENT_ID, time.spent)
    await _wait(call, waits)
    return result


async def _wait(call: Call, ms: int) -> None:
    if ms > 0:
        await call.unless_stopping(asyncio.sleep(min(ms / 1000, LONGEST_WAIT)))
