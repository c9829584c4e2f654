"""When a leader's followers last had all of its log: who is in sync. Pure.

As Kafka's leaders count it: a follower that has what the leader had at an earlier look was caught up at that look, also while
the log grows faster than it can be seen to arrive.
"""

from __future__ import annotations

from kompat.types import Millis, NodeId, RaftIndex


class CaughtUp:
    __slots__ = ("_caught_up", "_goals")

    def __init__(self) -> None:
        self._caught_up: dict[NodeId, Millis] = {}
        self._goals: dict[
            NodeId, tuple[RaftIndex, Millis]
        ] = {}  # where the log ended at some look that it had not reached

    def begin(self, nodes: list[NodeId], now: Millis) -> None:
        """A new leader knows nothing of its followers: it takes the best for granted."""
        self._goals.clear()
        self._caught_up = dict.fromkeys(nodes, now)

    def look(self, node: NodeId, matched: RaftIndex, last: RaftIndex, now: Millis) -> None:
        goal = self._goals.get(node)
        if matched >= last:
            self._caught_up[node] = now
            self._goals.pop(node, None)
        elif goal is None or matched >= goal[0]:
            if goal is not None:
                self._caught_up[node] = goal[1]
            self._goals[node] = (last, now)

    def at(self, node: NodeId) -> Millis | None:
        """When it last had all; None: never, as far as this leader knows."""
        return self._caught_up.get(node)
