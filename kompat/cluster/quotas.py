"""Client quotas in the cluster's metadata: how they are changed, found and written."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kompat.errors import ErrorCode, KafkaError
from kompat.security.quotas import CLIENT_ID, CLIENT_KEYS, IP, IP_KEYS, USER, Entity, Limits, objection_to_value

if TYPE_CHECKING:
    from kompat.cluster.state import ClusterState

EXACT, DEFAULT, ANY = 0, 1, 2  # how a filter's component matches


@dataclass(frozen=True, slots=True)
class QuotasSet:
    """All quotas of an entity; they replace the earlier ones."""

    entity: Entity
    quotas: Mapping[str, float]

    def change(self, state: ClusterState) -> None:
        if self.quotas:
            state.quotas[self.entity] = self.quotas
        else:
            state.quotas.pop(self.entity, None)


def records_of(state: ClusterState) -> Iterator[QuotasSet]:
    return (QuotasSet(entity, quotas) for entity, quotas in state.quotas.items())


@dataclass(frozen=True, slots=True)
class QuotaChange:
    entity: Sequence[tuple[str, str | None]]  # type and name, as the request has them
    changes: Sequence[tuple[str, float | None]]  # None: the quota is removed


def plan_change(quotas: Limits, wanted: Sequence[QuotaChange]) -> tuple[list[QuotasSet], list[KafkaError | None]]:
    """Each entity is changed or refused on its own; outcomes are in the order of the request."""
    outcomes: list[KafkaError | None] = []
    planned: dict[Entity, QuotasSet] = {}
    for each in wanted:
        try:
            entity = _checked_entity(each.entity)
            before = planned[entity].quotas if entity in planned else quotas.get(entity, {})
            after = _changed(entity, before, each.changes)
        except KafkaError as error:
            outcomes.append(error)
        else:
            outcomes.append(None)
            if after != before:
                planned[entity] = QuotasSet(entity, after)
    return list(planned.values()), outcomes


def _checked_entity(parts: Sequence[tuple[str, str | None]]) -> Entity:
    if not parts:
        raise _invalid("Invalid empty client quota entity")
    types = [kind for kind, _ in parts]
    for kind, name in parts:
        if kind not in (USER, CLIENT_ID, IP):
            raise _invalid(f"Unhandled client quota entity type: {kind}")
        if types.count(kind) > 1:
            raise _invalid(f"Invalid client quota entity, duplicate entity entry {kind}")
        if name == "":
            raise _invalid(f"Empty {kind} not supported")
        if kind == IP and len(types) > 1:
            raise _invalid("Invalid quota entity combination, IP entity should not be combined with User or ClientId")
        if kind == IP and name is not None and not _is_address(name):
            raise _invalid(f"{name} is not a valid IP or resolvable host.")
    return frozenset(parts)


def _is_address(name: str) -> bool:
    """Kafka accepts host names too, and resolves them when it starts: here connections are counted by address only."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _changed(
    entity: Entity, before: Mapping[str, float], changes: Sequence[tuple[str, float | None]]
) -> Mapping[str, float]:
    keys = IP_KEYS if any(kind == IP for kind, _ in entity) else CLIENT_KEYS
    after = dict(before)
    seen = set()
    for key, value in changes:
        if key in seen:
            raise _invalid(f"Duplicate quota key {key}")
        seen.add(key)
        if value is None:
            after.pop(key, None)
            continue
        wrong = objection_to_value(keys, key, value)
        if wrong:
            raise _invalid(wrong)
        after[key] = value
    return after


@dataclass(frozen=True, slots=True)
class Component:
    """A filter's predicate for the names of a type of entity."""

    kind: str
    match_type: int
    match: str | None = None


def matching(components: Sequence[Component], *, is_strict: bool) -> Callable[[Entity], bool]:
    """Whether all components match an entity; unless it `is_strict`, the entity may have further parts."""
    _check_components(components)
    tests = [_test(component) for component in components]

    def matches(entity: Entity) -> bool:
        return all(any(test(part) for part in entity) for test in tests) and not (
            is_strict and len(entity) != len(components)
        )

    return matches


def _check_components(components: Sequence[Component]) -> None:
    kinds = [component.kind for component in components]
    for component in components:
        if not component.kind:
            raise _invalid("Invalid empty entity type.")
        if component.kind not in (USER, CLIENT_ID, IP):
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {component.kind}")
        if kinds.count(component.kind) > 1:
            raise _invalid(f"Entity type {component.kind} cannot appear more than once in the filter.")
        if component.match_type not in (EXACT, DEFAULT, ANY):
            raise _invalid(f"Unknown match type {component.match_type}")
        if component.match_type == EXACT and component.match is None:
            raise _invalid("Request specified MATCH_TYPE_EXACT, but set match string to null.")
        if component.match_type != EXACT and component.match is not None:
            name = "MATCH_TYPE_DEFAULT" if component.match_type == DEFAULT else "MATCH_TYPE_SPECIFIED"
            raise _invalid(f"Request specified {name}, but also specified a match string.")
    if IP in kinds and len(kinds) > 1:
        raise _invalid(
            "Invalid entity filter component combination. "
            "IP filter component should not be used with user or clientId filter component."
        )


def _test(component: Component) -> Callable[[tuple[str, str | None]], bool]:
    def matches(part: tuple[str, str | None]) -> bool:
        kind, name = part
        if kind != component.kind:
            return False
        return component.match_type == ANY or name == component.match

    return matches


def write_quotas(record: QuotasSet) -> dict[str, Any]:
    return {"entity": sorted(record.entity, key=lambda part: part[0]), "quotas": dict(record.quotas)}


def read_quotas(value: Mapping[str, Any]) -> QuotasSet:
    return QuotasSet(frozenset((kind, name) for kind, name in value["entity"]), value["quotas"])


Kinds = dict[str, tuple[type[Any], Callable[[Any], dict[str, Any]], Callable[[Mapping[str, Any]], QuotasSet]]]
KINDS: Kinds = {"quotas": (QuotasSet, write_quotas, read_quotas)}


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)
