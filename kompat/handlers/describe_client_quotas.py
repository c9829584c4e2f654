"""DescribeClientQuotas: the quotas of users, client ids and IP addresses that a filter matches.

Each component has a type of entity, and matches one name, the default, or any. All have to match; with `strict`
an entity may have no other types.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from kompat.cluster.quotas import Component
from kompat.common.slices import sliced
from kompat.errors import ErrorCode, KafkaError
from kompat.handlers.support.base import Context, Handler
from kompat.handlers.support.descriptions import describe
from kompat.protocol.messages import DescribeClientQuotasRequest, DescribeClientQuotasResponse
from kompat.security.acls import Kind, Operation
from kompat.security.quotas import Entity

Entry: TypeAlias = DescribeClientQuotasResponse.EntryData


async def handle(ctx: Context, req: DescribeClientQuotasRequest) -> DescribeClientQuotasResponse:
    ctx.services.authorizer.require(ctx, Operation.DESCRIBE_CONFIGS, Kind.CLUSTER)
    components = [Component(each.entity_type, each.match_type, each.match) for each in req.components]
    found = await ctx.services.quotas.find(components, is_strict=req.strict)
    return DescribeClientQuotasResponse(
        error_code=ErrorCode.NONE,
        error_message=None,
        entries=[_entry(entity, quotas) async for entity, quotas in sliced(found)],
    )


def _entry(entity: Entity, quotas: Mapping[str, float]) -> Entry:
    return Entry(
        entity=[Entry.EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
        values=[Entry.ValueData(key=key, value=value) for key, value in quotas.items()],
    )


def failure(_: DescribeClientQuotasRequest, error: KafkaError) -> DescribeClientQuotasResponse:
    return DescribeClientQuotasResponse(error_code=error.code, error_message=describe(error), entries=None)


HANDLER = Handler(DescribeClientQuotasRequest, DescribeClientQuotasResponse, handle, failure)
