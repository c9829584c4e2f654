"""Records as brokers tell them to each other: lists that JSON can hold."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Sequence
from typing import Any

from kompat.protocol.records import Record


def told(record: Record) -> list[Any]:
    headers = [[name, _text(value)] for name, value in record.headers]
    return [record.offset, record.timestamp, _text(record.key), _text(record.value), headers]


def read(told: Sequence[Any]) -> Record:
    offset, timestamp, key, value, headers = told
    return Record(offset, timestamp, _bytes(key), _bytes(value), [(name, _bytes(text)) for name, text in headers])


def _text(value: bytes | None) -> str | None:
    return None if value is None else b64encode(value).decode()


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else b64decode(text)
