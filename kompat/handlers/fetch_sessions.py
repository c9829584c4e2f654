"""Fetch sessions (KIP-227): what a consumer wants is remembered, so that each request and answer carries only changes.

Pure: the time and new session ids come in as arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from uuid import UUID

from kompat.errors import ErrorCode, KafkaError
from kompat.protocol.fetch import FetchRequest
from kompat.types import Millis

NO_SESSION = 0
INITIAL_EPOCH = 0
FINAL_EPOCH = -1  # "no session, please", and with a session id: "close it"
MAX_EPOCH = 2**31 - 1
FIRST_VERSION_WITH_TOPIC_IDS = 13

Key = tuple[str, UUID, int]


@dataclass(slots=True)
class Wanted:
    """A partition that a consumer wants, and what it was last told about it."""

    topic: str
    topic_id: UUID
    index: int
    fetch_offset: int
    max_bytes: int
    current_leader_epoch: int
    last_fetched_epoch: int
    told_high_watermark: int = -1
    told_log_start_offset: int = -1


@dataclass(slots=True)
class Session:
    id: int
    epoch: int  # expected in the next request
    uses_topic_ids: bool
    wanted: dict[Key, Wanted]
    last_used: Millis

    def update(self, request: FetchRequest) -> None:
        for key, partition in _wanted(request):
            known = self.wanted.get(key)
            if known is None:
                self.wanted[key] = partition
            else:
                known.fetch_offset = partition.fetch_offset
                known.max_bytes = partition.max_bytes
                known.current_leader_epoch = partition.current_leader_epoch
                known.last_fetched_epoch = partition.last_fetched_epoch
        for topic in request.forgotten_topics_data:
            for index in topic.partitions:
                self.wanted.pop((topic.topic, topic.topic_id, index), None)

    def served(self, partition: Wanted) -> None:
        """Who was given records goes to the end of the line, so that a byte limit starves nobody."""
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
        self, partition: Wanted, *, size: int, high_watermark: int, log_start_offset: int, failed: bool
    ) -> bool:
        """Is there anything about this partition that the client has not been told? Remembers that it is told now."""
        changed = (
            size > 0
            or failed
            or high_watermark != partition.told_high_watermark
            or log_start_offset != partition.told_log_start_offset
        )
        # An error is told again each time it occurs, so what was known before it no longer counts.
        partition.told_high_watermark = -1 if failed else high_watermark
        partition.told_log_start_offset = -1 if failed else log_start_offset
        if size > 0 and self.session is not None:
            self.session.served(partition)
        return changed or not self.incremental


def _wanted(request: FetchRequest) -> Iterable[tuple[Key, Wanted]]:
    for topic in request.topics:
        name, topic_id = topic.topic, topic.topic_id
        for p in topic.partitions:
            yield (
                (name, topic_id, p.partition),
                Wanted(
                    name,
                    topic_id,
                    p.partition,
                    p.fetch_offset,
                    p.partition_max_bytes,
                    p.current_leader_epoch,
                    p.last_fetched_epoch,
                ),
            )


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
        """`version` alone says whether topics go by id: an incremental request may name none at all, and its answer is in
        the request's version."""
        uses_topic_ids = version >= FIRST_VERSION_WITH_TOPIC_IDS
        if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            return self._full(request, uses_topic_ids, now)
        return self._incremental(request, uses_topic_ids, now)

    def _full(self, request: FetchRequest, uses_topic_ids: bool, now: Millis) -> Plan:
        self._sessions.pop(request.session_id, None)
        wanted = dict(_wanted(request))
        if request.session_epoch == FINAL_EPOCH or not wanted or not self._room(now):
            return Plan(NO_SESSION, list(wanted.values()), None, incremental=False)
        session = Session(self._unused_id(), INITIAL_EPOCH + 1, uses_topic_ids, wanted, now)
        self._sessions[session.id] = session
        return Plan(session.id, list(wanted.values()), session, incremental=False)

    def _incremental(self, request: FetchRequest, uses_topic_ids: bool, now: Millis) -> Plan:
        session = self._sessions.get(request.session_id)
        if session is None:
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != request.session_epoch:
            raise KafkaError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.uses_topic_ids is not uses_topic_ids:
            raise KafkaError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        session.update(request)
        del self._sessions[session.id]
        if not session.wanted:
            return Plan(NO_SESSION, [], None, incremental=False)
        self._sessions[session.id] = session
        session.last_used = now
        session.epoch = 1 if session.epoch == MAX_EPOCH else session.epoch + 1
        return Plan(session.id, list(session.wanted.values()), session, incremental=True)

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
