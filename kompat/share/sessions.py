"""Share sessions (KIP-932): the broker remembers which partitions a member fetches, so that requests carry only changes.

A session and the acquired records belong to the member: the session ends when the member closes it, or with its connection.
Pure: nothing here depends on time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from kompat.errors import ErrorCode, KafkaError
from kompat.types import LogId

INITIAL_EPOCH = 0
FINAL_EPOCH = -1
MAX_EPOCH = 2**31 - 1

Key = tuple[str, str]  # group, member


@dataclass(slots=True)
class ShareSession:
    group_id: str
    member_id: str
    connection_id: str
    epoch: int = INITIAL_EPOCH + 1  # expected in the next request
    # What it fetches, last served at the end; True if the next response must name it even without records.
    partitions: dict[LogId, bool] = field(default_factory=dict)

    def advance(self, epoch: int) -> None:
        if epoch != self.epoch:
            raise KafkaError(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
        self.epoch = 1 if self.epoch == MAX_EPOCH else self.epoch + 1

    def update(self, added: Iterable[LogId], forgotten: Iterable[LogId]) -> None:
        for partition in added:
            self.partitions.setdefault(partition, True)
        for partition in forgotten:
            self.partitions.pop(partition, None)

    def must_report(self, partition: LogId, *, has_records: bool, has_failed: bool) -> bool:
        """Whether an incremental response has to name the partition. Remembers that it now has."""
        is_due = self.partitions.get(partition, False)
        if partition in self.partitions:
            self.partitions[partition] = has_failed  # the response after an error has to show that it is gone
            if has_records:
                self.partitions[partition] = self.partitions.pop(partition)
        return has_records or has_failed or is_due


class ShareSessions:
    """All sessions of a broker, at most `slots`."""

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._sessions: dict[Key, ShareSession] = {}
        self._by_connection: dict[str, set[Key]] = {}
        self._members: Counter[str] = Counter()  # by group

    def __len__(self) -> int:
        return len(self._sessions)

    def find(self, group_id: str, member_id: str) -> ShareSession:
        session = self._sessions.get((group_id, member_id))
        if session is None:
            raise KafkaError(ErrorCode.SHARE_SESSION_NOT_FOUND)
        return session

    def has_members(self, group_id: str) -> bool:
        return group_id in self._members

    def open(self, group_id: str, member_id: str, connection_id: str, partitions: Iterable[LogId]) -> ShareSession:
        """A new session instead of the member's earlier one, if any; the member keeps its acquired records."""
        self.close(group_id, member_id)
        if len(self._sessions) >= self._slots:
            raise KafkaError(ErrorCode.SHARE_SESSION_LIMIT_REACHED)
        session = ShareSession(group_id, member_id, connection_id, partitions=dict.fromkeys(partitions, False))
        self._sessions[group_id, member_id] = session
        self._members[group_id] += 1
        self._by_connection.setdefault(connection_id, set()).add((group_id, member_id))
        return session

    def close(self, group_id: str, member_id: str) -> ShareSession | None:
        session = self._sessions.pop((group_id, member_id), None)
        if session is not None:
            self._members[group_id] -= 1
            if not self._members[group_id]:
                del self._members[group_id]
            keys = self._by_connection[session.connection_id]
            keys.discard((group_id, member_id))
            if not keys:
                del self._by_connection[session.connection_id]
        return session

    def disconnected(self, connection_id: str) -> list[ShareSession]:
        """The sessions that end with a connection."""
        closed = [self.close(*key) for key in list(self._by_connection.get(connection_id, ()))]
        return [session for session in closed if session is not None]
