"""What the runtime asks of a state machine and of the way its records are written down."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, runtime_checkable

from kompat.coordination.decision import Decision
from kompat.errors import UnknownRecord
from kompat.types import Millis, Offset

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
R_contra = TypeVar("R_contra", contravariant=True)


class Machine(Protocol[R_contra]):
    """Commands return a Decision and change nothing that a record does not say; `apply` alone changes that.

    It reads no clock and no randomness, so that the same records give the same state wherever they are applied.
    """

    def apply(self, record: R_contra) -> None:
        """Make a record true. Never fails: what could be wrong was checked by the command."""
        ...


@runtime_checkable
class Snapshotting(Protocol[R_co]):
    """A machine that can say its whole state in records: then its log need not be kept from the beginning."""

    def snapshot(self) -> Iterable[R_co]: ...


@runtime_checkable
class Timed(Protocol[R]):
    """A machine that has something to do when time passes, even if nobody asks."""

    def next_deadline(self) -> Millis | None: ...

    def tick(self, now: Millis) -> Decision[R, Any]:
        """What follows from its being `now`; afterwards no deadline is left that has passed."""
        ...


@runtime_checkable
class Patient(Protocol):
    """A machine with deadlines that are promises to somebody alive: they must not come when only the clock was set."""

    def clock_moved(self, by: int) -> None:
        """The wall clock jumped by so many milliseconds."""
        ...


class Codec(Protocol[R]):
    """A record as the key and value of a log record."""

    def encode(self, record: R) -> tuple[bytes | None, bytes | None]: ...

    def decode(self, key: bytes | None, value: bytes | None) -> R | None:
        """None: nothing that this machine has to know of."""
        ...


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Stands in the place of a record that cannot be read."""

    error: Exception


def decoded(decode: Callable[[], R]) -> R | Unreadable:
    """What a codec makes of a record. What a newer version wrote, and must not be skipped, is raised."""
    try:
        return decode()
    except UnknownRecord:
        raise
    except Exception as error:  # noqa: BLE001 - whatever is in the bytes, what comes after them has to be read
        return Unreadable(error)


class BatchCodec(Protocol[R]):
    """Records as the batches of a log. Most are plain; some stand in a producer's name, or are its end markers."""

    def encode(self, records: Sequence[R], now: Millis) -> Iterable[bytearray]: ...

    def decode(self, batch: memoryview) -> Iterator[tuple[Offset, R | Unreadable]]: ...
