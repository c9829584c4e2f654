"""What may step in between a client's batch and its place in the log: extensions do, from above (kompat/extensions).

A batch whose records carry one of the headers that the intake looks for is shown to it, and on some topics every batch. It
may put another batch into the same offsets, and have states written along: all of that and the log's entry are one write to the store.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple, Protocol

from kompat.log.commit import Pending
from kompat.log.validation import Writable
from kompat.protocol.records import BatchHeader, HeaderNames
from kompat.types import Millis, Offset

StateWrite = tuple[bytes, bytes | None]  # a state's name and its value; None deletes it


class Diverted(NamedTuple):
    """What goes into the log in a batch's stead, with the same offsets, and what is written with it."""

    batch: Writable
    header: BatchHeader
    writes: Sequence[StateWrite]
    also: Sequence[Pending] = ()  # what else has to be kept before the producer is told


class Prepared(NamedTuple):
    """A batch that was judged, and what the intake has found in it, ahead of its append."""

    batch: Writable
    header: BatchHeader
    named: int
    found: object  # None: it has not looked yet


class Costly(Exception):  # noqa: N818 - it is no error, but another way
    """To decide on the batch takes longer than others can wait. `prepare` looks at it in steps or in a thread, and may find it wrong; with the outcome it is to be appended."""

    def __init__(self, prepare: Callable[[], Awaitable[Prepared]]) -> None:
        super().__init__()
        self.prepare = prepare


class Intake(Protocol):
    """One partition's. What it decides follows from its arguments and from the partition's states, and from nothing else:
    every replica comes to the same result. It changes nothing by deciding: what is written, it hears by `staged`."""

    names: HeaderNames

    def divert(
        self,
        batch: Writable,
        header: BatchHeader,
        named: int,
        base_offset: Offset,
        now: Millis,
        *,
        prepared: Prepared | None = None,
        is_patient: bool = False,
    ) -> Diverted | None:
        """Decide on a batch that is valid and new; `named` tells which of the names it has. None: it stays as it is.

        Raises KafkaError where a header makes no sense; Costly, to somebody who is patient, where others should not wait for it.
        """
        ...

    def appended(self, base_offset: Offset, committed: Pending) -> None:
        """The batch that was decided on has its place: there, and for ever when it is committed."""
        ...

    def end_transaction(self, producer_id: int, *, commits: bool) -> Sequence[StateWrite]:
        """What is written along with the marker that ends a producer's transaction."""
        ...

    def staged(self, writes: Sequence[StateWrite], turn: Pending) -> None:
        """These are to be written with the turn; until it is done, no read of the store shows them."""
        ...

    def configured(self) -> None:
        """The topic's settings may be others now."""
        ...

    def reload(self) -> None:
        """The disk refused what was staged: only what the store holds counts."""
        ...

    def start_moved(self) -> None:
        """The log begins later now."""
        ...

    def drop(self) -> None:
        """The partition is gone."""
        ...
