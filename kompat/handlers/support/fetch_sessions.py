"""Fetch sessions (KIP-227): the partitions of a consumer are remembered, so that each request and response has only changes.

Pure: the time and new session ids are arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from uuid import UUID

from kompat.errors import ErrorCode, KafkaError
from kompat.protocol.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from kompat.types import Millis

NO_SESSION = 0
INITIAL_EPOCH = 0
FINAL_EPOCH = -1  # "no session, please", and with a session id: "close it"
MAX_EPOCH = 2**31 - 1
FIRST_VERSION_WITH_TOPIC_IDS = 13
STEP = 500  # partitions

Key = tuple[str, UUID, int]


@dataclass(slots=True)
class Wanted:
    """A partition that a consumer fetches, and what was last sent about it."""

    topic: str
    topic_id: UUID
    index: int
    fetch_offset: int
    max_bytes: int
    current_leader_epoch: int
    last_fetched_epoch: int
    sent_high_watermark: int = -1
    sent_log_start_offset: int = -1


@dataclass(slots=True)
class Session:
    id: int
    epoch: int  # expected in the next request
    uses_topic_ids: bool
    wanted: dict[Key, Wanted]
    last_used: Millis

    def add(self, topic: FetchTopic, partitions: Sequence[FetchPartition]) -> None:
        name, topic_id, wanted = topic.topic, topic.topic_id, self.wanted
        for p in partitions:
            key = (name, topic_id, p.partition)
            known = wanted.get(key)
            if known is None:
                wanted[key] = Wanted(
                    name,
                    topic_id,
                    p.partition,
                    p.fetch_offset,
                    p.partition_max_bytes,
                    p.current_leader_epoch,
                    p.last_fetched_epoch,
                )
            else:
                known.fetch_offset = p.fetch_offset
                known.max_bytes = p.partition_max_bytes
                known.current_leader_epoch = p.current_leader_epoch
                known.last_fetched_epoch = p.last_fetched_epoch

    def forget(self, topic: ForgottenTopic, partitions: Sequence[int]) -> None:
        for index in partitions:
            self.wanted.pop((topic.topic, topic.topic_id, index), None)

    def served(self, partition: Wanted) -> None:
        """A partition that had records goes to the end of the list, so that a byte limit starves none."""
        key = (partition.topic, partition.topic_id, partition.index)
        if self.wanted.get(key) is partition:
            self.wanted[key] = self.wanted.pop(key)


@dataclass(slots=True)
class Plan:
    """What one request fetches, and under which session it is answered."""

    session_id: int
    wanted: list[Wanted]
    session: Session | None
    incremental: bool

    def must_answer(
        self, partition: Wanted, size: int, high_watermark: int, log_start_offset: int, *, failed: bool
    ) -> bool:
        """Whether the response must have this partition, because something about it changed. Remembers that it is sent now."""
        changed = (
            size > 0
            or failed
            or high_watermark != partition.sent_high_watermark
            or log_start_offset != partition.sent_log_start_offset
        )
        # An error is sent each time it occurs, so what was sent before it no longer counts.
        partition.sent_high_watermark = -1 if failed else high_watermark
        partition.sent_log_start_offset = -1 if failed else log_start_offset
        if size > 0 and self.session is not None:
            self.session.served(partition)
        return changed or not self.incremental


class FetchSessions:
    """All sessions of a broker, at most `slots`; one unused for `eviction` makes room for a new one."""

    def __init__(self, slots: int, eviction: Millis, new_id: Callable[[], int]) -> None:
        self._slots = slots
        self._eviction = eviction
        self._new_id = new_id
        # Ordered by last use: the first one is the one unused for longest.
        self._sessions: dict[int, Session] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def plan(self, request: FetchRequest, version: int, now: Millis) -> Plan:
        """`version` alone decides whether topics are named by id: an incremental request may name none at all, and its response
        has the request's version."""
        session = self._session(request, version, now)
        for topic in request.topics:
            session.add(topic, topic.partitions)
        for forgotten in request.forgotten_topics_data:
            session.forget(forgotten, forgotten.partitions)
        return self._plan(session, request, now)

    def plan_in_steps(self, request: FetchRequest, version: int, now: Millis) -> Generator[None, None, Plan]:
        """As `plan`, of a request that names many partitions."""
        session = self._session(request, version, now)
        for topic in request.topics:
            for begin in range(0, len(topic.partitions), STEP):
                session.add(topic, topic.partitions[begin : begin + STEP])
                yield
        for forgotten in request.forgotten_topics_data:
            for begin in range(0, len(forgotten.partitions), STEP):
                session.forget(forgotten, forgotten.partitions[begin : begin + STEP])
                yield
        return self._plan(session, request, now)

    def _session(self, request: FetchRequest, version: int, now: Millis) -> Session:
        """The one that the request goes on with, or a new one."""
        uses_topic_ids = version >= FIRST_VERSION_WITH_TOPIC_IDS
        if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            self._sessions.pop(request.session_id, None)
            return Session(NO_SESSION, INITIAL_EPOCH + 1, uses_topic_ids, {}, now)
        session = self._sessions.get(request.session_id)
        if session is None:
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != request.session_epoch:
            raise KafkaError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.uses_topic_ids is not uses_topic_ids:
            raise KafkaError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        session.epoch = 1 if session.epoch == MAX_EPOCH else session.epoch + 1
        return session

    def _plan(self, session: Session, request: FetchRequest, now: Millis) -> Plan:
        wanted = list(session.wanted.values())
        is_new = session.id == NO_SESSION
        if is_new:
            if request.session_epoch == FINAL_EPOCH or not wanted or not self._room(now):
                return Plan(NO_SESSION, wanted, None, incremental=False)
            session.id = self._unused_id()
        else:
            self._sessions.pop(session.id, None)
        if not wanted:
            return Plan(NO_SESSION, [], None, incremental=False)
        session.last_used = now
        self._sessions[session.id] = session  # behind all that were used before
        return Plan(session.id, wanted, session, incremental=not is_new)

    def _room(self, now: Millis) -> bool:
        if len(self._sessions) < self._slots:
            return True
        oldest = next(iter(self._sessions.values()), None)
        if oldest is None or now - oldest.last_used < self._eviction:
            return False
        del self._sessions[oldest.id]
        return True

    def _unused_id(self) -> int:
        while True:
            session_id = self._new_id()
            if session_id != NO_SESSION and session_id not in self._sessions:
                return session_id
