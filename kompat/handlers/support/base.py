"""An API: its key and versions, from the table in `kompat.handlers`, and a handler in a module of its own."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from kompat.errors import KafkaError
from kompat.protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from kompat.handlers.support.parts import Cut
    from kompat.handlers.support.sasl_session import SaslSession
    from kompat.handlers.support.services import Services

Req = TypeVar("Req")
Resp = TypeVar("Resp")
WORD_START = re.compile(r"(?<!^)(?=[A-Z])")


@dataclass(frozen=True, slots=True)
class Versions:
    low: int
    high: int

    def __contains__(self, version: int) -> bool:
        return self.low <= version <= self.high


@dataclass(slots=True)
class Context:
    """What a handler has besides the request: the broker's services and the client."""

    services: Services
    api_version: int
    client_id: str | None
    client_host: str
    connection_id: str
    # The address that the client has connected to: a broker without `advertised.listeners` advertises it.
    local_address: tuple[str, int]
    principal: str = "User:ANONYMOUS"
    listener: str = ""  # its name; empty: no socket's, but one of the broker's own doors
    sasl: SaslSession | None = None  # of a connection whose client has to authenticate


@dataclass(frozen=True, slots=True)
class Handler(Generic[Req, Resp]):
    """The `HANDLER` of an API's module: the classes of its messages, and what is done with them."""

    request: type[Req]  # decoded by codec.decode_request, unless `decode` is given
    response: type[Resp]
    # An answer at once, or an awaitable of one; None answers nothing (Produce with acks=0).
    handle: Callable[[Context, Req], Resp | Awaitable[Resp | None] | None]
    # The API's own error answer: every request gets one, whatever breaks.
    failure: Callable[[Req, KafkaError], Resp]
    # Hand-written codecs where the schema codec is too slow (Produce, Fetch): body bytes ↔ message.
    decode: Callable[[int, memoryview], Req] | None = None
    encode: Callable[[int, Resp], list[Any]] | None = None
    # As `decode`, of a request that may be long; its handler sees to the length of its work and of its answer itself.
    decode_in_steps: Callable[[int, memoryview], Generator[None, None, Req]] | None = None
    # For APIs whose answer depends on nothing but the request and something that seldom changes: a stamp of that. While
    # it is the same, equal requests get the answer that is already encoded.
    stamp: Callable[[Services], object] | None = None
    # Whether a request has to be answered by the cluster's controller, wherever that is.
    is_for_controller: Callable[[Req], bool] = field(default=lambda _: False)
    # Lists that a long request is cut by: one of them is, in parts that are handled one after the other.
    parts: tuple[Cut, ...] = ()
    # The longest request that is accepted, where `decode` is hand-written and counts no items; None: as long as a frame may be.
    max_bytes: int | None = None


class Api:
    """A row of the table of APIs.

    A broker that starts must not pay for sixty modules and their message classes before it can answer, so a handler is imported by
    the first request for it.
    """

    def __init__(
        self,
        key: ApiKey,
        low: int,
        high: int,
        *,
        advertised_from: int | None = None,
        handler: Handler[Any, Any] | None = None,
    ) -> None:
        """`advertised_from`: the lowest version that ApiVersions returns, where it is not the lowest that is served."""
        self.key = key
        self.name = key.name
        self.versions = Versions(low, high)
        self.advertised = Versions(low if advertised_from is None else advertised_from, high)
        if handler is not None:
            self.handler = handler

    @property
    def module(self) -> str:
        """DescribeLogDirs is handled by describe_log_dirs."""
        return f"kompat.handlers.{WORD_START.sub('_', self.name).lower()}"

    @cached_property
    def handler(self) -> Handler[Any, Any]:
        return cast("Handler[Any, Any]", import_module(self.module).HANDLER)
