"""Users and their SCRAM credentials in the metadata: passwords are not stored, and cannot be derived from it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kompat.errors import ErrorCode, KafkaError
from kompat.security.scram import LEAST_ITERATIONS, MOST_ITERATIONS, Credential, Mechanism
from kompat.security.stand_ins import Shape, StandIns

if TYPE_CHECKING:
    from kompat.cluster.state import ClusterState


# -- what is asked for ------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Deletion:
    user: str
    mechanism: int  # by the protocol's number, whether there is one or not


@dataclass(frozen=True, slots=True)
class Upsertion:
    user: str
    mechanism: int
    credential: Credential


# -- what has happened --------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class ScramCredentialSet:
    user: str
    mechanism: Mechanism
    credential: Credential

    def change(self, state: ClusterState) -> None:
        state.users[self.user] = {**state.users.get(self.user, {}), self.mechanism: self.credential}
        state.stand_ins = state.stand_ins.noting(self.mechanism, self.credential)


@dataclass(frozen=True, slots=True)
class ScramCredentialRemoved:
    user: str
    mechanism: Mechanism

    def change(self, state: ClusterState) -> None:
        left = {kind: known for kind, known in state.users.get(self.user, {}).items() if kind != self.mechanism}
        if left:
            state.users[self.user] = left
        else:
            state.users.pop(self.user, None)


@dataclass(frozen=True, slots=True)
class StandInsSet:
    """The secret for credentials of users that do not exist: set once, when the cluster is new."""

    stand_ins: StandIns

    def change(self, state: ClusterState) -> None:
        state.stand_ins = self.stand_ins


UserRecord = ScramCredentialSet | ScramCredentialRemoved | StandInsSet


def records_of(state: ClusterState) -> Iterator[UserRecord]:
    yield StandInsSet(state.stand_ins)
    for user, credentials in state.users.items():
        for mechanism, known in credentials.items():
            yield ScramCredentialSet(user, mechanism, known)


# -- deciding ---------------------------------------------------------------------------------------------------------
def plan_alteration(
    state: ClusterState, deletions: Sequence[Deletion], upsertions: Sequence[Upsertion]
) -> tuple[list[UserRecord], dict[str, KafkaError | None]]:
    """Each user is changed or refused on its own."""
    wanted: list[Deletion | Upsertion] = [*deletions, *upsertions]
    count = Counter(each.user for each in wanted)
    outcomes: dict[str, KafkaError | None] = {}
    records: list[UserRecord] = []
    for each in wanted:
        if each.user in outcomes:
            continue
        try:
            records.append(_planned(state, each, count[each.user]))
            outcomes[each.user] = None
        except KafkaError as refusal:
            outcomes[each.user] = refusal
    return records, outcomes


def plan_first(state: ClusterState, wanted: Sequence[ScramCredentialSet]) -> list[ScramCredentialSet]:
    """Only for users that do not exist."""
    return [each for each in wanted if each.user not in state.users]


def _planned(state: ClusterState, wanted: Deletion | Upsertion, count: int) -> UserRecord:
    if count > 1:
        message = "A user credential cannot be altered twice in the same request"
        raise KafkaError(ErrorCode.DUPLICATE_RESOURCE, message)
    mechanism = _mechanism(wanted)
    if isinstance(wanted, Deletion):
        if mechanism not in state.users.get(wanted.user, {}):
            message = "Attempt to delete a user credential that does not exist"
            raise KafkaError(ErrorCode.RESOURCE_NOT_FOUND, message)
        return ScramCredentialRemoved(wanted.user, mechanism)
    if wanted.credential.iterations < LEAST_ITERATIONS:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
    if wanted.credential.iterations > MOST_ITERATIONS:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
    return ScramCredentialSet(wanted.user, mechanism, wanted.credential)


def _mechanism(wanted: Deletion | Upsertion) -> Mechanism:
    if not wanted.user:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    if wanted.mechanism not in set(Mechanism):
        raise KafkaError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    return Mechanism(wanted.mechanism)


# -- as it stands in the log --------------------------------------------------------------------------------------------
def write_set(record: ScramCredentialSet) -> dict[str, Any]:
    known = record.credential
    return {
        "user": record.user,
        "mechanism": record.mechanism.label,
        "salt": known.salt.hex(),
        "stored": known.stored_key.hex(),
        "server": known.server_key.hex(),
        "iterations": known.iterations,
    }


def read_set(value: Mapping[str, Any]) -> ScramCredentialSet:
    salt, stored, server = (bytes.fromhex(value[name]) for name in ("salt", "stored", "server"))
    return ScramCredentialSet(value["user"], _named(value), Credential(salt, stored, server, value["iterations"]))


def write_removed(record: ScramCredentialRemoved) -> dict[str, Any]:
    return {"user": record.user, "mechanism": record.mechanism.label}


def read_removed(value: Mapping[str, Any]) -> ScramCredentialRemoved:
    return ScramCredentialRemoved(value["user"], _named(value))


def write_stand_ins(record: StandInsSet) -> dict[str, Any]:
    found = record.stand_ins
    shapes = {mechanism.label: sorted(seen) for mechanism, seen in found.shapes.items()}
    return {"secret": found.secret.hex(), "shapes": shapes}


def read_stand_ins(value: Mapping[str, Any]) -> StandInsSet:
    shapes = {_mechanism_of(label): frozenset(Shape(*each) for each in seen) for label, seen in value["shapes"].items()}
    return StandInsSet(StandIns(bytes.fromhex(value["secret"]), shapes))


def _named(value: Mapping[str, Any]) -> Mechanism:
    return _mechanism_of(value["mechanism"])


def _mechanism_of(label: str) -> Mechanism:
    return Mechanism[label.replace("-", "_")]


KINDS: dict[str, tuple[type[Any], Callable[[Any], dict[str, Any]], Callable[[Mapping[str, Any]], UserRecord]]] = {
    "scram": (ScramCredentialSet, write_set, read_set),
    "scram-removed": (ScramCredentialRemoved, write_removed, read_removed),
    "scram-stand-ins": (StandInsSet, write_stand_ins, read_stand_ins),
}
