"""A request with a long list is handled as several short ones, and their answers are put together.

`Api.parts` names the lists: `Cut("topics", "topics", Cut("partitions", "partitions"))` cuts topics, and the partitions of a topic that
has many, and names the lists of the response. It is for APIs that answer each item on its own, in the request's order; where one
list decides about all of it at once, there is no `parts`, and the number of items is bounded instead.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from copy import copy
from dataclasses import dataclass
from typing import Any

PART = 100  # items
STEP = 1_000  # items that are only looked at


@dataclass(frozen=True, slots=True)
class Cut:
    in_request: str  # the list's name in the request
    in_response: str  # and in the response
    inner: Cut | None = None  # of each of its items
    # Where a duplicate item gets another response than a single one: the key of duplicates. Only whether there is a second one
    # matters, so the second is put into the part of the first, and others are left out.
    key: Callable[[Any], Hashable] | None = None
    size: int = PART


@dataclass(frozen=True, slots=True)
class Part:
    request: Any
    depth: int = 0  # how many levels of lists continue the part before


def cut_for(cuts: tuple[Cut, ...], request: Any) -> Cut | None:
    """The one of the lists that the request has; None where it has several, whose items may have to do with each other."""
    found = [cut for cut in cuts if getattr(request, cut.in_request)]
    return found[0] if len(found) == 1 else None


def parts(request: Any, cut: Cut, size: int = 0) -> Iterator[Part | None]:
    """The request in parts of at most `size` items. None: so far there is none yet, and others may have a turn."""
    size = size or cut.size
    items = getattr(request, cut.in_request)
    if not items:
        yield Part(request)
        return
    batch: list[Any] = []
    weight = 0
    for alike in _paired(items, cut.key) if cut.key is not None else ([item] for item in items):
        if alike is None:
            yield None
            continue
        heavy = sum(_weight(item, cut.inner, size) for item in alike)
        if batch and weight + heavy > size:
            yield Part(_with(request, cut, batch))
            batch, weight = [], 0
        if heavy > size and cut.inner is not None:
            yield from _pieces(request, alike[0], cut, cut.inner, size)
            continue
        batch += alike
        weight += heavy
    if batch:
        yield Part(_with(request, cut, batch))


def _pieces(request: Any, item: Any, cut: Cut, inner: Cut, size: int) -> Iterator[Part | None]:
    """Of one item that has more than a part's."""
    is_first = True
    for piece in parts(item, inner, size):
        if piece is None:
            yield None
            continue
        yield Part(_with(request, cut, [piece.request]), 0 if is_first else 1 + piece.depth)
        is_first = False


def join(answer: Any, more: Any, cut: Cut, depth: int) -> None:
    """Add the answer to a part to that of the parts before."""
    known, added = getattr(answer, cut.in_response), getattr(more, cut.in_response)
    if depth and cut.inner is not None and known and added:
        join(known[-1], added[0], cut.inner, depth - 1)
        added = added[1:]
    if known is None:
        setattr(answer, cut.in_response, added)
    elif added:
        known += added
    for name in ("error_code", "error_message", "throttle_time_ms"):
        reported = getattr(more, name, None)
        if reported and not getattr(answer, name, reported):
            setattr(answer, name, reported)


def _with(request: Any, cut: Cut, items: list[Any]) -> Any:
    part = copy(request)
    setattr(part, cut.in_request, items)
    return part


def _weight(item: Any, inner: Cut | None, most: int) -> int:
    """How many items it stands for: itself, and those that it has. Beyond `most` it does not matter how many more."""
    weight = 1
    if inner is None:
        return weight
    for each in getattr(item, inner.in_request) or ():
        weight += 1 if inner.inner is None else _weight(each, inner.inner, most)
        if weight > most:
            break
    return weight


def _paired(items: list[Any], key: Callable[[Any], Hashable]) -> Iterator[list[Any] | None]:
    """In the order in which they first come, one or two of each."""
    found: dict[Hashable, list[Any]] = {}
    for number, item in enumerate(items):
        alike = found.setdefault(key(item), [])
        if len(alike) < 2:
            alike.append(item)
        if number % STEP == STEP - 1:
            yield None
    yield from found.values()
