"""Records of share groups and queue topics by state, and by priority."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakKeyDictionary

from kompat.errors import KafkaError
from kompat.extensions.priority.order import DEFAULT_CLASS, MOST_PAGES
from kompat.extensions.queues import statistics as queue_statistics
from kompat.extensions.queues.statistics import ClassPage, Look, QueueStatistics, read_page
from kompat.types import Offset

if TYPE_CHECKING:
    from kompat.handlers.support.services import Services
    from kompat.metrics.page import Page
    from kompat.share.partition import SharePartition

RECORDS, DEPTH = "kompat_queue_records", "kompat_queue_depth"
PAGES_READ = 100  # for one scrape: up to 0.2 s of CPU

_Name = tuple[str, str]  # group and topic
_Key = tuple[int, Offset]  # priority class and first offset of a page


class _Page(NamedTuple):
    """What was read of a class from an offset on. It stays valid as long as no record in it is acquired or released."""

    state: int
    read: ClassPage


class _Depth:
    """A group's records in one partition by class, as last counted, and the pages that need not be read again."""

    def __init__(self) -> None:
        self.turn = 0  # the most recently counted is counted last
        self.classes: dict[int, int] | None = None
        self.pages: dict[_Key, _Page] = {}


class Queues:
    """The share groups in use, on partitions that this broker leads.

    Records with a class are counted in the store. A scrape reads a limited number of pages, beginning with the partitions that were
    counted longest ago; the next scrape continues. Until a count is complete, the page has the previous one.
    """

    def __init__(self, services: Services, pages_read: int = PAGES_READ) -> None:
        self._shares = services.shares
        self._pages_read = pages_read
        self._left = 0
        self._depths: WeakKeyDictionary[SharePartition, _Depth] = WeakKeyDictionary()
        self._turn = 0

    def gather(self, page: Page) -> Iterator[None]:
        """Sum up a group's records over all partitions of a topic."""
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
                except KafkaError:  # the store cannot be read: all the more the page needs the other metrics
                    depth = None
                if depth is None:
                    page.leave_out(DEPTH, 1)
                else:
                    depths.setdefault(name, Counter()).update(depth)
            yield
        yield from _add_samples(page, figures, depths)

    def _turn_of(self, live: SharePartition) -> int:
        known = self._depths.get(live)
        return known.turn if known is not None else 0

    def _count(self, live: SharePartition, at: Look) -> Generator[None, None, dict[int, int] | None]:
        """Records by class, including empty classes. None: not counted yet."""
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
        self, live: SharePartition, at: Look, number: int, known: Mapping[_Key, _Page], pages: dict[_Key, _Page]
    ) -> Generator[None, None, int | None]:
        """The records of a class. None: the count needs more pages than may be read."""
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
    """Begin with the page of the group's start offset, so that the later pages are the same as before."""
    for (class_, first), page in known.items():
        if class_ == number and first <= at.start < page.read.next:
            return first
    return at.start


def _state(at: Look, number: int, first: Offset, read: ClassPage) -> int:
    """A hash of the group's state within a page: acquired records, whether its start offset is in it, and whether there is more."""
    begin = max(0, bisect_right(at.taken, (first, 0)) - 1)
    taken = at.taken[begin : bisect_left(at.taken, (read.next, 0))]
    newest = at.newest[number] if read.is_last and at.newest else -1
    return hash((max(0, at.start - first), tuple(taken), newest, min(newest, at.end)))


def _add_samples(
    page: Page, figures: Mapping[_Name, Sequence[QueueStatistics]], depths: Mapping[_Name, Counter[int]]
) -> Iterator[None]:
    for (group, topic), parts in figures.items():
        total = queue_statistics.total(parts)
        for state, count in (
            ("available", total.available),
            ("in_flight", total.in_flight),
            ("backing_off", total.backing_off),
            ("archiving", total.archiving),
        ):
            page.add(RECORDS, count, group, topic, state)
        yield
    for (group, topic), depth in depths.items():
        for class_, size in sorted(depth.items()):
            page.add(DEPTH, size, group, topic, str(class_))
        yield
