"""The face that all clients are given."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

Headers = tuple[tuple[str, bytes | None], ...]

# A client side limit well above the broker's, so that it is the broker that refuses.
MAX_REQUEST_BYTES = 20 * 1024 * 1024
CALL_SECONDS = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A record as a test wants it sent."""

    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    timestamp: int | None = None
    partition: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """A record as a consumer saw it. `timestamp_type` is None where the client does not tell."""

    offset: int
    value: bytes | None
    key: bytes | None
    headers: Headers
    timestamp: int
    timestamp_type: int | None


class SendError(Exception):
    """The client gave up on a message; `code` is Kafka's error number."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{code}: {text}")
        self.code = code


class Client(Protocol):
    """Partitions are always named by hand: consumer groups have tests of their own."""

    name: str

    def produce(
        self,
        bootstrap: str,
        topic: str,
        messages: Sequence[Message],
        *,
        codec: str = "none",
        acks: str = "all",
        idempotent: bool = False,
    ) -> list[int]:
        """Send, wait for every acknowledgement, return the offsets (-1 where the client was told none)."""

    def consume(
        self,
        bootstrap: str,
        topic: str,
        partition: int,
        *,
        start: int,
        count: int,
        seconds: float = CALL_SECONDS,
        read_committed: bool = False,
    ) -> list[Fetched]:
        """Up to `count` records and what came with the last of them, from `start` on."""

    def watermarks(self, bootstrap: str, topic: str, partition: int) -> tuple[int, int]:
        """The log start offset and the high watermark."""

    def offset_for_time(self, bootstrap: str, topic: str, partition: int, timestamp: int) -> int | None:
        """The first offset whose record is not older, or None."""
