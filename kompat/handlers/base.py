"""What a handler is: one module per API, each with one `API` that names its key, its versions and its functions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from kompat.errors import KafkaError

if TYPE_CHECKING:
    from kompat.handlers.parts import Cut
    from kompat.handlers.sasl_session import SaslSession
    from kompat.handlers.services import Services

Req = TypeVar("Req")
Resp = TypeVar("Resp")


@dataclass(frozen=True, slots=True)
class Versions:
    low: int
    high: int

    def __contains__(self, version: int) -> bool:
        return self.low <= version <= self.high


@dataclass(slots=True)
class Context:
    """What a handler knows besides the request: the broker's services and who is asking."""

    services: Services
    api_version: int
    client_id: str | None
    client_host: str
    connection_id: str
    # The address the client dialled: what a broker without `advertised.listeners` tells it to come back to.
    local_address: tuple[str, int]
    principal: str = "User:ANONYMOUS"
    listener: str = ""  # its name; empty: no socket's, but one of the broker's own doors
    sasl: SaslSession | None = None  # of a connection that has to say who it is


@dataclass(frozen=True, slots=True)
class Api(Generic[Req, Resp]):
    key: int
    name: str
    versions: Versions  # served
    request: type[Any]  # message class, decoded by codec.decode_request
    response: type[Any]
    # An answer at once, or an awaitable of one; None answers nothing (Produce with acks=0).
    handle: Callable[[Context, Req], Resp | Awaitable[Resp | None] | None]
    # The API's own error answer: every request gets one, whatever breaks.
    failure: Callable[[Req, KafkaError], Resp]
    advertised: Versions | None = None  # where it differs from what is served (Produce: WIRE.md)
    # Hand-written codecs where the schema codec is too slow (Produce, Fetch): body bytes ↔ message.
    decode: Callable[[int, memoryview], Req] | None = None
    encode: Callable[[int, Resp], list[Any]] | None = None
    # For APIs whose answer depends on nothing but the request and something that seldom changes: a stamp of that. While
    # it is the same, equal requests get the answer that is already encoded.
    stamp: Callable[[Services], object] | None = None
    # Whether a request has to be answered by the cluster's controller, wherever that is.
    is_for_controller: Callable[[Req], bool] = field(default=lambda _: False)
    # Lists that a long request is cut by: one of them is, in parts that are handled one after the other.
    parts: tuple[Cut, ...] = ()
    # The longest request that is let in, where `decode` is hand-written and counts no items; None: as long as a frame may be.
    max_bytes: int | None = None
