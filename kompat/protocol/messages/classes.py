"""One class per message, for all its versions: fields outside a version have their defaults."""

from collections.abc import Callable
from dataclasses import dataclass, field, make_dataclass
from typing import Any, ClassVar

from kompat.protocol.messages.schema import Field, Schema, Struct


@dataclass(slots=True)
class Message:
    """What all messages have. Their fields are those of the schema, with Python's spelling; all have defaults."""

    SCHEMA: ClassVar[Schema]

    @classmethod
    def is_flexible(cls, version: int) -> bool:
        return version in cls.SCHEMA.flexible


def build_class(schema: Schema) -> type[Message]:
    """Nested structs are attributes of the class they occur in: `MetadataResponse.MetadataResponseTopic`."""
    built: type[Message] = _build(schema.struct, {}, (Message,))
    built.SCHEMA = schema
    return built


def _build(struct: Struct, known: dict[str, Any], bases: tuple[type, ...] = ()) -> Any:
    """`known`: the message's structs so far, since one may occur in several places."""
    inner = [f.struct for f in struct.fields if f.struct is not None]
    for nested in inner:
        known[nested.name] = known.get(nested.name) or _build(nested, known)
    fields: list[tuple[str, Any, Any]] = [(f.name, Any, _default(f, known)) for f in struct.fields]
    built = make_dataclass(struct.name, fields, bases=bases, slots=True, namespace={"__module__": __name__})
    for nested in inner:
        setattr(built, nested.name, known[nested.name])
    return built


def _default(spec: Field, known: dict[str, Any]) -> Any:
    if spec.is_array and spec.default is not None:
        return field(default_factory=list)
    if spec.struct is not None and not spec.is_array and _is_required(spec):
        factory: Callable[[], Any] = known[spec.struct.name]
        return field(default_factory=factory)
    return field(default=spec.default)


def _is_required(spec: Field) -> bool:
    """A struct that is in every message of its versions; a tagged one is None unless it is there."""
    return spec.tag is None and spec.nullable.high < spec.nullable.low
