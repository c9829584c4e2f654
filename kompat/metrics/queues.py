"""What share groups and queue topics have under way, and how much of it is how urgent."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakKeyDictionary

from kompat.errors import KafkaError
from kompat.extensions import queue_statistics
from kompat.extensions.queue_statistics import ClassPage, Look, QueueStatistics, read_page
from kompat.share.machine.classes import DEFAULT_CLASS, MOST_PAGES
from kompat.types import Offset

if TYPE_CHECKING:
    from kompat.handlers.services import Services
    from kompat.metrics.page import Page
    from kompat.share.live import LivePartition

RECORDS, DEPTH = "kompat_queue_records", "kompat_queue_depth"
PAGES_READ = 100  # for one scrape: 0.2 s of CPU where they hold much

_Name = tuple[str, str]  # of a group and its topic
_Key = tuple[int, Offset]  # a page's class and where it begins


class _Page(NamedTuple):
    """What was read of a class from an offset on. It is the same as long as nothing is given out or given back there."""

    state: int
    read: ClassPage


class _Depth:
    """A group's records on one partition by class, as last counted, and what of it need not be read again."""

    def __init__(self) -> None:
        self.turn = 0  # who was last read for, is read for last
        self.classes: dict[int, int] | None = None
        self.pages: dict[_Key, _Page] = {}


class Queues:
    """Of one broker: groups in use, on partitions that it leads.

    Records with a class are looked up in the store. For one scrape so many are, those first that were counted longest
    ago; the next one goes on from there. Until it is done, the last count is told.
    """

    def __init__(self, services: Services, pages_read: int = PAGES_READ) -> None:
        self._shares = services.shares
        self._pages_read = pages_read
        self._left = 0
        self._depths: WeakKeyDictionary[LivePartition, _Depth] = WeakKeyDictionary()
        self._turn = 0

    def gather(self, page: Page) -> Iterator[None]:
        """A group's records on all partitions of a topic together."""
        figures: dict[_Name, list[QueueStatistics]] = {}
        depths: dict[_Name, Counter[int]] = {}
        self._left = self._pages_read
        for live in sorted(self._shares.live, key=self._turn_of):
            if not live.is_fenced:
                name = live.key.group_id, live.log.topic
                try:
                    at = queue_statistics.look(live)
                    figures.setdefault(name, []).append(at.figures)
                    depth = yield from self._count(live, at)
                except KafkaError:  # the store cannot be read: then everything else is all the more of interest
                    depth = None
                if depth is None:
                    page.leave_out(DEPTH, 1)
                else:
                    depths.setdefault(name, Counter()).update(depth)
            yield
        yield from _tell(page, figures, depths)

    def _turn_of(self, live: LivePartition) -> int:
        known = self._depths.get(live)
        return known.turn if known is not None else 0

    def _count(self, live: LivePartition, at: Look) -> Generator[None, None, dict[int, int] | None]:
        """By class, those too that nothing waits in any more. None: not known yet."""
        known = self._depths.setdefault(live, _Depth())
        left = self._left
        found: dict[int, int] = {}
        pages: dict[_Key, _Page] = {}
        for number in at.ranked:
            size = yield from self._count_class(live, at, number, known.pages, pages)
            if size is None:
                known.pages = {key: each for key, each in (known.pages | pages).items() if each.read.next > at.start}
                break
            found[number] = size
        else:
            known.classes, known.pages = at.by_class(found), pages
        if self._left < left:
            self._turn += 1
            known.turn = self._turn
        return None if known.classes is None else dict.fromkeys([DEFAULT_CLASS, *at.ever], 0) | known.classes

    def _count_class(
        self, live: LivePartition, at: Look, number: int, known: Mapping[_Key, _Page], pages: dict[_Key, _Page]
    ) -> Generator[None, None, int | None]:
        """None: it takes more than may be read."""
        first, size = _begin(at, number, known), 0
        for _ in range(MOST_PAGES):
            page = known.get((number, first))
            if page is None or page.state != _state(at, number, first, page.read):
                if self._left <= 0:
                    return None
                self._left -= 1
                read = read_page(live, at, number, first)
                page = _Page(_state(at, number, first, read), read)
                yield
            pages[number, first] = page
            size += page.read.free
            if page.read.is_last:
                break
            first = page.read.next
        return size


def _begin(at: Look, number: int, known: Mapping[_Key, _Page]) -> Offset:
    """With the page that the group's start lies in: so the others are the same as before."""
    for (class_, first), page in known.items():
        if class_ == number and first <= at.start < page.read.next:
            return first
    return at.start


def _state(at: Look, number: int, first: Offset, read: ClassPage) -> int:
    """Of what lies in a page: what is taken, whether the group has come past some of it, and whether there is more."""
    begin = max(0, bisect_right(at.taken, (first, 0)) - 1)
    taken = at.taken[begin : bisect_left(at.taken, (read.next, 0))]
    newest = at.newest[number] if read.is_last and at.newest else -1
    return hash((max(0, at.start - first), tuple(taken), newest, min(newest, at.end)))


def _tell(
    page: Page, figures: Mapping[_Name, Sequence[QueueStatistics]], depths: Mapping[_Name, Counter[int]]
) -> Iterator[None]:
    for (group, topic), parts in figures.items():
        total = queue_statistics.total(parts)
        for state in ("available", "in_flight", "backing_off", "being_buried"):
            page.add(RECORDS, getattr(total, state), group, topic, state)
        yield
    for (group, topic), depth in depths.items():
        for class_, size in sorted(depth.items()):
            page.add(DEPTH, size, group, topic, str(class_))
        yield
