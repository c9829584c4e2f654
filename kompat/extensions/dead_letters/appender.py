"""Appends dead-letter records to their topics, on whichever brokers these are led."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress

from kompat.cluster.state import Topic
from kompat.errors import KafkaError
from kompat.extensions.dead_letters.forwarder import ExactlyOnceForwarder, sender_of
from kompat.protocol.records import Record
from kompat.share.events import Place
from kompat.share.partition import SharePartition
from kompat.types import LogId

# From a group and a topic to the dead-letter topic, created if it does not exist; None: no dead-letter records are written.
FindTopic = Callable[[str, str], Awaitable[Topic | None]]


class DlqAppender:
    """The dead-letter records of a partition always go to the same partition."""

    def __init__(self, find: FindTopic, forwarder: ExactlyOnceForwarder) -> None:
        self._find = find
        self._forwarder = forwarder

    async def append(self, live: SharePartition, records: Mapping[int, Record], codec: int) -> Mapping[int, Place]:
        """The dead-letter records are given by the offset of the original record; returns the positions of those that are new.
        Raises KafkaError."""
        topic = await self._find(live.key.group_id, live.log.topic)
        if topic is None or not records:
            return {}
        target = _target(topic, live)
        written = await self._forwarder.send(live.log, target, _sender(live), records, codec=codec)
        return {offset: Place(topic.name, target.partition, place) for offset, place in written.items()}

    async def finished(self, live: SharePartition, offsets: Sequence[int]) -> None:
        """They will not be appended again."""
        with suppress(KafkaError):
            topic = await self._find(live.key.group_id, live.log.topic)
            if topic is not None and offsets:
                await self._forwarder.finished(_target(topic, live), _sender(live), offsets)


def _target(topic: Topic, live: SharePartition) -> LogId:
    return LogId(topic.id, live.log.index % len(topic.partitions))


def _sender(live: SharePartition) -> bytes:
    return sender_of(f"{live.state_epoch}:{live.key.coordinator_key}")
