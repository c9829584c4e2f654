"""What brokers of a cluster ask each other, besides Raft's messages: the kinds of calls, and what is needed to make them."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Protocol

from kompat.types import Buffer, NodeId


class Call(IntEnum):
    HELLO = 16  # who are you, and whom do you know?
    CONTROL = 17  # a command for the controller
    FORWARD = 18  # a client's request for the controller
    LEADERS = 19  # what the sender leads
    TRANSFER = 20  # give the lead of a partition to another replica
    ASK = 21  # a command for a partition's leader
    APPEND = 22  # a batch for a partition that the receiver leads
    REACH = 23  # do you have a link to another broker, and what does it lead?
    REQUEST = 24  # a request of Kafka's for the receiver, of somebody who came to the sender by HTTP
    RECOVER = 26  # is your replica in doubt, and, where an operator accepts the loss: go on with what it has
    TELL = 25  # what the receiver alone knows of itself, for the sender's HTTP door


class Calling(Protocol):
    """The part of `raft.peers.Peers` by which others are asked."""

    async def call(self, to: NodeId, kind: int, body: Sequence[Buffer], timeout: float) -> memoryview:  # noqa: ASYNC109
        ...
