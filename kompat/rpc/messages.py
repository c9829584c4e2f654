"""Requests: a struct of the arguments, with the type of its reply, for one type of receiver."""

from __future__ import annotations

from enum import Enum
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar, get_args

from msgspec import Struct

from kompat.errors import ErrorCode, KafkaError
from kompat.types import LogId, NodeId

R_co = TypeVar("R_co", covariant=True)


class Request(Struct, Generic[R_co], frozen=True, forbid_unknown_fields=True):
    """Immutable: a handler on the same broker gets the caller's object."""

    patience: ClassVar[float] = 5.0  # seconds in which a missing or moved receiver is looked for
    answered_within: ClassVar[float] = 10.0  # seconds for one attempt
    is_idempotent: ClassVar[bool] = False  # it may be executed twice, so it is sent again if the response was lost
    is_long_poll: ClassVar[bool] = False  # a long poll: its handler waits for an event


class LeaderRequest(Request[R_co], Generic[R_co], frozen=True):
    """To the leader of a partition. The handler gets the partition, and this broker leads it then."""


class ControllerRequest(Request[R_co], Generic[R_co], frozen=True):
    """To the controller."""

    patience: ClassVar[float] = 10.0


class BrokerRequest(Request[R_co], Generic[R_co], frozen=True):
    """To a given broker. If it is not available, no other one can respond."""

    patience: ClassVar[float] = 0.0


def reply_type(request: type[Request[Any]]) -> Any:
    """The type argument of its base class."""
    return get_args(request.__orig_bases__[0])[0]  # type: ignore[attr-defined]


# -- receivers ---------------------------------------------------------------------------------------------------------
class Coordinator(NamedTuple):
    """The coordinator of a group, a transactional id or a share partition: the leader of its partition of an internal topic."""

    topic: str
    key: str


class Controller(Enum):
    CONTROLLER = "controller"


CONTROLLER = Controller.CONTROLLER

Receiver = LogId | Coordinator | Controller | NodeId


class Moved(KafkaError):  # noqa: N818 - it names a state of the receiver, not a mistake of the caller
    """The receiver has not executed the request: it has moved to another broker, does not exist, or is not ready."""

    def __init__(self, to: Receiver, message: str) -> None:
        super().__init__(error_of(to), message)


def error_of(to: Receiver) -> ErrorCode:
    """The error if the receiver cannot be reached."""
    match to:
        case LogId():
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        case Coordinator():
            return ErrorCode.NOT_COORDINATOR
        case Controller():
            return ErrorCode.NOT_CONTROLLER
        case _:
            return ErrorCode.BROKER_NOT_AVAILABLE


# Temporary errors: soon another broker leads, or more replicas are in sync.
PASSING = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
    }
)
