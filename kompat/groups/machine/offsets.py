"""Committed offsets of all groups of a partition: plain ones, and those of transactions that are still open."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from kompat.groups.records import EndTransaction, OffsetCommit, OffsetCommitValue
from kompat.types import NO_PRODUCER, ProducerId


@dataclass(frozen=True, slots=True)
class StoredOffset:
    value: OffsetCommitValue
    sequence: int  # when it was written, counted in records


Place: TypeAlias = tuple[str, int]  # topic, partition


class Offsets:
    def __init__(self) -> None:
        self._by_group: dict[str, dict[str, dict[int, StoredOffset]]] = {}
        self._pending: dict[ProducerId, dict[tuple[str, str, int], StoredOffset]] = {}
        self._open: dict[str, dict[Place, set[ProducerId]]] = {}  # group → partition → producers with a pending offset
        self._sequence = 0

    # --- reading

    def of_group(self, group_id: str) -> dict[str, dict[int, StoredOffset]]:
        return self._by_group.get(group_id, {})

    def find(self, group_id: str, topic: str, partition: int) -> OffsetCommitValue | None:
        stored = self._by_group.get(group_id, {}).get(topic, {}).get(partition)
        return stored.value if stored is not None else None

    def furthest(self, topic: str, partition: int) -> int | None:
        """The highest offset that any group has committed."""
        found = (topics[topic].get(partition) for topics in self._by_group.values() if topic in topics)
        return max((stored.value.offset for stored in found if stored is not None), default=None)

    def is_pending(self, group_id: str, topic: str, partition: int) -> bool:
        """Whether an open transaction has an offset for it."""
        return (topic, partition) in self._open.get(group_id, {})

    def pending_of(self, producer_id: ProducerId) -> list[tuple[str, str, int, int]]:
        """Group, topic, partition and offset of the pending offsets of a producer's transaction."""
        return [(*place, stored.value.offset) for place, stored in self._pending.get(producer_id, {}).items()]

    def has_pending(self, group_id: str) -> bool:
        return group_id in self._open

    def places(self, group_id: str) -> Iterator[Place]:
        """All partitions that the group has an offset for, committed or pending."""
        for topic, partitions in self.of_group(group_id).items():
            for partition in partitions:
                yield topic, partition
        for topic, partition in self._open.get(group_id, {}):
            if self.find(group_id, topic, partition) is None:
                yield topic, partition

    def all(self) -> list[tuple[str, str, int, int]]:
        """Group, topic, partition and offset of all committed offsets."""
        return [
            (group_id, topic, partition, stored.value.offset)
            for group_id, topics in self._by_group.items()
            for topic, partitions in topics.items()
            for partition, stored in partitions.items()
        ]

    def of_topic(self, topic: str) -> Iterator[tuple[str, int, OffsetCommitValue]]:
        """Group, partition and offset of all offsets for a topic."""
        for group_id, topics in self._by_group.items():
            for partition, stored in topics.get(topic, {}).items():
                yield group_id, partition, stored.value
        for offsets in self._pending.values():
            for (group_id, name, partition), stored in offsets.items():
                if name == topic:
                    yield group_id, partition, stored.value

    # --- records

    def apply(self, record: OffsetCommit) -> None:
        self._sequence += 1
        group_id, topic, partition = record.group_id, record.topic, record.partition
        if record.value is None:
            self._remove(group_id, topic, partition)
        elif record.producer_id == NO_PRODUCER:
            self._put(group_id, topic, partition, StoredOffset(record.value, self._sequence))
        else:
            stored = StoredOffset(record.value, self._sequence)
            self._pending.setdefault(record.producer_id, {})[group_id, topic, partition] = stored
            self._open.setdefault(group_id, {}).setdefault((topic, partition), set()).add(record.producer_id)

    def apply_end(self, record: EndTransaction) -> None:
        for (group_id, topic, partition), stored in self._pending.pop(record.producer_id, {}).items():
            self._close(group_id, (topic, partition), record.producer_id)
            if record.is_commit:
                known = self._by_group.get(group_id, {}).get(topic, {}).get(partition)
                # An offset that was committed outside of the transaction, after the pending one, is newer.
                if known is None or known.sequence < stored.sequence:
                    self._put(group_id, topic, partition, stored)

    def _put(self, group_id: str, topic: str, partition: int, stored: StoredOffset) -> None:
        self._by_group.setdefault(group_id, {}).setdefault(topic, {})[partition] = stored

    def _remove(self, group_id: str, topic: str, partition: int) -> None:
        topics = self._by_group.get(group_id, {})
        partitions = topics.get(topic, {})
        partitions.pop(partition, None)
        if not partitions:
            topics.pop(topic, None)
        if not topics:
            self._by_group.pop(group_id, None)
        for producer_id in list(self._open.get(group_id, {}).get((topic, partition), ())):
            pending = self._pending[producer_id]
            pending.pop((group_id, topic, partition), None)
            if not pending:
                del self._pending[producer_id]
            self._close(group_id, (topic, partition), producer_id)

    def _close(self, group_id: str, place: Place, producer_id: ProducerId) -> None:
        places = self._open[group_id]
        places[place].discard(producer_id)
        if not places[place]:
            del places[place]
            if not places:
                del self._open[group_id]
