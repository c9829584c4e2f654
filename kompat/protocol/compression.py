"""Kafka's compression types, over whole payloads."""

from enum import IntEnum

from kompat import _native
from kompat.errors import ErrorCode, KafkaError
from kompat.types import Buffer

# What one batch may unpack to. Kafka unpacks as a stream and has no such bound; here a batch is unpacked in memory,
# and without one a few kilobytes could claim all of it.
DECOMPRESSED_LIMIT = 128 * 1024 * 1024


class Compression(IntEnum):
    """The batch attribute; the names are the values of `compression.type`."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


def compress(codec: int, data: Buffer, level: int | None = None) -> bytes:
    try:
        return _native.compress(codec, data, level)
    except _native.BatchError as error:
        raise KafkaError(ErrorCode(error.args[0]), error.args[1]) from None


def decompress(codec: int, data: Buffer, limit: int = DECOMPRESSED_LIMIT) -> bytes:
    """Refuses output above `limit`. Snappy may be raw or in snappy-java's chunks."""
    try:
        return _native.decompress(codec, data, limit)
    except _native.BatchError as error:
        raise KafkaError(ErrorCode(error.args[0]), error.args[1]) from None
