"""Server-side assignors of KIP-848: `range` and `uniform` where all members want the same topics.

Both are pure: members and their last target assignment in, the new target assignment out.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias
from uuid import UUID

from kompat.groups.machine.balance import assign_uneven_subscriptions
from kompat.groups.records import Assignment


@dataclass(frozen=True, slots=True)
class MemberSpec:
    instance_id: str | None
    topics: frozenset[UUID]  # subscribed to, and existing
    assigned: Assignment  # the last target


@dataclass(frozen=True, slots=True)
class GroupSpec:
    members: Mapping[str, MemberSpec]
    partitions: Mapping[UUID, int]  # topic → how many

    @property
    def is_homogeneous(self) -> bool:
        subscriptions = {id(member.topics): member.topics for member in self.members.values()}
        return len(set(subscriptions.values())) <= 1


NewAssignment: TypeAlias = dict[str, Assignment]


def assign_range(spec: GroupSpec) -> NewAssignment:
    """Each topic's partitions in one range per subscriber, in the same order of members for every topic.

    So topics with equal numbers of partitions are co-partitioned. Static members come first, by instance id.
    """
    ordered = sorted(
        spec.members.items(), key=lambda item: (item[1].instance_id is None, item[1].instance_id or item[0])
    )
    subscribers: dict[UUID, list[str]] = {}
    for member_id, member in ordered:
        for topic_id in member.topics:
            subscribers.setdefault(topic_id, []).append(member_id)
    target: dict[str, dict[UUID, frozenset[int]]] = {member_id: {} for member_id in spec.members}
    for topic_id, member_ids in subscribers.items():
        least, extra = divmod(spec.partitions[topic_id], len(member_ids))
        start = 0
        for number, member_id in enumerate(member_ids):
            end = start + least + (number < extra)
            if start == end:
                break
            target[member_id][topic_id] = frozenset(range(start, end))
            start = end
    return dict(target)


def assign_uniform(spec: GroupSpec) -> NewAssignment:
    """As balanced as the subscriptions allow, with as few moves as possible."""
    if not spec.members:
        return {}
    if not spec.is_homogeneous:
        return assign_uneven_subscriptions(
            {member: (each.topics, each.assigned) for member, each in spec.members.items()}, spec.partitions
        )
    return _assign_evenly(spec)


def _assign_evenly(spec: GroupSpec) -> NewAssignment:
    topics = next(iter(spec.members.values())).topics
    total = sum(spec.partitions[topic_id] for topic_id in topics)
    least, extra = divmod(total, len(spec.members))
    kept, free = _valid_part(spec, topics)
    sizes = {member_id: sum(map(len, assigned.values())) for member_id, assigned in kept.items()}
    quotas = _quotas(sizes, least, extra)
    target: NewAssignment = {}
    for member_id, assigned in kept.items():
        surplus = sizes[member_id] - quotas[member_id]
        target[member_id] = _without(assigned, surplus, free) if surplus > 0 else assigned
    wanting = (member_id for member_id in target for _ in range(quotas[member_id] - sizes[member_id]))
    _hand_out(target, wanting, free)
    return target


def _valid_part(spec: GroupSpec, topics: frozenset[UUID]) -> tuple[dict[str, Assignment], list[tuple[UUID, int]]]:
    """The partitions that members keep, and those that are unassigned."""
    taken: dict[UUID, set[int]] = {topic_id: set() for topic_id in sorted(topics)}
    kept: dict[str, Assignment] = {}
    for member_id, member in spec.members.items():
        valid: dict[UUID, frozenset[int]] = {}
        for topic_id, part in member.assigned.items():
            if topic_id not in topics or not part:
                continue
            # Only a converted classic group may have a partition that is assigned twice or does not exist.
            if max(part) >= spec.partitions[topic_id] or not taken[topic_id].isdisjoint(part):
                part = frozenset(n for n in part - taken[topic_id] if n < spec.partitions[topic_id])
            taken[topic_id] |= part
            if part:
                valid[topic_id] = part
        kept[member_id] = member.assigned if valid == member.assigned else valid
    free = [
        (topic_id, n) for topic_id, part in taken.items() for n in range(spec.partitions[topic_id]) if n not in part
    ]
    return kept, free


def _quotas(sizes: Mapping[str, int], least: int, extra: int) -> dict[str, int]:
    """How many partitions each member gets: the remainder goes to members that have that many already, then to the first."""
    quotas = dict.fromkeys(sizes, least)
    for member_id in sorted(sizes, key=lambda member_id: sizes[member_id] <= least)[:extra]:
        quotas[member_id] += 1
    return quotas


def _without(assigned: Assignment, surplus: int, free: list[tuple[UUID, int]]) -> Assignment:
    """Revoke this number of partitions, the last ones first."""
    left = dict(assigned)
    for topic_id in reversed(list(assigned)):
        dropped = sorted(left[topic_id])[-surplus:]
        left[topic_id] -= frozenset(dropped)
        if not left[topic_id]:
            del left[topic_id]
        free.extend((topic_id, number) for number in dropped)
        surplus -= len(dropped)
        if not surplus:
            break
    return left


def _hand_out(target: NewAssignment, wanting: Iterable[str], free: list[tuple[UUID, int]]) -> None:
    gains: dict[str, dict[UUID, list[int]]] = {}
    for member_id, (topic_id, number) in zip(wanting, free, strict=True):
        gains.setdefault(member_id, {}).setdefault(topic_id, []).append(number)
    for member_id, gained in gains.items():
        merged = dict(target[member_id])
        for topic_id, numbers in gained.items():
            merged[topic_id] = merged.get(topic_id, frozenset()) | frozenset(numbers)
        target[member_id] = merged


ASSIGNORS: Mapping[str, Callable[[GroupSpec], NewAssignment]] = {"uniform": assign_uniform, "range": assign_range}
