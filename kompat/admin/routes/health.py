"""Liveness, readiness, the version, and the OpenAPI document."""

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
        raise Problem(UNAVAILABLE, f"{reasons} Until then other brokers serve clients.", name="not-ready")
    return Health(status="ok", checks=checks)


async def readiness(call: Call) -> list[Check]:
    if call.services is None:
        return [
            Check(name="broker", ok=False, reason="the broker is starting, or waits for other brokers of its cluster.")
        ]
    checks = [Check(name="broker", ok=True)]
    if call.stopping.is_set():
        checks = [Check(name="broker", ok=False, reason="the broker is shutting down.")]
    checks.append(_room(call.services.logs))
    cluster = call.services.cluster
    is_registered = call.services.node_id in cluster.brokers
    has_controller = cluster.controller is not None
    checks += [
        _check("registered", is_registered, "the broker is not registered in the cluster yet."),
        _check(
            "inside", not cluster.local.leaders.is_outside, "the broker has no connection to a majority of the cluster."
        ),
        _check("controller", has_controller, "the cluster has no controller at the moment."),
        _check(
            "metadata",
            await cluster.reach(cluster.end, CAUGHT_UP_WITHIN),
            "the broker has not caught up with the cluster metadata yet.",
        ),
    ]
    return checks


def _room(logs: Logs) -> Check:
    try:
        logs.require_room()
    except KafkaError as error:
        return Check(name="disk", ok=False, reason=f"the broker refuses writes: {error.message}.")
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
        method="GET", path="/health/live", handle=live, summary="Check whether the process is alive", tag="health",
        answer=Health, is_open=True,
    ),
    Route(
        method="GET", path="/health/ready", handle=ready, summary="Check whether the broker is ready to serve clients", tag="health",
        answer=Health, is_open=True,
        description="A ready broker has disk space for writes. In a cluster it is registered, is connected to a majority of the brokers, and the cluster has a controller.",
    ),
    Route(
        method="GET", path="/health", handle=ready, summary="Same as /health/ready", tag="health", answer=Health, is_open=True,
    ),
    Route(method="GET", path="/version", handle=version, summary="Show the version of kompat", tag="health", answer=Version),
    Route(
        method="GET", path="/openapi.json", handle=openapi, summary="All routes as an OpenAPI 3.1 document", tag="health",
        answer=dict, is_open=True,
    ),
]  # fmt: skip
