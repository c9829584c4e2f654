"""How the broker packs the records that it writes itself: what was delayed, what waited in lanes, dead letters, what is put back, deliveries.

A producer's own limit on a batch is on its bytes before compression, and so is a consumer's on what it can unpack. What the broker
gathers has passed no such limit: hundreds of records that compress well fit into a few kilobytes, and unpack to more than any
client takes. So batches are bounded here by what their records are before compression, and no larger than the topic allows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeVar

from kompat.config.topic import TopicConfig
from kompat.log.validation import codec_of
from kompat.protocol.records import HEADER_SIZE, Compression, Record

# A quarter of what a producer with stock settings may send at once (1 MiB), so that every client takes it; and packing it, in the
# slowest codec (gzip, 50 MB/s where it gains nothing), holds the event loop for 5 ms.
BATCH_BYTES: Final = 256 << 10
ADDED_BYTES: Final = (
    128  # that a record may grow by on its way into the log, by the headers with its original time and offset
)
_RECORD_BYTES: Final = 36  # the most that a record takes besides its key, value and headers
_HEADER_BYTES: Final = 10  # and a header besides its name and value

T = TypeVar("T")


def size_of(record: Record) -> int:
    """Bytes of a record before compression, not less than they are."""
    size = _RECORD_BYTES + len(record.key or b"") + len(record.value or b"")
    for name, value in record.headers:
        size += _HEADER_BYTES + len(name.encode()) + len(value or b"")
    return size


def batch_limit(config: TopicConfig) -> int:
    """How many bytes of records, before compression, go into one batch, unless it is a single record."""
    return max(1, min(BATCH_BYTES, config.max_message_bytes) - HEADER_SIZE)


def packed(items: Iterable[T], record_of: Callable[[T], Record], limit: int) -> Iterator[list[T]]:
    """The items in their order, in parts whose records fit into a batch each."""
    part: list[T] = []
    size = 0
    for item in items:
        size += (added := size_of(record_of(item)))
        if part and size > limit:
            yield part
            part, size = [], added
        part.append(item)
    if part:
        yield part


def codec_for(config: TopicConfig, came: Iterable[tuple[int, int]]) -> Compression:
    """The codec of a batch of records that came in batches of different ones: that of most bytes, unless the topic has its own.

    `came`: codecs and bytes. By the first record alone, much that compresses well would be written as it is.
    """
    return codec_of(config, producers=most_used(came))


def most_used(came: Iterable[tuple[int, int]]) -> int:
    """The codec of most bytes."""
    sizes: dict[int, int] = {}
    for codec, size in came:
        sizes[codec] = sizes.get(codec, 0) + size
    return max(sizes, key=sizes.__getitem__, default=Compression.NONE)
