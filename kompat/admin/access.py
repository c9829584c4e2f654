"""What whoever came by HTTP may do, and how much, where no handler of Kafka's judges it: by the same ACLs and quotas."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from kompat.admin.requests import CLIENT_ID, LONGEST_WAIT
from kompat.security.acls import Kind, Operation

if TYPE_CHECKING:
    from kompat.admin.route import Call


def may_read(call: Call, topic: str) -> None:
    call.require(Operation.READ, Kind.TOPIC, topic)


def may_write(call: Call, topic: str) -> None:
    call.require(Operation.WRITE, Kind.TOPIC, topic)


def may_take(call: Call, topic: str, group: str) -> None:
    """As a member of a share group may."""
    call.require(Operation.READ, Kind.GROUP, group)
    call.require(Operation.READ, Kind.TOPIC, topic)


async def charge(call: Call, size: int) -> None:
    """So many bytes were read: who has read too much has to wait for them."""
    quotas = call.services.quotas
    if quotas.is_enabled:
        waits = quotas.fetched(call.principal, CLIENT_ID, size) / 1000
        if waits > 0:
            await call.unless_stopping(asyncio.sleep(min(waits, LONGEST_WAIT)))
