"""The arguments of admin requests, independent of the API that they came by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

from kompat.cluster.state import Resource

DEFAULT = -1  # "as the broker is configured"


@dataclass(frozen=True, slots=True)
class NewTopic:
    name: str
    num_partitions: int = DEFAULT
    replication_factor: int = DEFAULT
    assignments: Sequence[tuple[int, Sequence[int]]] = ()  # partition, replicas; empty: kompat chooses
    configs: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MorePartitions:
    name: str
    count: int  # in all, not in addition
    assignments: Sequence[Sequence[int]] | None = None  # replicas of each new one


@dataclass(frozen=True, slots=True)
class Reassignment:
    topic: str
    index: int
    replicas: Sequence[int] | None  # None: cancel the reassignment in progress


class ConfigOp(IntEnum):
    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """Configs to change; the others stay."""

    resource: Resource
    changes: Sequence[tuple[str, int, str | None]]  # name, ConfigOp, value


@dataclass(frozen=True, slots=True)
class ConfigReplacement:
    """All configs that the resource will have of its own."""

    resource: Resource
    configs: Sequence[tuple[str, str | None]]
