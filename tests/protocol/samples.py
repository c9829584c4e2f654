"""Messages with random contents, for any schema and version; edge values are as likely as ordinary ones."""

import warnings
from random import Random
from typing import Any
from uuid import UUID

from kompat.protocol.messages.schema import Field, Struct

# What kompat serves or will: WIRE.md's table, low to high.
SERVED = {
    0: (3, 13), 1: (4, 18), 2: (1, 11), 3: (0, 13), 8: (2, 10), 9: (1, 10), 10: (0, 6), 11: (0, 9), 12: (0, 4),
    13: (0, 5), 14: (0, 5), 15: (0, 6), 16: (0, 5), 17: (0, 1), 18: (0, 4), 19: (2, 7), 20: (1, 6), 21: (0, 2),
    22: (0, 5), 23: (2, 4), 24: (0, 5), 25: (0, 4), 26: (0, 5), 27: (1, 2), 28: (0, 5), 29: (1, 3), 30: (1, 3),
    31: (1, 3), 32: (1, 4), 33: (0, 2), 34: (1, 2), 35: (1, 4), 36: (0, 2), 37: (0, 3), 42: (0, 2), 43: (0, 2),
    44: (0, 1), 45: (0, 1), 46: (0, 0), 47: (0, 0), 48: (0, 1), 49: (0, 1), 50: (0, 0), 51: (0, 0), 55: (0, 2),
    57: (0, 2), 60: (0, 2), 61: (0, 0), 65: (0, 0), 66: (0, 2), 68: (0, 1), 69: (0, 1), 71: (0, 0), 72: (0, 0),
    74: (0, 1), 75: (0, 0), 76: (1, 1), 77: (1, 1), 78: (1, 2), 79: (1, 2), 88: (0, 0), 89: (0, 0), 90: (0, 1),
    91: (0, 0), 92: (0, 0),
}  # fmt: skip

_INTS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
_WORDS = ("", "a", "topic-1", "Größe ☃ 🦀", "x" * 126, "y" * 127, "z" * 300)


def message(rng: Random, made: Any, struct: Struct, version: int) -> Any:
    """An instance of `made` with random values in the fields of `version`."""
    values = {
        field.name: _value(rng, made, field, version)
        for field in struct.fields
        if version in field.versions and (version not in field.tagged or rng.random() < 0.5)
    }
    return made(**values)


def _value(rng: Random, made: Any, field: Field, version: int) -> Any:
    if version in field.nullable and rng.random() < 0.25:
        return None
    if field.is_array:
        return [_item(rng, made, field, version) for _ in range(rng.choice((0, 1, 1, 2, 3)))]
    return _item(rng, made, field, version)


def _item(rng: Random, made: Any, field: Field, version: int) -> Any:
    if field.struct is not None:
        return message(rng, getattr(made, field.struct.name), field.struct, version)
    if field.type in _INTS:
        most = 1 << (_INTS[field.type] - 1)
        return rng.choice((0, 1, -1, most - 1, -most, rng.randrange(-most, most)))
    others = {
        "uint16": lambda: rng.randrange(1 << 16),
        "bool": lambda: rng.random() < 0.5,
        "float64": lambda: rng.choice((0.0, -1.5, 1e300)),
        "uuid": lambda: rng.choice((None, UUID(int=rng.getrandbits(128)))),
        "string": lambda: rng.choice(_WORDS),
        "bytes": lambda: rng.randbytes(rng.choice((0, 1, 127, 200))),
        "records": lambda: rng.randbytes(rng.choice((0, 1, 127, 200))),
        "bitfield": lambda: rng.choice((None, set(rng.sample(range(31), 3)))),
    }
    return others[field.type]()


def mutated(rng: Random, data: bytes) -> bytes:
    """`data` with a few bytes changed, removed, repeated or added."""
    damaged = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(damaged) + 1)
        match rng.randrange(4):
            case 0:
                damaged[at : at + 1] = bytes([rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))])
            case 1:
                del damaged[at : at + rng.randint(1, 8)]
            case 2:
                damaged[at:at] = rng.randbytes(rng.randint(1, 8))
            case _:
                damaged[at:at] = damaged[at : at + 16]
    return bytes(damaged)


def kafka_python() -> dict[str, Any]:
    """kafka-python's message classes by name: a codec that others wrote."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from kafka.protocol import admin, consumer, metadata, producer, sasl

    modules = (admin, consumer, metadata, producer, sasl)
    return {name: value for module in modules for name, value in vars(module).items() if isinstance(value, type)}
