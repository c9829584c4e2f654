"""Requests that the protocol allows but nobody would send: all are answered, and none finds a bug."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterator
from typing import Any

import pytest

import kompat.testing
from kompat.errors import ErrorCode
from kompat.handlers import APIS
from kompat.handlers.support.base import Api
from tests.handlers import wire
from tests.handlers.conftest import Asker

TOPIC = "topic"
REQUESTS_PER_VERSION = 12
INTEGERS = (-(2**7), -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 8, 16, 32, 100, 127)
LARGE = {"int16": (2**15 - 1,), "int32": (-(2**31), 2**31 - 1, 30, 6000), "int64": (-(2**63), 2**63 - 1)}
STRINGS = ("", TOPIC, "other", "bad name", ".", "1", "x", "retention.ms", "cleanup.policy", "compact", "root", "é" * 90)


@pytest.fixture(scope="module")
def address() -> Iterator[tuple[str, int]]:
    with kompat.testing.broker() as running:
        Asker(running)("CreateTopics", 7, topics=[{"name": TOPIC, "num_partitions": 2, "replication_factor": 1}])
        yield running.host, running.port


@pytest.mark.parametrize("api", [api for api in APIS if api.handler.decode is None], ids=lambda api: api.name)
def test_any_request_is_answered(api: Api, address: tuple[str, int]) -> None:
    chance = random.Random(api.key)
    with socket.create_connection(address, timeout=30) as connection:
        for version in range(api.versions.low, api.versions.high + 1):
            for _ in range(REQUESTS_PER_VERSION):
                message = wire.message(f"{api.name}Request")
                request = _fill(message, message._struct, version, chance)

                answer = wire.exchange(connection, request, version)

                assert ErrorCode.UNKNOWN_SERVER_ERROR not in wire.error_codes(answer), request


def _fill(message: Any, struct: Any, version: int, chance: random.Random) -> Any:
    fields = [field for field in struct._fields if field.for_version_q(version)]
    return message(version=version, **{f.name: _value(message, f, version, chance) for f in fields})


def _value(owner: Any, field: Any, version: int, chance: random.Random) -> Any:
    if field.nullable_for_version_q(version) and chance.random() < 0.2:
        return None
    if field.is_struct():
        return _fill(getattr(owner, field.type_str), field, version, chance)
    if field.is_struct_array():
        nested = getattr(owner, field.type_str)
        return [_fill(nested, field, version, chance) for _ in range(chance.choice((0, 1, 1, 2)))]
    kind = field.type_str
    if kind.startswith("[]"):
        return [_simple(kind[2:], chance) for _ in range(chance.choice((0, 1, 1, 2)))]
    return _simple(kind, chance)


def _simple(kind: str, chance: random.Random) -> Any:
    if kind == "string":
        return chance.choice(STRINGS)
    if kind == "bool":
        return chance.random() < 0.5
    if kind == "uuid":
        return None
    if kind == "bytes":
        return chance.choice((b"", b"\x00\x01", bytes(range(40))))
    return chance.choice((*INTEGERS, *LARGE.get(kind, ())))
