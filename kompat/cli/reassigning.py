"""Plans the placement of replicas. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from kompat.cli.arguments import Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Replicas:
    """A partition and the brokers that have its replicas."""

    topic: str
    partition: int
    brokers: tuple[int, ...]


class NoPlan(Exception):  # noqa: N818 - it names what there is not
    """Replicas cannot be placed as requested. The message says why."""


def chosen(places: Sequence[str], there: Sequence[Replicas]) -> list[Replicas]:
    """The named partitions: `orders` is all of a topic, `orders/2` one partition of it."""
    known = {(each.topic, each.partition): each for each in there}
    found: dict[tuple[str, int], Replicas] = {}
    for name in places:
        place = _partition(name)
        named = [(topic, index) for topic, index in known if _matches(place, topic, index)]
        if not named:
            raise NoPlan(f"{name} does not exist")
        found |= {each: known[each] for each in named}
    return [found[each] for each in sorted(found)]


def _partition(name: str) -> Place | str:
    topic, slash, number = name.rpartition("/")
    return Place(topic, int(number)) if slash and number.isdecimal() else name


def _matches(place: Place | str, topic: str, index: int) -> bool:
    return topic == place if isinstance(place, str) else (topic, index) == (place.topic, place.partition)


def round_robin(partitions: Sequence[Replicas], brokers: Sequence[int], count: int | None) -> list[Replicas]:
    """Assign replicas to these brokers in turn, so that each is the preferred leader of as many partitions as the others.

    A single partition gets the brokers in the given order.
    """
    found = []
    for at, each in enumerate(partitions):
        replicas = len(each.brokers) if count is None else count
        if replicas > len(brokers):
            raise NoPlan(f"{replicas} replicas need at least {replicas} brokers, but only {len(brokers)} are given")
        order = [brokers[(at + step) % len(brokers)] for step in range(replicas)]
        found.append(Replicas(topic=each.topic, partition=each.partition, brokers=tuple(order)))
    return found


def unmovable(partitions: Sequence[Replicas], broker: int, able: Collection[int]) -> list[Replicas]:
    """The partitions that cannot be moved off a broker, because all other brokers have a replica already."""
    others = set(able) - {broker}
    return [each for each in partitions if broker in each.brokers and others <= set(each.brokers)]


def changed(now: Sequence[Replicas], wanted: Sequence[Replicas]) -> list[Replicas]:
    have: Mapping[tuple[str, int], tuple[int, ...]] = {(each.topic, each.partition): each.brokers for each in now}
    return [each for each in wanted if have[each.topic, each.partition] != each.brokers]
