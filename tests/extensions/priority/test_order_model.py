"""Whatever the interleaving: the most urgent of what can be had comes first, what is past its time never comes, and none is lost."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import pytest

from kompat.extensions.priority import order as classes
from kompat.extensions.priority.order import CLASSES, ByClass, RankedBatch, RankedRun
from kompat.share.machine.messages import AcquireMode, Span, Want
from kompat.share.machine.order import Choice, Moment
from kompat.types import Millis
from tests.share.model import ACQUIRED, ARCHIVED, NEVER, Ranked
from tests.share.random_members import MEMBERS, STEPS, Walk

pytestmark = pytest.mark.slow

END = NEVER  # of what never ends, also in the machine


class Index:
    """What a partition's states know of its records."""

    def __init__(self) -> None:
        self.batches: dict[int, list[RankedBatch]] = defaultdict(list)
        self.most = 1000  # at once

    def add(self, first: int, ranked: Sequence[Ranked | None]) -> None:
        runs: dict[int, list[RankedRun]] = defaultdict(list)
        for offset, each in enumerate(ranked, first):
            if each is not None:
                runs[each.priority].append(RankedRun(offset, offset, each.expires))
        for priority, found in runs.items():
            came = next(each.came for each in ranked if each is not None)
            self.batches[priority].append(RankedBatch(Millis(came), found))

    def newest(self) -> Sequence[int] | None:
        if not self.batches:
            return None
        return [self.batches[each][-1].last if self.batches[each] else -1 for each in range(CLASSES)]

    def find(self, priority: int, first: int, end: int, limit: int) -> list[RankedBatch]:
        return [each for each in self.batches[priority] if first <= each.last < end][: min(limit, self.most)]


class PriorityWalk(Walk):
    def __init__(self, seed: int) -> None:
        self.index = Index()
        super().__init__(seed)
        self.order = ByClass(self.index)
        self.aging_ms = self.random.choice((0, 100, 1000, 30_000))
        self.index.most = self.random.choice((1, 3, 1000))
        self.is_plain = self.random.random() < 0.3  # most batches have nothing in them
        self.most_runs = self.random.choice((5, 1000))
        self.readable = 0
        self.cuts = self.expiries = self.overtakings = 0

    # -- what happens --------------------------------------------------------------------------------------------------
    def append(self) -> None:
        first = self.model.end
        super().append()
        if self.is_plain and self.random.random() < 0.8:
            return
        wall = self.now
        records = [o for o in range(first, self.model.end) if o not in self.model.holes]
        ranked = [self.random_rank(wall) for _ in records]
        for offset, each in zip(records, ranked, strict=True):
            self.model.entries[offset].ranked = each
        self.index.add(first, ranked)

    def random_rank(self, wall: int) -> Ranked | None:
        if self.random.random() < 0.3:
            return None
        priority = self.random.choice((0, 2, 5, 9, 9, 4))
        expires = wall + self.random.choice((0, 50, 1000)) if self.random.random() < 0.2 else END
        return None if priority == 4 and expires == END else Ranked(priority, wall, expires)

    def crash(self) -> None:
        super().crash()
        self.order = ByClass(self.index)

    @property
    def end(self) -> int:
        """Of what can be read; another may be staged, or in a transaction that has not ended."""
        batches = self.model.batches
        wanted = batches[-1][0] if batches and self.random.random() < 0.2 else self.model.end
        self.readable = max(self.readable, wanted)
        return self.readable

    def acquire(self) -> None:
        member, size = self.random.choice(MEMBERS), self.random.randint(1, 12)
        moment = Moment(self.now, self.now, self.end, self.aging_ms)
        free = [o for o in self.model.available(self.now) if self.partition.start_offset <= o < moment.end]
        choice = self.order.next_spans(self.partition, self.settings, size, moment)
        if self.is_open(choice):
            super().acquire()
            return
        self.check_order(choice, free, size, moment)
        self.expire(choice, free, moment)
        self.take(member, choice, moment)

    def is_open(self, choice: Choice) -> bool:
        newest = self.index.newest()
        is_open = newest is None or max(newest) < self.partition.start_offset
        assert is_open or not any(span.last >= self.model.end for span in choice.spans)
        return is_open

    def check_order(self, choice: Choice, free: list[int], size: int, moment: Moment) -> None:
        chosen = [o for span in choice.spans for o in range(span.first, span.last + 1)]
        assert len(chosen) == len(set(chosen))
        assert set(chosen) <= set(free)
        self.cuts += choice.is_cut
        if choice.is_cut:
            return
        aging = None if self.partition.fragments > self.most_runs else self.aging_ms
        late = set(self.model.expired(free, moment.wall))
        alive = [o for o in free if o not in late]
        best = self.model.best(alive, moment.wall, moment.end, aging)
        expected = self.first_of(best, size)
        deliveries = self.model.entries[expected[0]].deliveries if expected else 0
        if deliveries >= self.settings.isolate_from:
            assert chosen[0] == expected[0]  # and what it is isolated with
        else:
            assert set(chosen) == set(expected)
        self.overtakings += bool(chosen) and max(chosen) > min(alive) and min(alive) not in chosen

    def first_of(self, best: list[int], size: int) -> list[int]:
        """As many as are wanted and the locks allow; what may be poison comes alone."""
        locks = self.settings.max_locks - self.partition.in_flight
        taken: list[int] = []
        for o in best:
            deliveries = self.model.entries[o].deliveries
            if deliveries >= self.settings.isolate_from:
                return taken or [o]
            if deliveries or locks > 0:
                locks -= deliveries == 0
                taken.append(o)
            if len(taken) == size:
                break
        return taken

    def expire(self, choice: Choice, free: list[int], moment: Moment) -> None:
        offsets = [o for span in choice.expired for o in range(span.first, span.last + 1)]
        assert set(offsets) <= set(self.model.expired(free, moment.wall))
        self.expiries += len(offsets)
        self.persist(self.partition.expire(choice.expired, self.now).update)
        for o in offsets:
            self.model.entries[o].persist(ARCHIVED)

    def take(self, member: str, choice: Choice, moment: Moment) -> None:
        """Some of the best, as the response has room for, in ascending order."""
        spans = sorted(choice.spans[: self.random.choice((1, 2, 100))])
        mode = self.random.choice(tuple(AcquireMode))
        while spans:
            found = self.read(spans[0].first, self.random.randint(1, 4))
            within = [Span(s.first, min(s.last, found.end - 1)) for s in spans if s.first < found.end]
            room = sum(span.last - span.first + 1 for span in spans)
            want = Want(max_records=room, batch_size=self.random.randint(1, 10), mode=mode)
            acquired = self.partition.acquire(member, found, want, self.settings, self.now, within)
            self.check_acquired(member, acquired, want)
            self.pass_holes()
            self.persist(acquired.update)
            spans = [Span(max(s.first, found.end), s.last) for s in spans if s.last >= found.end]

    def log_starts_later(self) -> None:
        super().log_starts_later()
        for batches in self.index.batches.values():
            batches[:] = [each for each in batches if each.last >= self.model.log_start or each is batches[-1]]


@pytest.mark.parametrize("seed", range(40))
def test_the_most_urgent_comes_first_and_none_is_lost(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(classes, "NEVER", END)
    walk = PriorityWalk(seed)
    monkeypatch.setattr(classes, "PAGE", walk.random.choice((1, 2, 5, 128)))
    monkeypatch.setattr(classes, "MOST_PAGES", walk.random.choice((3, 64, 10_000)))
    monkeypatch.setattr(classes, "MOST_EXPIRED", walk.random.choice((1, 1000)))
    monkeypatch.setattr(classes, "MOST_RUNS", walk.most_runs)
    monkeypatch.setattr(classes, "_SLACK", 3)
    for _ in range(STEPS):
        walk.step()
    held = [o for o in walk.model.live if walk.model.entries[o].state is ACQUIRED]
    assert len(held) <= walk.settings.max_locks + 1
    walk.finish()
    assert walk.overtakings or walk.is_plain or walk.settings.max_locks < 10 or walk.most_runs == 5
