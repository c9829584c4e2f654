"""The in-sync replicas: when each follower last had all of the leader's log. Pure.

As in Kafka, a follower that has what the leader had at an earlier check was caught up at that check, even while the log grows
faster than the follower fetches.
"""

from __future__ import annotations

from kompat.types import Millis, NodeId, RaftIndex


class IsrTracker:
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
