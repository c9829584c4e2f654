"""Takes dead letters to the brokers that lead the topics for them."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from hashlib import blake2b
from typing import Any
from uuid import UUID

from kompat.clock import Clock
from kompat.cluster.asking import Asking
from kompat.cluster.state import Topic
from kompat.errors import ErrorCode, KafkaError
from kompat.log.manager import Logs
from kompat.log.partition import Partition
from kompat.protocol.records import Record, build_batch, iterate
from kompat.share.events import Place
from kompat.share.letterboxes import SENDER_SIZE, Letterboxes
from kompat.share.live import LivePartition
from kompat.types import LogId

# From a group and a topic to the dead-letter topic, which is made if need be; None: letters are not wanted.
FindTopic = Callable[[str, str], Awaitable[Topic | None]]


class LetterPost:
    """In a cluster. The letters of a partition always go to the same one: there it is known which of them were written."""

    def __init__(self, find: FindTopic, asking: Asking, logs: Logs, clock: Clock) -> None:
        self._find = find
        self._asking = asking
        self._logs = logs
        self._boxes = Letterboxes(clock)
        asking.serve("share-letters", self._on_letters)
        asking.serve("share-letters-done", self._on_done)

    # -- sending ---------------------------------------------------------------------------------------------------
    async def send(self, live: LivePartition, letters: Mapping[int, Record]) -> Mapping[int, Place]:
        topic = await self._find(live.key.group_id, live.log.topic)
        if topic is None or not letters:
            return {}
        box = _box(topic, live)
        batch = build_batch(
            [
                Record(place, each.timestamp, each.key, each.value, each.headers)
                for place, each in enumerate(letters.values())
            ]
        )
        told = [*_named(box, live), list(letters), b64encode(batch).decode()]
        written = await self._asking.ask(box, "share-letters", told)
        return {offset: Place(topic.name, box.partition, letter) for offset, letter in written}

    async def finished(self, live: LivePartition, offsets: Sequence[int]) -> None:
        """Should nobody be told, the marks go with time."""
        with suppress(KafkaError):
            topic = await self._find(live.key.group_id, live.log.topic)
            if topic is not None and offsets:
                box = _box(topic, live)
                await self._asking.ask(box, "share-letters-done", [*_named(box, live), offsets])

    # -- receiving -------------------------------------------------------------------------------------------------
    async def _on_letters(self, told: Sequence[Any]) -> list[tuple[int, int]]:
        topic_id, partition, sender, offsets, batch = told
        records = iterate(memoryview(b64decode(batch)))
        letters = dict(zip(offsets, records, strict=True))
        written = await self._boxes.put(self._log(topic_id, partition), bytes.fromhex(sender), letters)
        return list(written.items())

    async def _on_done(self, told: Sequence[Any]) -> None:
        topic_id, partition, sender, offsets = told
        await self._boxes.forget(self._log(topic_id, partition), bytes.fromhex(sender), offsets)

    def _log(self, topic_id: str, partition: int) -> Partition:
        log = self._logs.find_by_id(UUID(topic_id), partition)
        if log is None or not log.is_led:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return log


def _box(topic: Topic, live: LivePartition) -> LogId:
    return LogId(topic.id, live.log.index % len(topic.partitions))


def _named(box: LogId, live: LivePartition) -> list[Any]:
    """The box, and what stands for the share partition there."""
    origin = f"{live.state_epoch}:{live.key.coordinator_key}".encode()
    return [box.topic_id.hex, box.partition, blake2b(origin, digest_size=SENDER_SIZE).hexdigest()]
