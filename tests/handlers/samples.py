"""A request of every API that names something, for tests that go over all of them."""

from __future__ import annotations

from typing import Any

from tests.handlers import wire

VALUES = {"string": "some", "uuid": None, "bool": False, "bytes": b""}


def request(api: str, version: int) -> Any:
    """Every field that the version has is set: one element in every array."""
    message = wire.message(f"{api}Request")
    return _fill(message, message._struct, version)


def _fill(message: Any, struct: Any, version: int) -> Any:
    values = {f.name: _value(message, f, version) for f in struct._fields if f.for_version_q(version)}
    return message(version=version, **values)


def _value(owner: Any, field: Any, version: int) -> Any:
    if field.is_struct_array():
        return [_fill(getattr(owner, field.type_str), field, version)]
    if field.is_struct():
        return _fill(getattr(owner, field.type_str), field, version)
    kind = field.type_str
    if kind.startswith("[]"):
        return [VALUES.get(kind[2:], 0)]
    return VALUES.get(kind, 0)
