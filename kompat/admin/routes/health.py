"""Whether the broker is there, whether it serves, and which it is; and what there is to ask for."""

from __future__ import annotations

import asyncio
import platform
from typing import Literal

from msgspec import UNSET, UnsetType
from starlette.responses import Response

from kompat import __version__
from kompat.admin.problems import UNAVAILABLE, Problem
from kompat.admin.route import Call, Route
from kompat.admin.shapes import Answer
from kompat.errors import KafkaError
from kompat.log.manager import Logs

CAUGHT_UP_WITHIN = 1.0  # seconds


class Check(Answer):
    name: str
    ok: bool
    reason: str | UnsetType = UNSET


class Health(Answer):
    status: Literal["ok"]
    checks: list[Check] | UnsetType = UNSET


class Version(Answer):
    version: str
    node_id: int
    cluster_id: str
    python: str


async def live(_: Call) -> Health:
    return Health(status="ok")


async def ready(call: Call) -> Health:
    checks = await readiness(call)
    wrong = [check for check in checks if not check.ok]
    if wrong:
        reasons = " ".join(f"{check.name}: {check.reason}" for check in wrong)
        raise Problem(UNAVAILABLE, f"{reasons} Clients are served by other brokers until then.", name="not-ready")
    return Health(status="ok", checks=checks)


async def readiness(call: Call) -> list[Check]:
    if call.services is None:
        return [Check(name="broker", ok=False, reason="it is starting, or waits for the other brokers of its cluster.")]
    checks = [Check(name="broker", ok=True)]
    if call.stopping.is_set():
        checks = [Check(name="broker", ok=False, reason="it is about to stop.")]
    checks.append(_room(call.services.logs))
    cluster = call.services.cluster
    member = cluster.member
    if member is None:
        return checks
    is_registered = call.services.node_id in cluster.brokers
    has_controller = cluster.controller is not None
    checks += [
        _check("registered", is_registered, "the cluster does not know of it yet."),
        _check("inside", not member.leaders.is_outside, "it has lost most of the other brokers."),
        _check("controller", has_controller, "the cluster has no controller at the moment."),
        _check("metadata", await cluster.reach(cluster.end, CAUGHT_UP_WITHIN), "it has not read all metadata yet."),
    ]
    return checks


def _room(logs: Logs) -> Check:
    try:
        logs.require_room()
    except KafkaError as error:
        return Check(name="disk", ok=False, reason=f"it takes no writes: {error.message}.")
    return Check(name="disk", ok=True)


def _check(name: str, ok: bool, reason: str) -> Check:
    return Check(name=name, ok=ok, reason=UNSET if ok else reason)


async def version(call: Call) -> Version:
    return Version(
        version=__version__,
        node_id=call.services.node_id,
        cluster_id=call.services.cluster.cluster_id,
        python=platform.python_version(),
    )


async def openapi(_: Call) -> Response:
    from kompat.admin.openapi import document

    return Response(await asyncio.to_thread(document), media_type="application/json")


ROUTES = [
    Route(
        method="GET", path="/health/live", handle=live, summary="Whether the process answers", tag="health",
        answer=Health, is_open=True,
    ),
    Route(
        method="GET", path="/health/ready", handle=ready, summary="Whether the broker serves clients", tag="health",
        answer=Health, is_open=True,
        description="Its disk has room for writes. In a cluster: it has joined, is in touch with most of the others, and there is a controller.",
    ),
    Route(
        method="GET", path="/health", handle=ready, summary="As /health/ready", tag="health", answer=Health, is_open=True,
    ),
    Route(method="GET", path="/version", handle=version, summary="Which kompat this is", tag="health", answer=Version),
    Route(
        method="GET", path="/openapi.json", handle=openapi, summary="All routes, as OpenAPI 3.1", tag="health",
        answer=dict, is_open=True,
    ),
]  # fmt: skip
