"""DescribeCluster: the cluster's id, its brokers, and one that takes admin requests.

Brokers that are registered and not running are returned as fenced, where the request includes them (v2).

Only brokers can be described here: a request for controllers (endpoint type 2, v1+) is MISMATCHED_ENDPOINT_TYPE.
"""

from __future__ import annotations

from typing import TypeAlias

from kompat.errors import ErrorCode, KafkaError
from kompat.handlers.support import authorized
from kompat.handlers.support.addresses import Endpoint, absent_brokers, brokers, controller
from kompat.handlers.support.base import Context, Handler
from kompat.handlers.support.descriptions import describe
from kompat.protocol.messages import DescribeClusterRequest, DescribeClusterResponse

BROKER, CONTROLLER = 1, 2

Broker: TypeAlias = DescribeClusterResponse.DescribeClusterBroker


def handle(ctx: Context, req: DescribeClusterRequest) -> DescribeClusterResponse:
    if req.endpoint_type == CONTROLLER:
        raise KafkaError(
            ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER",
        )
    if req.endpoint_type != BROKER:
        raise KafkaError(ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, f"Unsupported endpoint type {req.endpoint_type}")
    listed = brokers(ctx)
    return DescribeClusterResponse(
        cluster_id=ctx.services.cluster.cluster_id,
        controller_id=controller(ctx, listed),
        brokers=[_broker(b) for b in listed]
        + ([_broker(b, is_fenced=True) for b in absent_brokers(ctx)] if req.include_fenced_brokers else []),
        authorized_operations=authorized.on_cluster(ctx) if req.include_cluster_authorized_operations else None,
    )


def _broker(broker: Endpoint, *, is_fenced: bool = False) -> Broker:
    return Broker(broker_id=broker.node_id, host=broker.host, port=broker.port, rack=broker.rack, is_fenced=is_fenced)


def failure(_: DescribeClusterRequest, error: KafkaError) -> DescribeClusterResponse:
    return DescribeClusterResponse(error_code=error.code, error_message=describe(error), cluster_id="")


HANDLER = Handler(DescribeClusterRequest, DescribeClusterResponse, handle, failure)
