"""What clients have seen of a cluster, and what they must never see.

Each client writes down what it did and what it was told; when all is quiet, every partition is read once more, from its
beginning to its end. `violations` compares the two. It knows nothing of brokers or clients, so that it can be shown to find
what it is to find.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import pairwise
from typing import NamedTuple


class Place(NamedTuple):
    topic: str
    partition: int


class Record(NamedTuple):
    """Who sent it, and as which of those that it sent to the partition: counted from 0."""

    producer: str
    number: int


class Outcome(Enum):
    ACKNOWLEDGED = "acknowledged"
    FAILED = "failed"  # the producer was told so; it may be there all the same
    UNKNOWN = "unknown"  # the producer was told nothing: it may be there


class Fate(Enum):
    """Of a transaction."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"  # the answer was lost: all of it, or nothing


@dataclass(slots=True)
class Sent:
    record: Record
    transaction: int | None = None  # the producer's, by its number
    outcome: Outcome = Outcome.UNKNOWN
    offset: int | None = None  # where the broker says that it is; a later batch's success acknowledges it without one
    at: float = field(default_factory=time.time)
    told_at: float | None = None

    def told(self, outcome: Outcome, offset: int | None = None) -> None:
        self.outcome, self.offset, self.told_at = outcome, offset, time.time()


class Read(NamedTuple):
    offset: int
    record: Record


Log = Sequence[Read]  # of one partition, what its readers may see


@dataclass
class History:
    sent: dict[Place, list[Sent]] = field(default_factory=lambda: defaultdict(list))
    fates: dict[tuple[str, int], Fate] = field(default_factory=dict)  # of a producer's transactions
    reads: dict[tuple[str, Place], list[Read]] = field(
        default_factory=lambda: defaultdict(list)
    )  # by a reader (of a group: its name first), in one go
    watermarks: dict[tuple[str, Place], list[int]] = field(default_factory=lambda: defaultdict(list))
    decided: dict[tuple[str, int], float] = field(default_factory=dict)  # when the fates were told
    groups: dict[str, str] = field(default_factory=dict)  # group → the topic that it has read to its end
    _next: Counter[tuple[Place, str]] = field(default_factory=Counter)

    def send(self, place: Place, producer: str, transaction: int | None = None) -> Sent:
        """The producer's next record for a partition."""
        sent = Sent(Record(producer, self._next[place, producer]), transaction)
        self._next[place, producer] += 1
        self.sent[place].append(sent)
        return sent

    def decide(self, producer: str, transaction: int, fate: Fate) -> None:
        self.fates[producer, transaction] = fate
        self.decided[producer, transaction] = time.time()

    def take_back(self, place: Place) -> None:
        """The newest one was not sent after all."""
        sent = self.sent[place].pop()
        self._next[place, sent.record.producer] -= 1


def told(history: History) -> Iterator[str]:
    """All that producers have done and heard, in the order of time: to see how a violation came about."""
    events: list[tuple[float, str]] = []
    for (topic, partition), all_sent in history.sent.items():
        for sent in all_sent:
            of = "" if sent.transaction is None else f" in transaction {sent.transaction}"
            name = f"{topic}-{partition}: {sent.record.producer}'s {sent.record.number}{of}"
            events.append((sent.at, f"{name} is sent"))
            if sent.told_at is not None:
                events.append((sent.told_at, f"{name} is {sent.outcome.value} at {sent.offset}"))
    for (producer, number), when in history.decided.items():
        events.append((when, f"transaction {number} of {producer} is {history.fates[producer, number].value}"))
    return (
        f"{time.strftime('%H:%M:%S', time.gmtime(at))}.{int(at * 1000) % 1000:03} {event}"
        for at, event in sorted(events)
    )


def violations(history: History, logs: Mapping[Place, Log]) -> list[str]:
    """What must never be. `logs`: all partitions, as a reader of committed records finds them in the end."""
    found: list[str] = []
    for place in sorted({*history.sent, *logs}):
        log = logs.get(place, ())
        sent = history.sent.get(place, [])
        found += (f"{place.topic}-{place.partition}: {each}" for each in _in_partition(history, place, sent, log))
    found += _in_transactions(history, logs)
    for (reader, place), reads in history.reads.items():
        found += (f"{reader} of {place.topic}-{place.partition}: {each}" for each in _in_reads(reads, logs[place]))
    for (reader, place), marks in history.watermarks.items():
        found += (
            f"{reader}: the high watermark of {place.topic}-{place.partition} fell from {before} to {after}"
            for before, after in pairwise(marks)
            if after < before
        )
    return found + list(_not_delivered(history, logs))


# -- a partition ---------------------------------------------------------------------------------------------------------
def _in_partition(history: History, place: Place, sent: Sequence[Sent], log: Log) -> Iterator[str]:
    by_offset = {read.offset: read.record for read in log}
    times = Counter(read.record for read in log)
    yield from (f"{record} is there {count} times" for record, count in times.items() if count > 1)
    known = {each.record for each in sent}
    yield from (f"{record} is there, and nobody has sent it" for record in times if record not in known)
    for each in sent:
        if each.outcome is Outcome.ACKNOWLEDGED and _must_be_there(history, each):
            if each.record not in times:
                yield f"{each.record} was acknowledged at {each.offset}, and is lost"
            elif each.offset is not None and by_offset.get(each.offset) != each.record:
                yield f"{each.record} was acknowledged at {each.offset}, where {by_offset.get(each.offset)} is"
    yield from _out_of_order(log)
    yield from _gaps(history, sent, times)


def _must_be_there(history: History, sent: Sent) -> bool:
    return sent.transaction is None or _fate(history, sent) is Fate.COMMITTED


def _fate(history: History, sent: Sent) -> Fate:
    return history.fates.get((sent.record.producer, sent.transaction or 0), Fate.UNKNOWN)


def _out_of_order(log: Log) -> Iterator[str]:
    last: dict[str, int] = {}
    for offset, (producer, number) in log:
        if number < last.get(producer, -1):
            yield f"{producer}'s {number} is at {offset}, after its {last[producer]}"
        last[producer] = number


def _gaps(history: History, sent: Sequence[Sent], times: Mapping[Record, int]) -> Iterator[str]:
    """A producer that counts its batches cannot have one stored without all before it, unless it was told that one failed."""
    newest: dict[str, int] = {}
    for record in times:
        newest[record.producer] = max(newest.get(record.producer, -1), record.number)
    for each in sent:
        is_plain = each.transaction is None and each.outcome is not Outcome.FAILED
        if is_plain and each.record not in times and each.record.number < newest.get(each.record.producer, -1):
            yield f"{each.record} is missing, and later ones are there"


# -- transactions --------------------------------------------------------------------------------------------------------
def _in_transactions(history: History, logs: Mapping[Place, Log]) -> Iterator[str]:
    there = {(place, read.record) for place, log in logs.items() for read in log}
    parts: dict[tuple[str, int], list[bool]] = defaultdict(list)
    for place, all_sent in history.sent.items():
        for sent in all_sent:
            if sent.transaction is not None:
                parts[(sent.record.producer, sent.transaction)].append((place, sent.record) in there)
    for (producer, number), found in parts.items():
        fate = history.fates.get((producer, number), Fate.UNKNOWN)
        name = f"transaction {number} of {producer}"
        if fate is Fate.ABORTED and any(found):
            yield f"{name} was aborted, and {sum(found)} of its records are shown"
        elif any(found) and not all(found):
            yield f"{name} is {fate.value}, and {sum(found)} of its {len(found)} records are shown"
        elif fate is Fate.COMMITTED and not all(found):
            yield f"{name} was committed, and nothing of it is shown"


# -- readers -------------------------------------------------------------------------------------------------------------
def _in_reads(reads: Sequence[Read], log: Log) -> Iterator[str]:
    """One reader, from a point on: it has to be shown what is there in the end, each record of it, in order."""
    at = {read.offset: place for place, read in enumerate(log)}
    for read in reads:
        place = at.get(read.offset)
        if place is None or log[place].record != read.record:
            yield f"was shown {read.record} at {read.offset}, where {log[place].record if place is not None else 'nothing'} is"
            return
    for before, after in pairwise(reads):
        if at[after.offset] != at[before.offset] + 1:
            yield f"was shown {after.offset} after {before.offset}"


def _not_delivered(history: History, logs: Mapping[Place, Log]) -> Iterator[str]:
    for group, topic in history.groups.items():
        delivered: dict[Place, set[int]] = defaultdict(set)
        for (reader, place), reads in history.reads.items():
            if reader.startswith(f"{group}/"):
                delivered[place].update(read.offset for read in reads)
        for place in (each for each in logs if each.topic == topic):
            missing = [read.offset for read in logs[place] if read.offset not in delivered[place]]
            if missing:
                yield f"{topic}-{place.partition}: {_first(missing)} were not given to any member of {group}"


def _first(numbers: Iterable[int], most: int = 10) -> str:
    shown = list(numbers)
    return f"{len(shown)} records ({', '.join(map(str, shown[:most]))}{', …' if len(shown) > most else ''})"
