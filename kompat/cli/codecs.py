"""kafka-python's compression, by the codecs that kompat has itself: it would need a package of its own for each of them.

kafka-python has no place to register codecs, so they take the place of its functions wherever it has bound them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from kompat.errors import KafkaError
from kompat.protocol.compression import Compression, compress, decompress

LARGEST: Final = 1 << 30  # of a batch's records: far above what any broker lets in


def register() -> None:
    """For every client of kafka-python in this process; idempotent."""
    import kafka.codec
    from kafka.record import default_records, legacy_records

    for name, codec in (("snappy", Compression.SNAPPY), ("lz4", Compression.LZ4), ("zstd", Compression.ZSTD)):
        setattr(kafka.codec, name, codec)  # what has_snappy and its like look at
        functions: dict[str, Callable[..., bytes]] = {
            f"{name}_encode": partial(_encode, codec),
            f"{name}_decode": partial(_decode, codec),
        }
        for module in (kafka.codec, default_records, legacy_records):
            for function, ours in functions.items():
                if hasattr(module, function):
                    setattr(module, function, ours)


def _encode(codec: Compression, payload: Any) -> bytes:
    return compress(codec, payload)


def _decode(codec: Compression, payload: Any) -> bytes:
    from kafka.errors import CorruptRecordError

    try:
        return decompress(codec, payload, LARGEST)
    except KafkaError as error:
        raise CorruptRecordError(str(error)) from error
