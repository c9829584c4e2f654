"""ACLs in the cluster's metadata: how they are created, deleted and written."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kompat.errors import ErrorCode, KafkaError
from kompat.security.acls import CLUSTER_NAME, Acl, AclFilter, Acls, Kind, Operation, Pattern, Permission

if TYPE_CHECKING:
    from kompat.cluster.state import ClusterState

MOST_REMOVED = 10_000  # by one request, as in Kafka


@dataclass(frozen=True, slots=True)
class AclAdded:
    acl: Acl

    def change(self, state: ClusterState) -> None:
        state.acls.add(self.acl)


@dataclass(frozen=True, slots=True)
class AclRemoved:
    acl: Acl

    def change(self, state: ClusterState) -> None:
        state.acls.remove(self.acl)


AclRecord = AclAdded | AclRemoved


def records_of(state: ClusterState) -> Iterator[AclAdded]:
    return (AclAdded(acl) for acl in state.acls)


def plan_creation(acls: Acls, wanted: Sequence[Acl]) -> tuple[list[AclAdded], list[KafkaError | None]]:
    """An ACL that exists already is accepted. Outcomes are in the order of the request."""
    added: dict[Acl, AclAdded] = {}
    outcomes: list[KafkaError | None] = []
    for acl in wanted:
        wrong = _objection(acl)
        outcomes.append(KafkaError(ErrorCode.INVALID_REQUEST, wrong) if wrong else None)
        if wrong is None and acl not in acls:
            added[acl] = AclAdded(acl)
    return list(added.values()), outcomes


def plan_removal(acls: Acls, filters: Sequence[AclFilter]) -> tuple[list[AclRemoved], list[list[Acl] | KafkaError]]:
    """The ACLs that each filter matches; one that several match is removed once."""
    removed: dict[Acl, AclRemoved] = {}
    outcomes: list[list[Acl] | KafkaError] = []
    for each in filters:
        if each.is_unknown:
            outcomes.append(KafkaError(ErrorCode.INVALID_REQUEST, "The filter has a type that is not known."))
            continue
        found = acls.matching(each)
        if len(removed.keys() | set(found)) > MOST_REMOVED:
            message = f"Cannot remove more than {MOST_REMOVED} acls in a single delete operation."
            outcomes.append(KafkaError(ErrorCode.INVALID_REQUEST, message))
            continue
        removed |= {acl: AclRemoved(acl) for acl in found}
        outcomes.append(found)
    return list(removed.values()), outcomes


def _objection(acl: Acl) -> str | None:
    if acl.kind is Kind.CLUSTER and acl.name != CLUSTER_NAME:
        return f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
    if not acl.name:
        return "Invalid empty resource name"
    if acl.kind in (Kind.UNKNOWN, Kind.ANY):
        return f"Invalid resourceType {acl.kind.name}"
    if acl.pattern not in (Pattern.LITERAL, Pattern.PREFIXED):
        return f"Invalid patternType {acl.pattern.name}"
    if acl.operation in (Operation.UNKNOWN, Operation.ANY):
        return f"Invalid operation {acl.operation.name}"
    if acl.permission not in (Permission.ALLOW, Permission.DENY):
        return f"Invalid permissionType {acl.permission.name}"
    if ":" not in acl.principal:
        return (
            f"Could not parse principal from `{acl.principal}` "
            "(no colon is present separating the principal type from the principal name)"
        )
    return None


def write_acl(record: AclAdded | AclRemoved) -> dict[str, Any]:
    acl = record.acl
    return {
        "kind": acl.kind.name,
        "name": acl.name,
        "pattern": acl.pattern.name,
        "principal": acl.principal,
        "host": acl.host,
        "operation": acl.operation.name,
        "permission": acl.permission.name,
    }


def read_acl(value: Mapping[str, Any]) -> Acl:
    return Acl(
        Kind[value["kind"]],
        value["name"],
        Pattern[value["pattern"]],
        value["principal"],
        value["host"],
        Operation[value["operation"]],
        Permission[value["permission"]],
    )


Kinds = dict[str, tuple[type[Any], Callable[[Any], dict[str, Any]], Callable[[Mapping[str, Any]], AclRecord]]]
KINDS: Kinds = {
    "acl": (AclAdded, write_acl, lambda value: AclAdded(read_acl(value))),
    "acl-removed": (AclRemoved, write_acl, lambda value: AclRemoved(read_acl(value))),
}
