"""What Prometheus scrapes."""

from __future__ import annotations

from starlette.responses import Response

from kompat.admin.route import Call, Route
from kompat.security.acls import Kind, Operation


async def metrics(call: Call) -> Response:
    from kompat.metrics.exposition import CONTENT_TYPE, Exposition  # only where somebody scrapes

    call.require(Operation.DESCRIBE, Kind.CLUSTER)
    return Response(await call.once(Exposition).render(), headers={"content-type": CONTENT_TYPE})


ROUTES = [
    Route(
        method="GET", path="/metrics", handle=metrics, summary="Counters and state, as Prometheus reads them", tag="health",
        answer=str, media="text/plain",
    ),
]  # fmt: skip
