"""Takes dead letters to the brokers that lead the topics for them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress

from kompat.cluster.state import Topic
from kompat.errors import KafkaError
from kompat.extensions.courier import Courier, sender_of
from kompat.protocol.records import Record
from kompat.share.events import Place
from kompat.share.live import LivePartition
from kompat.types import LogId

# From a group and a topic to the dead-letter topic, which is made if need be; None: letters are not wanted.
FindTopic = Callable[[str, str], Awaitable[Topic | None]]


class LetterPost:
    """In a cluster. The letters of a partition always go to the same one."""

    def __init__(self, find: FindTopic, courier: Courier) -> None:
        self._find = find
        self._courier = courier

    async def send(self, live: LivePartition, letters: Mapping[int, Record]) -> Mapping[int, Place]:
        topic = await self._find(live.key.group_id, live.log.topic)
        if topic is None or not letters:
            return {}
        box = _box(topic, live)
        written = await self._courier.send(box, _sender(live), letters)
        return {offset: Place(topic.name, box.partition, letter) for offset, letter in written.items()}

    async def finished(self, live: LivePartition, offsets: Sequence[int]) -> None:
        with suppress(KafkaError):
            topic = await self._find(live.key.group_id, live.log.topic)
            if topic is not None and offsets:
                await self._courier.finished(_box(topic, live), _sender(live), offsets)


def _box(topic: Topic, live: LivePartition) -> LogId:
    return LogId(topic.id, live.log.index % len(topic.partitions))


def _sender(live: LivePartition) -> bytes:
    return sender_of(f"{live.state_epoch}:{live.key.coordinator_key}")
