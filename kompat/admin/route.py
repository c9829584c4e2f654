"""Routes: a row of a table has the method, the path, the types of a route, and its handler. OpenAPI is generated from the same rows."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from kompat.security.acls import CLUSTER_NAME, Kind, Operation

if TYPE_CHECKING:
    from starlette.requests import Request

    from kompat.admin.limits import Bodies, Room, Streams
    from kompat.admin.requests import Caller, Requests
    from kompat.admin.sampling import Sampler
    from kompat.handlers.support.services import Services
    from kompat.types import NodeId

T = TypeVar("T")

JSON = "application/json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    method: str
    path: str  # "/v1/topics/{topic}/messages"; parameters named partition, offset and broker are numbers
    handle: Callable[[Call], Awaitable[Any]]  # returns a Struct for JSON, None for an empty response, or a Response
    summary: str
    tag: str
    description: str = ""
    body: Any = None  # a type that msgspec decodes strictly; `bytes` for the raw body
    is_body_optional: bool = False  # `None` for an empty body
    takes: tuple[str, ...] = (JSON,)  # media types of the body; "*/*" for any
    query: Any = None  # a Struct of query parameters; others are rejected
    answer: Any = None
    media: str = JSON  # of the response
    status: int = 200
    problems: tuple[int, ...] = ()  # statuses of errors besides those that all routes may have
    has_effects: bool = False  # of a GET: browsers may not send it, and there is no HEAD for it
    is_open: bool = False  # without authentication, also if security is on


@dataclass(slots=True, kw_only=True)
class Call:
    """One request to a route: its content, its caller, and the services that it may use."""

    services: Services
    requests: Requests
    sampler: Sampler
    made: dict[Any, Any]  # see `once`
    caller: Caller
    path: dict[str, Any]
    query: Any
    body: Any
    request: Request
    room: Room  # the memory that it may use
    bodies: Bodies
    streams: Streams
    stopping: asyncio.Event  # set when the broker stops, to end waits

    @property
    def principal(self) -> str:
        return self.caller.principal

    def once(self, make: Callable[[Services], T]) -> T:
        """The result of `make`, which is called once and kept as long as the broker runs."""
        if make not in self.made:
            self.made[make] = make(self.services)
        found: T = self.made[make]
        return found

    def require(self, operation: Operation, kind: Kind, name: str = CLUSTER_NAME) -> None:
        """Raises Kafka's authorization error if the caller may not do this; for routes without a handler of Kafka's."""
        self.services.authorizer.require(self.caller, operation, kind, name)

    async def send(self, message: Any, *, to: NodeId | None = None, version: int | None = None) -> Any:
        """Send a Kafka request as the caller. The route has to check the response's error codes."""
        return await self.requests.send(self.caller, message, to=to, version=version)

    async def unless_stopping(self, awaited: Awaitable[Any]) -> Any:
        """The result of `awaited`; if the broker stops first, it is cancelled and the result is None."""
        work, stop = asyncio.ensure_future(awaited), asyncio.ensure_future(self.stopping.wait())
        try:
            await asyncio.wait((work, stop), return_when=asyncio.FIRST_COMPLETED)
        finally:
            stop.cancel()
            if not work.done():
                work.cancel()
        return await work if not work.cancelled() and work.done() else None
