"""Compression for kafka-python by kompat's own codecs: otherwise it needs another package for each codec.

kafka-python cannot register codecs, so they replace its functions wherever it has bound them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from kompat.errors import KafkaError
from kompat.protocol.compression import Compression, compress, decompress

LARGEST: Final = 1 << 30  # bytes of a batch's records: much more than any broker accepts


def register() -> None:
    """Register the codecs for all clients of kafka-python in this process. Idempotent."""
    import kafka.codec
    from kafka.record import default_records, legacy_records

    for name, codec in (("snappy", Compression.SNAPPY), ("lz4", Compression.LZ4), ("zstd", Compression.ZSTD)):
        setattr(kafka.codec, name, codec)  # has_snappy and the like look at these
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
