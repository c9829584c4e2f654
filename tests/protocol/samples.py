"""Messages with random contents, for any schema and version; edge values are as likely as ordinary ones."""

import warnings
from random import Random
from typing import Any
from uuid import UUID

from kompat.handlers import APIS
from kompat.protocol.messages.schema import Field, Struct

SERVED = {api.key: api.versions for api in APIS}

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
