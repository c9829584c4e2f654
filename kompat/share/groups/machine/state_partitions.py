"""For which partitions a share group has a state in `__share_group_state`, and for which it is initialized or deleted.

The share coordinator has the states: its tasks are returned from here, and their results reported back.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import TypeVar
from uuid import UUID

from kompat.errors import ErrorCode
from kompat.groups.machine.state import GroupState, Turn
from kompat.groups.machine.topics import TopicInfo
from kompat.groups.records import Assignment, ShareGroupStatePartitionMetadata, TopicPart, TopicParts
from kompat.share.groups.machine.group import ShareGroup, States
from kompat.share.groups.machine.messages import ShareOffsetsDeletion
from kompat.types import Millis

T = TypeVar("T")
UNKNOWN_TOPIC = "<UNKNOWN>"  # Kafka's name for topics that were deleted


class StatePartitions:
    def __init__(self, state: GroupState) -> None:
        self._state = state
        self._begun: dict[str, Millis] = {}  # soft state: since when a group's states are being initialized

    def resign(self) -> None:
        self._begun.clear()

    # --- getting one

    def missing(self, group: ShareGroup, names: Iterable[str], turn: Turn) -> Assignment:
        """Partitions of these topics that need a state, and for which none is being initialized."""
        states = group.states or States()
        begun = self._begun.get(group.group_id)
        retry_after = self._state.settings.share_initialize_retry_interval_ms
        is_under_way = begun is not None and turn.now - begun < retry_after
        found: dict[UUID, frozenset[int]] = {}
        for topic in self._existing(names):
            known = _partitions(states.initialized_topics, topic.topic_id)
            if is_under_way:
                known |= _partitions(states.initializing_topics, topic.topic_id)
            if len(known) < topic.partitions:
                found[topic.topic_id] = frozenset(range(topic.partitions)) - known
        return found

    def begin(self, group: ShareGroup, partitions: Assignment, turn: Turn) -> None:
        """Initialization of these begins."""
        if not partitions:
            return
        states = group.states or States()
        deleting = {key: name for key, name in states.deleting_topics.items() if key not in partitions}
        initializing = _united(states.initializing_topics, self._named(partitions))
        _write(group, replace(states, initializing_topics=initializing, deleting_topics=deleting), turn)
        self._begun[group.group_id] = turn.now

    def made(self, group: ShareGroup, partitions: Assignment, turn: Turn) -> None:
        """These are initialized."""
        states = group.states or States()
        initialized = _united(states.initialized_topics, self._named(partitions))
        initializing = self._ended(group, states, partitions)
        _write(group, replace(states, initialized_topics=initialized, initializing_topics=initializing), turn)

    def failed(self, group: ShareGroup, partitions: Assignment, turn: Turn) -> None:
        """Initialization of these failed."""
        states = group.states
        if states is not None and states.initializing_topics:
            initializing = self._ended(group, states, partitions)
            _write(group, replace(states, initializing_topics=initializing), turn)

    def _ended(self, group: ShareGroup, states: States, partitions: Assignment) -> TopicParts:
        """What is being initialized, without these."""
        left: dict[UUID, TopicPart] = {}
        for topic_id, part in states.initializing_topics.items():
            numbers = part.partitions - partitions.get(topic_id, frozenset())
            if numbers:
                left[topic_id] = TopicPart(part.name, numbers)
        if not left:
            self._begun.pop(group.group_id, None)
        return left

    # --- giving them up

    def delete_all(self, group: ShareGroup, turn: Turn) -> Assignment:
        """Begin to delete the group, with all its states first."""
        states = group.states
        if states is None:
            return {}
        again = {key: topic for key in states.deleting_topics if (topic := self._state.topics.find_by_id(key))}
        found = _united(states.initialized_topics, states.initializing_topics)
        found = _united(found, {key: _whole(topic) for key, topic in again.items()})
        self._begun.pop(group.group_id, None)
        _write(group, States(deleting_topics={key: part.name for key, part in found.items()}), turn)
        return {key: part.partitions for key, part in found.items()}

    def delete(self, group: ShareGroup, names: Iterable[str], turn: Turn) -> ShareOffsetsDeletion:
        """Begin to delete the states of these topics."""
        wanted = list(names)
        states = group.states
        if states is None:
            return ShareOffsetsDeletion(partitions={}, unknown={})
        initialized, deleting = dict(states.initialized_topics), dict(states.deleting_topics)
        found: dict[UUID, frozenset[int]] = {}
        unknown: dict[str, ErrorCode] = {}
        for name in wanted:
            topic = self._state.topics.find(name)
            part = initialized.pop(topic.topic_id, None) if topic is not None else None
            if topic is not None and part is not None:
                found[topic.topic_id] = part.partitions
                deleting[topic.topic_id] = name
            elif topic is not None and topic.topic_id in deleting:
                found[topic.topic_id] = frozenset(range(topic.partitions))
            else:
                unknown[name] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        _write(group, replace(states, initialized_topics=initialized, deleting_topics=deleting), turn)
        return ShareOffsetsDeletion(partitions=found, unknown=unknown)

    def deleted(self, group: ShareGroup, topic_ids: Collection[UUID], turn: Turn) -> None:
        """The states of these topics are deleted."""
        states = group.states
        if states is not None:
            deleting = {key: name for key, name in states.deleting_topics.items() if key not in topic_ids}
            _write(group, replace(states, deleting_topics=deleting), turn)

    def forget_topics(self, topic_ids: Collection[UUID], turn: Turn) -> None:
        """Topics were deleted: forget their states in all groups."""
        for group in self._state.groups.values():
            if isinstance(group, ShareGroup) and group.states is not None:
                states = group.states
                kept = States(
                    initializing_topics=_kept(states.initializing_topics, topic_ids),
                    initialized_topics=_kept(states.initialized_topics, topic_ids),
                    deleting_topics=_kept(states.deleting_topics, topic_ids),
                )
                if kept != states:
                    _write(group, kept, turn)

    # --- topics

    def _existing(self, names: Iterable[str]) -> list[TopicInfo]:
        found = (self._state.topics.find(name) for name in names)
        return [topic for topic in found if topic is not None]

    def _named(self, partitions: Assignment) -> TopicParts:
        found: dict[UUID, TopicPart] = {}
        for topic_id, numbers in partitions.items():
            topic = self._state.topics.find_by_id(topic_id)
            found[topic_id] = TopicPart(UNKNOWN_TOPIC if topic is None else topic.name, numbers)
        return found


def _write(group: ShareGroup, states: States, turn: Turn) -> None:
    turn.records.append(ShareGroupStatePartitionMetadata(group_id=group.group_id, value=states))


def _partitions(parts: TopicParts, topic_id: UUID) -> frozenset[int]:
    part = parts.get(topic_id)
    return frozenset() if part is None else part.partitions


def _whole(topic: TopicInfo) -> TopicPart:
    return TopicPart(topic.name, frozenset(range(topic.partitions)))


def _united(some: TopicParts, more: TopicParts) -> dict[UUID, TopicPart]:
    """The union of both; a topic keeps the name that it already has."""
    found = dict(some)
    for topic_id, part in more.items():
        known = found.get(topic_id)
        found[topic_id] = part if known is None else TopicPart(known.name, known.partitions | part.partitions)
    return found


def _kept(topics: Mapping[UUID, T], gone: Collection[UUID]) -> dict[UUID, T]:
    return {topic_id: each for topic_id, each in topics.items() if topic_id not in gone}
