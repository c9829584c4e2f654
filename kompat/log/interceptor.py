"""The hook by which an extension (kompat/extensions) can replace a client's batch before it is appended.

The interceptor gets every batch whose records carry one of its headers, and on some topics every batch. It may put another
batch into the same offsets and have states written with it: all of that and the log's entry are one write to the store.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple, Protocol

from kompat.common.promise import Promise
from kompat.log.validation import Writable
from kompat.protocol.records import BatchHeader, HeaderNames
from kompat.types import Millis, Offset

StateWrite = tuple[bytes, bytes | None]  # a state's name and its value; None deletes it


class Intercepted(NamedTuple):
    """The batch that replaces a client's, with the same offsets, and the states that are written with it."""

    batch: Writable
    header: BatchHeader
    writes: Sequence[StateWrite]
    also: Sequence[Promise[None]] = ()  # what else has to be committed before the producer gets its response


class Prepared(NamedTuple):
    """A batch that was validated, and what the interceptor has found in it, ahead of its append."""

    batch: Writable
    header: BatchHeader
    named: int
    found: object  # None: the interceptor has not looked at it yet


class Costly(Exception):  # noqa: N818 - not an error, but a slower path
    """Deciding on the batch would hold the event loop for too long. `prepare` does it in steps or in a thread, and may reject the
    batch; its result is passed to the append."""

    def __init__(self, prepare: Callable[[], Awaitable[Prepared]]) -> None:
        super().__init__()
        self.prepare = prepare


class AppendInterceptor(Protocol):
    """The interceptor of one partition. Its decisions depend on its arguments and on the partition's states alone, so every
    replica comes to the same result. A decision changes nothing by itself: `staged` reports what is written."""

    names: HeaderNames

    def intercept(
        self,
        batch: Writable,
        header: BatchHeader,
        named: int,
        base_offset: Offset,
        now: Millis,
        *,
        prepared: Prepared | None = None,
        is_patient: bool = False,
    ) -> Intercepted | None:
        """Decide on a batch that is valid and new; `named` has the bits of the names that it carries. None: it stays as it is.

        Raises KafkaError where a header is invalid; Costly, where the caller `is_patient` and the decision would take long.
        """
        ...

    def appended(self, base_offset: Offset, committed: Promise[None], client_id: str | None) -> None:
        """The intercepted batch was appended at this offset; it stays there once it is committed. `client_id`: its producer's."""
        ...

    def end_transaction(self, producer_id: int, *, commits: bool) -> Sequence[StateWrite]:
        """The states that are written with the marker that ends a producer's transaction."""
        ...

    def staged(self, writes: Sequence[StateWrite], turn: Promise[None]) -> None:
        """These states are written with the turn; until it is done, no read of the store shows them."""
        ...

    def configured(self) -> None:
        """The topic's configuration may have changed."""
        ...

    def reload(self) -> None:
        """What was staged could not be written: go back to what the store holds."""
        ...

    def start_moved(self) -> None:
        """The log start offset has moved."""
        ...

    def drop(self) -> None:
        """The partition was deleted."""
        ...
