"""Message definitions: Kafka's JSON format, from kafka-python's package or, for the APIs that it lacks, from ours.

kafka-python's files are read without importing it: its package would bring all its clients with it, 0.2 s and 13 MB.
"""

import json
import re
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from uuid import UUID

_COMMENT = re.compile(r"(?m)^\s*//.*$")
_WORD_START = re.compile(r"(?<!^)(?=[A-Z])")
_OURS = Path(__file__).with_name("definitions")
ARRAY = "[]"
FOREVER = 32767
INTEGERS = ("int8", "int16", "uint16", "int32", "int64")

# kafka-python's own names and types for these fields are kept: what it calls a bitfield is a set of numbers, or None.
_PATCHES: dict[tuple[str, str], dict[str, str]] = {
    ("MetadataResponse", "ClusterAuthorizedOperations"): {"name": "AuthorizedOperations", "type": "bitfield"},
    ("MetadataResponse", "TopicAuthorizedOperations"): {"name": "AuthorizedOperations", "type": "bitfield"},
    ("DescribeClusterResponse", "ClusterAuthorizedOperations"): {"name": "AuthorizedOperations", "type": "bitfield"},
    ("DescribeGroupsResponse", "AuthorizedOperations"): {"type": "bitfield"},
    ("CreatePartitionsRequest", "Assignments"): {"default": "null"},
    ("ListOffsetsRequest", "ReplicaId"): {"default": "-1"},
}


@dataclass(frozen=True, slots=True)
class Range:
    low: int
    high: int

    def __contains__(self, version: int) -> bool:
        return self.low <= version <= self.high


NEVER = Range(0, -1)


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    type: str  # of a primitive, or "struct"
    is_array: bool
    versions: Range
    nullable: Range
    tag: int | None
    tagged: Range
    default: Any  # None also for structs that are not nullable: they default to an empty one
    struct: "Struct | None"


@dataclass(frozen=True, slots=True)
class Struct:
    name: str
    fields: tuple[Field, ...]


@dataclass(frozen=True, slots=True)
class Schema:
    name: str
    api_key: int
    versions: Range
    flexible: Range
    struct: Struct


def load(name: str) -> Schema:
    """The definition of a message, such as `MetadataRequest`. Raises KeyError where there is none."""
    definition = _read(name)
    common = {struct["name"]: struct["fields"] for struct in definition.get("commonStructs", ())}
    return Schema(
        name=name,
        api_key=definition["apiKey"],
        versions=_range(definition["validVersions"]),
        flexible=_range(definition["flexibleVersions"]),
        struct=Struct(name, _fields(name, definition["fields"], common)),
    )


def _read(name: str) -> Any:
    for directory in (_OURS, _kafka_python()):
        path = directory / f"{name}.json"
        if path.is_file():
            return json.loads(_COMMENT.sub("", path.read_text()))
    raise KeyError(name)


@cache
def _kafka_python() -> Path:
    spec = find_spec("kafka")
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError("kafka-python is not installed")
    return Path(spec.submodule_search_locations[0], "protocol", "schemas", "resources")


def _fields(message: str, definitions: list[Any], common: dict[str, Any]) -> tuple[Field, ...]:
    return tuple(_field(message, d | _PATCHES.get((message, d["name"]), {}), common) for d in definitions)


def _field(message: str, definition: dict[str, Any], common: dict[str, Any]) -> Field:
    item_type = definition["type"].removeprefix(ARRAY)
    is_array = item_type != definition["type"]
    struct = None
    if item_type[0].isupper():
        inner = definition.get("fields") or common[item_type]
        struct = Struct(item_type, _fields(message, inner, common))
    kind = "struct" if struct else item_type
    return Field(
        name=_WORD_START.sub("_", definition["name"]).lower(),
        type=kind,
        is_array=is_array,
        versions=_range(definition["versions"]),
        nullable=_range(definition.get("nullableVersions")),
        tag=definition.get("tag"),
        tagged=_range(definition.get("taggedVersions")),
        default=_default("array" if is_array else kind, definition.get("default", "")),
        struct=struct,
    )


def _default(kind: str, text: Any) -> Any:
    """The default value of a field. Arrays that are not null get a new list each time."""
    if text == "null" or kind in ("struct", "bitfield"):
        return None
    if kind in INTEGERS:
        return int(str(text), 0) if text != "" else 0
    parsers: dict[str, Any] = {
        "array": lambda _: [],
        "bool": lambda value: str(value).lower() == "true",
        "float64": lambda value: float(value or 0),
        "uuid": lambda value: UUID(value) if value else None,
        "string": str,
        "bytes": lambda _: b"",
        "records": lambda _: None,
    }
    return parsers[kind](text)


def _range(text: str | None) -> Range:
    if text is None or text in ("", "none"):
        return NEVER
    low, _, high = text.strip().removesuffix("+").partition("-")
    if text.strip().endswith("+"):
        return Range(int(low), FOREVER)
    return Range(int(low), int(high or low))
