"""Where replicas are to go. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from kompat.cli.arguments import Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Replicas:
    """A partition and the brokers that have it."""

    topic: str
    partition: int
    brokers: tuple[int, ...]


class NoPlan(Exception):  # noqa: N818 - it names what there is not
    """Why replicas cannot be placed like this."""


def chosen(places: Sequence[str], there: Sequence[Replicas]) -> list[Replicas]:
    """Those that are named: `orders` is all of a topic, `orders/2` one partition of it."""
    known = {(each.topic, each.partition): each for each in there}
    found: dict[tuple[str, int], Replicas] = {}
    for name in places:
        place = _partition(name)
        named = [(topic, index) for topic, index in known if _is_meant(place, topic, index)]
        if not named:
            raise NoPlan(f"there is no {name}")
        found |= {each: known[each] for each in named}
    return [found[each] for each in sorted(found)]


def _partition(name: str) -> Place | str:
    topic, slash, number = name.rpartition("/")
    return Place(topic, int(number)) if slash and number.isdecimal() else name


def _is_meant(place: Place | str, topic: str, index: int) -> bool:
    return topic == place if isinstance(place, str) else (topic, index) == (place.topic, place.partition)


def spread(partitions: Sequence[Replicas], brokers: Sequence[int], count: int | None) -> list[Replicas]:
    """Over these brokers, in turn, so that each is the first, and so the preferred leader, of as many as the others.

    A single partition gets the brokers as they are listed.
    """
    found = []
    for at, each in enumerate(partitions):
        replicas = len(each.brokers) if count is None else count
        if replicas > len(brokers):
            raise NoPlan(f"{replicas} replicas need as many brokers, not {len(brokers)}")
        order = [brokers[(at + step) % len(brokers)] for step in range(replicas)]
        found.append(Replicas(topic=each.topic, partition=each.partition, brokers=tuple(order)))
    return found


def unmovable(partitions: Sequence[Replicas], broker: int, able: Collection[int]) -> list[Replicas]:
    """What cannot leave a broker: every other one that could take a replica has one already."""
    others = set(able) - {broker}
    return [each for each in partitions if broker in each.brokers and others <= set(each.brokers)]


def changed(now: Sequence[Replicas], wanted: Sequence[Replicas]) -> list[Replicas]:
    have: Mapping[tuple[str, int], tuple[int, ...]] = {(each.topic, each.partition): each.brokers for each in now}
    return [each for each in wanted if have[each.topic, each.partition] != each.brokers]
