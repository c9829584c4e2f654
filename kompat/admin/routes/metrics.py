"""The metrics page for Prometheus."""

from __future__ import annotations

from functools import partial
from importlib import import_module

from starlette.responses import Response

from kompat.admin.route import Call, Route
from kompat.common.slices import aside
from kompat.security.acls import Kind, Operation


async def metrics(call: Call) -> Response:
    call.require(Operation.DESCRIBE, Kind.CLUSTER)
    await aside(partial(import_module, "kompat.metrics.exposition"))  # only where somebody scrapes; it takes a while
    from kompat.metrics.exposition import CONTENT_TYPE, Exposition

    return Response(await call.once(Exposition).render(), headers={"content-type": CONTENT_TYPE})


ROUTES = [
    Route(
        method="GET", path="/metrics", handle=metrics, summary="Metrics in the text format of Prometheus", tag="health",
        answer=str, media="text/plain",
    ),
]  # fmt: skip
