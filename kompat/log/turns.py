"""The turns of the group commit that a partition takes part in."""

from __future__ import annotations

from collections.abc import Callable

from kompat.common.promise import Promise
from kompat.config.topic import TopicConfig
from kompat.log.commit import GroupCommit
from kompat.types import Offset

NEVER = 2**63 - 1  # flush.messages and flush.ms: leave it to the operating system


class Turns:
    __slots__ = ("_commit", "_joined", "_on_written", "_unforced", "under_way")

    def __init__(self, commit: GroupCommit, on_written: Callable[[Offset], None]) -> None:
        """`on_written` is called with the log's end when a turn is written; when one is refused, the logs are reloaded instead."""
        self._commit = commit
        self._on_written = on_written
        self._joined: Promise[None] | None = None  # the newest
        self._unforced = 0  # records since the last forced write, where the topic has flush.messages
        self.under_way: dict[Promise[None], Offset] = {}  # oldest first, and where the log ends after each

    def join(self, end: Offset) -> Promise[None]:
        """What is staged so far, up to `end`, is committed with this turn."""
        turn = self._commit.turn()
        if turn is not self._joined:
            self._joined = turn
            turn.add_done_callback(self._ended)
        self.under_way[turn] = end
        return turn

    def _ended(self, turn: Promise[None]) -> None:
        end = self.under_way.pop(turn, None)
        if end is not None and turn.error is None:
            self._on_written(end)

    @property
    def newest(self) -> Promise[None] | None:
        """The last one under way."""
        return next(reversed(self.under_way), None)

    def writing(self, offset: Offset) -> Promise[None] | None:
        """The turn under way that writes what lies at `offset`."""
        return next((turn for turn, end in self.under_way.items() if end > offset), None)

    def rewind(self, end: Offset) -> None:
        """The log ends there again: of turns that wrote more, nothing counts."""
        self._joined = None
        self.under_way = {turn: until for turn, until in self.under_way.items() if until <= end}

    def force(self, count: int, config: TopicConfig) -> None:
        """The topic wants its records on the disk sooner than the broker's setting has them there."""
        self._unforced += count
        if self._unforced >= config.flush_messages:
            self._unforced = 0
            self._commit.require_sync()
        elif config.flush_ms != NEVER:
            self._commit.sync_within(config.flush_ms / 1000)
