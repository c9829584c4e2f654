"""What a route is: one row of a table says how it is called, what it takes and gives, and who does it. OpenAPI is made of the same rows."""

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
    from kompat.admin.telling import Telling
    from kompat.handlers.services import Services
    from kompat.types import NodeId

T = TypeVar("T")

JSON = "application/json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    method: str
    path: str  # "/v1/topics/{topic}/messages"; parameters named partition, offset and broker are numbers
    handle: Callable[[Call], Awaitable[Any]]  # a Struct for JSON, None for an empty answer, or a Response of its own
    summary: str
    tag: str
    description: str = ""
    body: Any = None  # a type for msgspec to decode strictly; `bytes` takes the body as it is
    is_body_optional: bool = False  # an empty body is then `None`
    takes: tuple[str, ...] = (JSON,)  # media types of the body; "*/*" for any
    query: Any = None  # a Struct of query parameters; a name that it does not have is refused
    answer: Any = None
    media: str = JSON  # of the answer
    status: int = 200
    problems: tuple[int, ...] = ()  # statuses that it may answer besides those that all routes may
    has_effects: bool = False  # although it is a GET: browsers may not send it, and there is no HEAD of it
    is_open: bool = False  # to whoever comes, also where security is on


@dataclass(slots=True, kw_only=True)
class Call:
    """One request to a route: what was sent, who sent it, and what may be called to answer it."""

    services: Services
    requests: Requests
    telling: Telling  # what other brokers know of themselves
    sampler: Sampler
    made: dict[Any, Any]  # see `once`
    caller: Caller
    path: dict[str, Any]
    query: Any
    body: Any
    request: Request
    room: Room  # what it may hold of the broker's memory
    bodies: Bodies
    streams: Streams
    stopping: asyncio.Event  # the broker is about to stop: whatever waits ends

    @property
    def principal(self) -> str:
        return self.caller.principal

    def once(self, make: Callable[[Services], T]) -> T:
        """What `make` gives, made when it is first asked for and kept as long as the broker runs."""
        if make not in self.made:
            self.made[make] = make(self.services)
        found: T = self.made[make]
        return found

    def require(self, operation: Operation, kind: Kind, name: str = CLUSTER_NAME) -> None:
        """Raises the error of Kafka's where the caller may not; for what no handler of Kafka's judges."""
        self.services.authorizer.require(self.caller, operation, kind, name)

    async def send(self, message: Any, *, to: NodeId | None = None, version: int | None = None) -> Any:
        """Make a Kafka request as the caller: the response, whose error codes are the route's to judge."""
        return await self.requests.send(self.caller, message, to=to, version=version)

    async def unless_stopping(self, awaited: Awaitable[Any]) -> Any:
        """What `awaited` gives; None, and it is cancelled, where the broker stops before it is there."""
        work, stop = asyncio.ensure_future(awaited), asyncio.ensure_future(self.stopping.wait())
        try:
            await asyncio.wait((work, stop), return_when=asyncio.FIRST_COMPLETED)
        finally:
            stop.cancel()
            if not work.done():
                work.cancel()
        return await work if not work.cancelled() and work.done() else None
