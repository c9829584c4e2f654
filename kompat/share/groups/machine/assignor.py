"""The `simple` assignor: all members of a share group get about the same number of partitions, and every partition is assigned.

Where there are more members than partitions, several members share each partition, so that all of them have work. A member
keeps its partitions as long as the assignment stays balanced.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

from kompat.groups.records import Assignment

NAME = "simple"


class Place(NamedTuple):
    topic_id: UUID
    partition: int


class ShareMemberSpec(NamedTuple):
    topic_ids: frozenset[UUID]  # what the member is subscribed to
    assigned: Assignment  # its current assignment


def assign(members: Mapping[str, ShareMemberSpec], partitions: Assignment) -> dict[str, Assignment]:
    """The assignment of each member, from the partitions of its topics."""
    found: dict[str, dict[UUID, set[int]]] = {member_id: {} for member_id in members}
    for sharers, places in _parts(members, partitions):
        for place, holders in _share(sharers, places).items():
            for member_id in holders:
                found[member_id].setdefault(place.topic_id, set()).add(place.partition)
    return {
        member_id: {topic_id: frozenset(numbers) for topic_id, numbers in topics.items()}
        for member_id, topics in found.items()
    }


def _parts(
    members: Mapping[str, ShareMemberSpec], partitions: Assignment
) -> Iterable[tuple[dict[str, ShareMemberSpec], list[Place]]]:
    """Members with the same topics share all of them evenly; where subscriptions differ, each topic is shared on its own."""
    wanted = {spec.topic_ids for spec in members.values()}
    topic_ids = sorted(topic_id for topic_id in frozenset().union(*wanted) if topic_id in partitions)
    if len(wanted) == 1:
        return [(dict(members), [place for topic_id in topic_ids for place in _places(topic_id, partitions)])]
    return [
        ({name: spec for name, spec in members.items() if topic_id in spec.topic_ids}, _places(topic_id, partitions))
        for topic_id in topic_ids
    ]


def _places(topic_id: UUID, partitions: Assignment) -> list[Place]:
    return [Place(topic_id, number) for number in sorted(partitions[topic_id])]


def _share(members: Mapping[str, ShareMemberSpec], places: Sequence[Place]) -> dict[Place, set[str]]:
    holders: dict[Place, set[str]] = {place: set() for place in places}
    held: dict[str, set[Place]] = {}
    for member_id, spec in members.items():
        mine = (Place(topic_id, number) for topic_id, part in spec.assigned.items() for number in part)
        held[member_id] = {place for place in mine if place in holders}
        for place in held[member_id]:
            holders[place].add(member_id)
    if places:
        sharing = -(-len(members) // len(places))  # how many members each partition should have
        wanted = _counts(held, sharing * len(places))
        _give_up(holders, held, wanted, sharing)
        _take(holders, held, wanted, sharing)
    return holders


def _counts(held: Mapping[str, set[Place]], total: int) -> dict[str, int]:
    """How many partitions each member should get: more for members that have more now, so that few are moved."""
    each, more = divmod(total, len(held))
    by_load = sorted(held, key=lambda member_id: (-len(held[member_id]), member_id))
    return {member_id: each + (rank < more) for rank, member_id in enumerate(by_load)}


def _give_up(
    holders: dict[Place, set[str]], held: dict[str, set[Place]], wanted: Mapping[str, int], sharing: int
) -> None:
    for member_id, mine in held.items():
        excess = len(mine) - wanted[member_id]
        if excess > 0:
            # First those that other members have too, then the last ones.
            for place in sorted(mine, key=lambda place: (len(holders[place]), place), reverse=True)[:excess]:
                mine.discard(place)
                holders[place].discard(member_id)
    for place, sharers in holders.items():
        if len(sharers) > sharing:
            by_load = sorted(sharers, key=lambda member_id: (-len(held[member_id]), member_id))
            for member_id in by_load[: len(sharers) - sharing]:
                sharers.discard(member_id)
                held[member_id].discard(place)


def _take(holders: dict[Place, set[str]], held: dict[str, set[Place]], wanted: Mapping[str, int], sharing: int) -> None:
    unfilled = deque(member_id for member_id in sorted(held) if len(held[member_id]) < wanted[member_id])
    for place, sharers in holders.items():
        passed: list[str] = []  # they have it already
        while unfilled and len(sharers) < sharing:
            member_id = unfilled.popleft()
            if member_id in sharers:
                passed.append(member_id)
                continue
            sharers.add(member_id)
            held[member_id].add(place)
            if len(held[member_id]) < wanted[member_id]:
                unfilled.append(member_id)
        unfilled.extendleft(reversed(passed))
