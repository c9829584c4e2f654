"""The application of the HTTP port: it routes requests, and makes responses of what routes return."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any, cast

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Match
from starlette.routing import Route as Path

from kompat.admin.access import worked
from kompat.admin.connection import RESERVED
from kompat.admin.decoding import SHORT_BODY, check_values, decode_body, decode_path, decode_query
from kompat.admin.encoding import PART_BYTES, Parts, encoded
from kompat.admin.limits import BUSY, Bodies, Budget, LongAnswers, Room, Share, Streams
from kompat.admin.problems import MEDIA_TYPE, UNAVAILABLE, Problem, problem_of
from kompat.admin.proxies import client_address
from kompat.admin.requests import Caller, Requests
from kompat.admin.route import JSON, Call, Route
from kompat.admin.security import authenticate
from kompat.admin.sites import Sites, is_health, refuse_browsers
from kompat.common.meters import OTHER
from kompat.common.watchdog import WARN_SECONDS, warn, watched
from kompat.errors import ErrorCode, KafkaError, PeerError, StorageError

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from kompat.admin.sampling import Sampler
    from kompat.config.broker import BrokerConfig
    from kompat.handlers.support.services import Services

log = logging.getLogger(__name__)

STREAM = "text/event-stream"
ROOM = "kompat.room"  # in a request's scope: its part of the budget
ROUTE = "kompat.route"  # in a request's scope: its route
# There is no leader at the moment, but soon there is one. Only reads are retried: a change may be done in part.
CHANGING = {
    code.name
    for code in (
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    )
}
ELECTION_SECONDS = 5.0
AGAIN_SECONDS = 0.1
WORTH_KNOWING = 0.001  # seconds
EXPECTED = (Problem, KafkaError, StorageError, PeerError)
# Pages of other sites must not embed the broker's responses, or be taken for them.
GUARDS = {
    "x-content-type-options": "nosniff",
    "cross-origin-resource-policy": "same-origin",
    "x-frame-options": "DENY",
    "cache-control": "no-store",
}


class Application:
    """Serves routes. Until the broker is up it has no services, and all but the open routes respond with 503."""

    def __init__(self, routes: Iterable[Route], config: BrokerConfig, sites: Sites) -> None:
        self._config = config
        self._sites = sites
        self.routes = sorted(routes, key=_order)
        self.services: Services | None = None
        self.requests: Requests | None = None
        self.sampler: Sampler | None = None
        self._made: dict[Any, Any] = {}
        self.local_address = ("127.0.0.1", 0)  # of the Kafka listener
        self.stopping = asyncio.Event()
        self.streams = Streams(config["kompat.http.max.streams"])
        self.share = Share()
        self.long_answers = LongAnswers()
        self.bodies = Bodies(self.share)
        paths = [self._path(route) for route in self.routes]
        starlette = Starlette(routes=paths, exception_handlers={HTTPException: self._no_route})
        starlette.router.redirect_slashes = False
        self.asgi: ASGIApp = self._guarded(_unescaped(starlette))

    def serve(
        self,
        services: Services,
        local_address: tuple[str, int],
        sampler: Sampler,
        budget: Budget | None = None,
    ) -> None:
        """The broker is up. `budget` limits the bytes that the connections of both ports hold."""
        if budget is not None:
            self.share.join(budget)
        self.services = services
        self.sampler = sampler
        self.requests = Requests(services)
        self.local_address = local_address

    def _path(self, route: Route) -> Path:
        path = Path(route.path, self._endpoint(route), methods=[route.method])
        if (route.media == STREAM or route.has_effects) and path.methods is not None:
            path.methods.discard("HEAD")  # it would have no end, or would acquire records that are not returned
        return path

    def _guarded(self, app: ASGIApp) -> ASGIApp:
        """Reject requests that other sites may have made a browser send, whether there is a route or not."""

        async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
            request, begun = Request(scope), perf_counter()
            try:
                self._check(request)
            except Problem as problem:
                response = answer_problem(problem, request)
                self._count(OTHER, OTHER, response, begun)
                await response(scope, receive, send)
            else:
                with self.share.room() as room:
                    scope[ROOM] = room
                    await watched(app(scope, receive, send), partial(self._held, scope))

        return guarded

    def _check(self, request: Request) -> None:
        path = request.scope["path"]
        self._sites.check(request.method, path, request.headers.getlist("host"), request.headers)
        if request.scope.get("state", {}).get(RESERVED) and not is_health(path):
            raise Problem(UNAVAILABLE, "All connections are busy. Try again in a moment.", name="busy", headers=BUSY)

    def _endpoint(self, route: Route) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            begun = perf_counter()
            request.scope[ROUTE] = route
            response = await self._response(route, request)
            room_of(request).hold(response.size if isinstance(response, Parts) else len(getattr(response, "body", b"")))
            self._count(request.method, route.path, response, begun)
            return response

        return endpoint

    def _held(self, scope: Scope, seconds: float) -> None:
        """Count the seconds that a request has held the event loop without a break."""
        if seconds <= WORTH_KNOWING:
            return
        route: Route | None = scope.get(ROUTE)
        method, path = (OTHER, OTHER) if route is None else (route.method, route.path)
        if self.services is not None:
            self.services.meters.http_route(method, path).held(seconds)
        if seconds > WARN_SECONDS:
            warn(f"{method} {path}", seconds)

    async def _response(self, route: Route, request: Request) -> Response:
        try:
            return await self._answer(route, request)
        except EXPECTED as error:
            return answer_problem(problem_of(error), request)
        except ClientDisconnect:
            return Response(status_code=499)  # the client has disconnected
        except Exception as error:  # noqa: BLE001 - a bug is answered too
            return _failed(error, request)

    async def _no_route(self, request: Request, error: Exception) -> Response:
        """Unknown methods and paths share one meter, because there is no limit to them."""
        begun = perf_counter()
        response = _refused(request, error)
        self._count(OTHER, OTHER, response, begun)
        return response

    def _count(self, method: str, path: str, response: Response, begun: float) -> None:
        if self.services is not None:
            self.services.meters.http_route(method, path).answered(response.status_code, perf_counter() - begun)

    async def _answer(self, route: Route, request: Request) -> Response:
        if route.has_effects and route.method == "GET":
            refuse_browsers(request.headers)
        if self.services is None or self.requests is None:
            if not route.is_open:
                raise Problem(
                    UNAVAILABLE, "The broker is starting. Try again in a moment.", headers={"retry-after": "1"}
                )
            caller = Caller()
        else:
            principal = Caller().principal if route.is_open else await authenticate(self.services, request)
            caller = Caller(principal, self._host_of(request), self.local_address)
        if not route.is_open:
            await self.share.until_room()
        path, query = decode_path(request.path_params), decode_query(route.query, request.scope["query_string"])
        if route.body is None:
            return await self._handled(route, request, caller, path, query, b"")
        most = self._config["kompat.http.max.body.bytes"]
        raw = await self.bodies.read(request, most, room_of(request))
        if route.body is not bytes:
            await check_values(raw)
        return await self._handled(route, request, caller, path, query, raw)

    def _host_of(self, request: Request) -> str:
        peer = request.client.host if request.client is not None else "127.0.0.1"
        headers = request.headers
        proxies = self._config.items("kompat.http.trusted.proxies")
        return client_address(peer, headers.getlist("x-forwarded-for"), headers.getlist("forwarded"), proxies)

    async def _handled(
        self, route: Route, request: Request, caller: Caller, path: dict[str, Any], query: Any, raw: bytes
    ) -> Response:
        call = Call(
            services=cast("Services", self.services),  # before they are there, only open routes are called
            requests=cast("Requests", self.requests),
            sampler=cast("Sampler", self.sampler),
            made=self._made,
            caller=caller,
            path=path,
            query=query,
            body=decode_body(route, request.headers.get("content-type", ""), raw),
            request=request,
            room=room_of(request),
            bodies=self.bodies,
            streams=self.streams,
            stopping=self.stopping,
        )
        if len(raw) > SHORT_BODY:
            await asyncio.sleep(0)  # decoding it took a while
        work = self._read(route, call) if route.method == "GET" else route.handle(call)
        if call.services is not None and call.services.quotas.is_enabled and not route.is_open:
            work = worked(call, work)
        return await self._answer_with(route, await work, call.room)

    async def _answer_with(self, route: Route, result: Any, room: Room) -> Response:
        if isinstance(result, Response):
            return result
        if result is None:
            return Response(status_code=204)
        coming = encoded(result)
        parts = [await anext(coming)]
        if len(parts[0]) >= PART_BYTES:
            async with self.long_answers.turn():
                parts += [part async for part in coming]
                self.long_answers.hold(room, sum(map(len, parts)))
        return Parts(parts, route.status, GUARDS, JSON)

    async def _read(self, route: Route, call: Call) -> Any:
        """Call a route that reads, and retry while a leader is being elected: HTTP clients do not retry as Kafka's do."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + ELECTION_SECONDS
        while True:
            try:
                return await route.handle(call)
            except EXPECTED as error:
                if problem_of(error).code not in CHANGING or loop.time() > deadline or self.stopping.is_set():
                    raise
            await asyncio.sleep(AGAIN_SECONDS)


def answer_problem(problem: Problem, request: Request) -> Response:
    shape = problem.shape(request.scope["path"])
    return Response(msgspec.json.encode(shape), problem.status, {**GUARDS, **problem.headers}, MEDIA_TYPE)


def _refused(request: Request, error: Exception) -> Response:
    """The problem for an unknown path or method, which Starlette rejects by itself."""
    status = error.status_code if isinstance(error, HTTPException) else 500
    headers = dict(error.headers or {}) if isinstance(error, HTTPException) else {}
    method, path = request.method, request.scope["path"]
    if status == 405:
        headers["Allow"] = ", ".join(_methods(request))
        if method == "OPTIONS":
            return Response(status_code=204, headers=headers)
    details = {
        404: f"There is no route {path}. GET /docs shows all routes.",
        405: f"{path} does not support {method}, but {headers.get('Allow')}.",
    }
    return answer_problem(Problem(status, details.get(status, str(error)), headers=headers), request)


def _methods(request: Request) -> list[str]:
    """The methods of all routes of a path: Starlette returns those of the first."""
    routes = (route for route in request.app.routes if route.matches(request.scope)[0] is not Match.NONE)
    return sorted({method for route in routes for method in route.methods or ()})


def _failed(error: Exception, request: Request) -> Response:
    log.error("request failed", exc_info=error, extra={"method": request.method, "path": request.scope["path"]})
    return answer_problem(problem_of(error), request)


def room_of(request: Request) -> Room:
    room: Room = request.scope[ROOM]
    return room


def _order(route: Route) -> list[tuple[bool, str]]:
    """The order of routes: literal segments before parameters."""
    return [(part.startswith("{"), part) for part in route.path.split("/")]


def _unescaped(app: Starlette) -> ASGIApp:
    """Match routes against the raw path, so that a name may have an escaped slash."""

    async def by_raw_path(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            scope["path"] = scope["raw_path"].decode("ascii")
        await app(scope, receive, send)

    return by_raw_path
