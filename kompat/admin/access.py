"""What whoever came by HTTP may do, where no handler of Kafka's judges it: by the same ACLs."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
