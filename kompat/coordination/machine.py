"""The interfaces of a state machine and of its codecs, as the runtime uses them."""

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
    """Commands return a Decision and do not change persistent state; only `apply` does.

    It uses no clock and no randomness, so that the same records give the same state on every broker.
    """

    def apply(self, record: R_contra) -> None:
        """Apply a record. Never fails: the command has checked everything."""
        ...


@runtime_checkable
class Snapshotting(Protocol[R_co]):
    """A machine that can write its whole state as records: then its log can be truncated."""

    def snapshot(self) -> Iterable[R_co]: ...


@runtime_checkable
class Timed(Protocol[R]):
    """A machine with timeouts, which act without a command."""

    def next_deadline(self) -> Millis | None: ...

    def tick(self, now: Millis) -> Decision[R, Any]:
        """Do what is due at `now`; afterwards no deadline is in the past."""
        ...


@runtime_checkable
class Patient(Protocol):
    """A machine whose deadlines are those of live clients: they must not expire because the clock was set."""

    def clock_moved(self, by: int) -> None:
        """The wall clock jumped by so many milliseconds."""
        ...


class Codec(Protocol[R]):
    """A record as the key and value of a log record."""

    def encode(self, record: R) -> tuple[bytes | None, bytes | None]: ...

    def decode(self, key: bytes | None, value: bytes | None) -> R | None:
        """None: a record that is not for this machine."""
        ...


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Replaces a record that cannot be read."""

    error: Exception


def decoded(decode: Callable[[], R]) -> R | Unreadable:
    """The decoded record. Raises for a record of a newer version that must not be skipped."""
    try:
        return decode()
    except UnknownRecord:
        raise
    except Exception as error:  # noqa: BLE001 - whatever the bytes are, the records after them have to be read
        return Unreadable(error)


class BatchCodec(Protocol[R]):
    """Records as the batches of a log. Most are plain; some are of a producer, or its transaction markers."""

    def encode(self, records: Sequence[R], now: Millis) -> Iterable[bytearray]: ...

    def decode(self, batch: memoryview) -> Iterator[tuple[Offset, R | Unreadable]]: ...
