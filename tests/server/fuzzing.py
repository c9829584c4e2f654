"""Requests that no client would send: well-formed with wild values, mutated, or random bytes."""

from __future__ import annotations

import socket
import struct
from random import Random
from types import SimpleNamespace
from typing import Any
from uuid import UUID

from kompat.protocol.api_keys import ApiKey
from kompat.protocol.codec import is_flexible
from kompat.protocol.messages import classes
from kompat.protocol.messages.encoder import Encoder
from kompat.protocol.messages.schema import Field, Struct
from kompat.protocol.records import Record, build_batch

TOPIC = "fuzzed"
PROBE = 0x7E57AB1E  # correlation id of the request that must be answered after the others
INTEGER_BITS = {"int8": 7, "int16": 15, "int32": 31, "int64": 63}
STRINGS = [
    TOPIC,
    TOPIC,
    "",
    "x",
    "a" * 300,
    "../../etc",
    "\x00",
    "snowman ☃",
    "__consumer_offsets",
    "1",
    "*",
    "b" * 30_000,
]
# These only make a test wait.
WAITS = ("max_wait_ms", "rebalance_timeout_ms", "timeout_ms")


def frame(key: int, version: int, correlation_id: int, body: bytes) -> bytes:
    header = struct.pack(">hhih", key, version, correlation_id, 4) + b"fuzz"
    if is_flexible(key, version):
        header += b"\0"
    return struct.pack(">i", len(header) + len(body)) + header + body


def probe() -> bytes:
    return frame(ApiKey.ApiVersions, 0, PROBE, b"")


def wild_request(random: Random, key: int, version: int, topic_id: UUID) -> bytes:
    """A request as its schema has it, with values that make no sense."""
    schema = classes(ApiKey(key))[0].SCHEMA
    out = bytearray()
    writer = Encoder(version, flexible=version in schema.flexible).struct(schema.struct)
    writer(out, _struct(random, schema.struct, version, topic_id))
    return frame(key, version, random.randrange(1 << 30), bytes(out))


def _struct(random: Random, struct_: Struct, version: int, topic_id: UUID) -> SimpleNamespace:
    return SimpleNamespace(**{f.name: _value(random, f, version, topic_id) for f in struct_.fields})


def _value(random: Random, field: Field, version: int, topic_id: UUID) -> Any:
    if version in field.nullable and random.random() < 0.2:
        return None
    if field.is_array:
        return [_item(random, field, version, topic_id) for _ in range(random.choice((0, 1, 1, 2, 5)))]
    return _item(random, field, version, topic_id)


def _item(random: Random, field: Field, version: int, topic_id: UUID) -> Any:
    if field.struct is not None:
        return _struct(random, field.struct, version, topic_id)
    if field.name in WAITS:
        return random.randrange(20)
    if field.type in INTEGER_BITS:
        top = 1 << INTEGER_BITS[field.type]
        return random.choice((0, 0, 1, 1, 2, -1, top - 1, -top, random.randrange(-top, top)))
    makers: dict[str, Any] = {
        "uint16": lambda: random.randrange(1 << 16),
        "bool": lambda: random.random() < 0.5,
        "float64": lambda: random.choice((0.0, -1.5, float("nan"), float("inf"))),
        "uuid": lambda: random.choice((topic_id, UUID(int=random.getrandbits(128)), None)),
        "string": lambda: random.choice(STRINGS),
        "bytes": lambda: random.randbytes(random.choice((0, 3, 100))),
        "records": lambda: _records(random),
    }
    return makers[field.type]()


def _records(random: Random) -> bytes:
    records = [Record(i, 1_700_000_000_000, b"k", b"v" * 20, []) for i in range(random.choice((1, 3)))]
    batch = bytes(build_batch(records, compression=random.randrange(5)))
    return random.choice((batch, batch * 2, mutated(random, batch), b"", random.randbytes(80)))


def mutated(random: Random, data: bytes) -> bytes:
    """The same, but for a few bytes."""
    out = bytearray(data)
    for _ in range(random.choice((1, 1, 2, 8))):
        at = random.randrange(len(out)) if out else 0
        change = random.randrange(5)
        if change == 0 and out:
            out[at] ^= 1 << random.randrange(8)
        elif change == 1:
            out[at : at + 1] = random.choice((b"\x00", b"\xff", b"\x7f", b"\x80"))
        elif change == 2:
            del out[at : at + random.choice((1, 2, 4, 50))]
        elif change == 3:
            out[at:at] = random.randbytes(random.choice((1, 2, 4, 50)))
        else:
            out[at : at + 4] = random.choice((b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x00\x00\x00\x00"))
    return bytes(out)


def reframed(frame_bytes: bytes) -> bytes:
    """With a length prefix that is right again."""
    return struct.pack(">i", max(0, len(frame_bytes) - 4)) + frame_bytes[4:]


def answers_the_probe(connection: socket.socket) -> bool:
    """Read answers up to the probe's; False where the broker closes the connection. A TimeoutError is a hang."""
    buffer = bytearray()
    while True:
        while len(buffer) >= 8:
            length, correlation_id = struct.unpack_from(">ii", buffer)
            if len(buffer) < 4 + length:
                break
            if correlation_id == PROBE:
                return True
            del buffer[: 4 + length]
        try:
            chunk = connection.recv(1 << 20)
        except ConnectionError:
            return False
        if not chunk:
            return False
        buffer += chunk
