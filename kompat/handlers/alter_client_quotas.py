"""AlterClientQuotas: set and remove quotas of users, client ids and IP addresses, each entity on its own.

A null name stands for the default: for all entities that have no quota of their own.
"""

from __future__ import annotations

from typing import TypeAlias

from kompat.cluster.quotas import QuotaChange
from kompat.errors import ErrorCode, KafkaError
from kompat.handlers.support.base import Context, Handler
from kompat.handlers.support.descriptions import describe
from kompat.handlers.support.parts import Cut
from kompat.protocol.messages import AlterClientQuotasRequest, AlterClientQuotasResponse
from kompat.security.acls import Kind, Operation

Requested: TypeAlias = AlterClientQuotasRequest.EntryData
Entry: TypeAlias = AlterClientQuotasResponse.EntryData


async def handle(ctx: Context, req: AlterClientQuotasRequest) -> AlterClientQuotasResponse:
    ctx.services.authorizer.require(ctx, Operation.ALTER_CONFIGS, Kind.CLUSTER)
    wanted = [_change(requested) for requested in req.entries]
    outcomes = await ctx.services.quotas.alter(wanted, validate_only=req.validate_only)
    return AlterClientQuotasResponse(
        entries=[_entry(requested, error) for requested, error in zip(req.entries, outcomes, strict=True)]
    )


def _change(requested: Requested) -> QuotaChange:
    return QuotaChange(
        [(each.entity_type, each.entity_name) for each in requested.entity],
        [(op.key, None if op.remove else op.value) for op in requested.ops],
    )


def _entry(requested: Requested, error: KafkaError | None) -> Entry:
    return Entry(
        error_code=ErrorCode.NONE if error is None else error.code,
        error_message=None if error is None else describe(error),
        entity=[Entry.EntityData(entity_type=e.entity_type, entity_name=e.entity_name) for e in requested.entity],
    )


def failure(req: AlterClientQuotasRequest, error: KafkaError) -> AlterClientQuotasResponse:
    return AlterClientQuotasResponse(entries=[_entry(requested, error) for requested in req.entries])


HANDLER = Handler(
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    handle,
    failure,
    parts=(Cut("entries", "entries", size=20),),
    is_for_controller=lambda _: True,
)
