"""The uniform assignor for members with different subscriptions: keep partitions, assign the rest, then balance."""

import heapq
from collections.abc import Mapping
from uuid import UUID

from kompat.groups.records import Assignment

MAX_ROUNDS = 16  # balancing one topic may unbalance another; it converges long before this


def assign_uneven_subscriptions(
    members: Mapping[str, tuple[frozenset[UUID], Assignment]], partitions: Mapping[UUID, int]
) -> dict[str, Assignment]:
    """Member → its topics and its last assignment in; its new assignment out."""
    return _Balancer(members, partitions).run()


class _Balancer:
    def __init__(
        self, members: Mapping[str, tuple[frozenset[UUID], Assignment]], partitions: Mapping[UUID, int]
    ) -> None:
        self._partitions = partitions
        self._names = list(members)
        self._load = [0] * len(members)
        self._subscribers: dict[UUID, list[int]] = {}
        for number, (topics, _) in enumerate(members.values()):
            for topic_id in topics:
                self._subscribers.setdefault(topic_id, []).append(number)
        self._owners: dict[UUID, list[int | None]] = {
            topic_id: [None] * partitions[topic_id] for topic_id in self._subscribers
        }
        for number, (topics, assigned) in enumerate(members.values()):
            for topic_id, part in assigned.items():
                if topic_id in topics:
                    self._keep(topic_id, part, number)
        # First the topics with most partitions per subscriber: those leave the least choice.
        self._order = sorted(
            self._subscribers,
            key=lambda topic_id: (
                -partitions[topic_id] / len(self._subscribers[topic_id]),
                len(self._subscribers[topic_id]),
                topic_id,
            ),
        )

    def _keep(self, topic_id: UUID, part: frozenset[int], number: int) -> None:
        owners = self._owners[topic_id]
        for partition in part:
            if partition < len(owners) and owners[partition] is None:
                owners[partition] = number
                self._load[number] += 1

    def run(self) -> dict[str, Assignment]:
        for topic_id in self._order:
            self._fill(topic_id)
        shared = [topic_id for topic_id in self._order if len(self._subscribers[topic_id]) > 1]
        for _ in range(MAX_ROUNDS):
            if not sum(self._even_out(topic_id) for topic_id in shared):
                break
        return self._result()

    def _fill(self, topic_id: UUID) -> None:
        """Unassigned partitions go to the member with the fewest."""
        owners = self._owners[topic_id]
        free = [partition for partition, owner in enumerate(owners) if owner is None]
        if not free:
            return
        least_loaded = [(self._load[number], number) for number in self._subscribers[topic_id]]
        heapq.heapify(least_loaded)
        for partition in free:
            _, number = least_loaded[0]
            owners[partition] = number
            self._load[number] += 1
            heapq.heapreplace(least_loaded, (self._load[number], number))

    def _even_out(self, topic_id: UUID) -> int:
        """Move partitions of this topic from members with most to members with fewest; returns how many."""
        subscribers = self._subscribers[topic_id]
        loads = [self._load[number] for number in subscribers]
        if max(loads) - min(loads) <= 1:
            return 0
        owned: dict[int, list[int]] = {}
        for partition, owner in enumerate(self._owners[topic_id]):
            if owner is not None:
                owned.setdefault(owner, []).append(partition)
        most_loaded = [(-self._load[number], number) for number in owned]
        least_loaded = [(self._load[number], number) for number in subscribers]
        heapq.heapify(most_loaded)
        heapq.heapify(least_loaded)
        moved = 0
        while most_loaded:
            giver = most_loaded[0][1]
            taker = self._pop_least(least_loaded)
            if self._load[giver] - self._load[taker] <= 1:
                break
            partition = owned[giver].pop()
            self._owners[topic_id][partition] = taker
            self._load[giver] -= 1
            self._load[taker] += 1
            heapq.heappush(least_loaded, (self._load[taker], taker))
            if owned[giver]:
                heapq.heapreplace(most_loaded, (-self._load[giver], giver))
            else:
                heapq.heappop(most_loaded)
            moved += 1
        return moved

    def _pop_least(self, least_loaded: list[tuple[int, int]]) -> int:
        """Entries of members that lost a partition are outdated: their load is corrected when they are popped."""
        while True:
            load, number = heapq.heappop(least_loaded)
            if load == self._load[number]:
                return number
            heapq.heappush(least_loaded, (self._load[number], number))

    def _result(self) -> dict[str, Assignment]:
        parts: list[dict[UUID, list[int]]] = [{} for _ in self._names]
        for topic_id, owners in self._owners.items():
            for partition, owner in enumerate(owners):
                if owner is not None:
                    parts[owner].setdefault(topic_id, []).append(partition)
        return {
            name: {topic_id: frozenset(numbers) for topic_id, numbers in part.items()}
            for name, part in zip(self._names, parts, strict=True)
        }
