"""Decodes the records of internal topics. Pure."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, Final
from uuid import UUID

from kompat.errors import DamagedData
from kompat.protocol.records import Record

HIDDEN: Final = "(hidden)"
_SECRETS: Final = frozenset({"stored_key", "server_key", "secret"})
_SECRET_KINDS: Final = frozenset({b"scram", b"scram-stand-ins"})
_METADATA: Final = "__cluster_metadata"
_Reader = Callable[[bytes, bytes | None], Any]


def decoded(topic: str, record: Record) -> dict[str, Any] | None:
    """The decoded record; None if its topic is not internal, or its type is unknown."""
    reader = _READERS.get(topic)
    if reader is None or record.key is None:
        return None
    try:
        found = reader()(record.key, record.value)
    except DamagedData as error:
        return {"damaged": str(error)}
    if found is None:
        return None
    fields = plain(found)
    return {"kind": type(found).__name__, **(fields if isinstance(fields, dict) else {"value": fields})}


def without_secrets(topic: str, record: Record) -> Record:
    """The record without a value that has secrets, so that they are not printed."""
    if topic == _METADATA and record.key in _SECRET_KINDS:
        return dataclasses.replace(record, value=HIDDEN.encode())
    return record


def plain(value: Any) -> Any:
    """The value as JSON types."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        found = {each.name: getattr(value, each.name) for each in dataclasses.fields(value)}
        return {name: HIDDEN if name in _SECRETS else plain(each) for name, each in found.items()}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return {name: plain(each) for name, each in value._asdict().items()}
    if isinstance(value, Mapping):
        return {str(plain(name)): plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(each) for each in (sorted(value) if isinstance(value, set | frozenset) else value)]
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).hex()
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, UUID):
        return str(value)
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def _cluster() -> _Reader:
    from kompat.cluster.records import ClusterCodec

    return ClusterCodec().decode


def _offsets() -> _Reader:
    from kompat.groups.record_codec import decode

    return decode


def _transactions() -> _Reader:
    from kompat.txn.records import decode

    return decode


def _shares() -> _Reader:
    from kompat.share.records import ShareCodec

    return ShareCodec().decode


def _traces() -> _Reader:
    return lambda _, value: None if value is None else _Event(json.loads(value))


class _Event(dict[str, Any]):
    """A trace event, which is JSON already."""


_READERS: Final[dict[str, Callable[[], _Reader]]] = {
    _METADATA: _cluster,
    "__consumer_offsets": _offsets,
    "__transaction_state": _transactions,
    "__share_group_state": _shares,
    "__kompat_trace": _traces,
}
