"""AlterClientQuotas (key 49, v0-1): set and remove quotas of users, client ids and IP addresses, each entity on its own.

No name stands for the default: for all that have no quota of their own.
"""

from __future__ import annotations

from typing import TypeAlias

from kompat.cluster.quotas import QuotaChange
from kompat.errors import ErrorCode, KafkaError
from kompat.handlers.base import Api, Context, Versions
from kompat.handlers.descriptions import describe
from kompat.handlers.parts import Cut
from kompat.protocol.messages import AlterClientQuotasRequest, AlterClientQuotasResponse
from kompat.security.acls import Kind, Operation

Asked: TypeAlias = AlterClientQuotasRequest.EntryData
Entry: TypeAlias = AlterClientQuotasResponse.EntryData


async def handle(ctx: Context, req: AlterClientQuotasRequest) -> AlterClientQuotasResponse:
    ctx.services.authorizer.require(ctx, Operation.ALTER_CONFIGS, Kind.CLUSTER)
    wanted = [_change(asked) for asked in req.entries]
    outcomes = await ctx.services.quotas.alter(wanted, validate_only=req.validate_only)
    return AlterClientQuotasResponse(
        entries=[_entry(asked, error) for asked, error in zip(req.entries, outcomes, strict=True)]
    )


def _change(asked: Asked) -> QuotaChange:
    return QuotaChange(
        [(each.entity_type, each.entity_name) for each in asked.entity],
        [(op.key, None if op.remove else op.value) for op in asked.ops],
    )


def _entry(asked: Asked, error: KafkaError | None) -> Entry:
    return Entry(
        error_code=ErrorCode.NONE if error is None else error.code,
        error_message=None if error is None else describe(error),
        entity=[Entry.EntityData(entity_type=e.entity_type, entity_name=e.entity_name) for e in asked.entity],
    )


def failure(req: AlterClientQuotasRequest, error: KafkaError) -> AlterClientQuotasResponse:
    return AlterClientQuotasResponse(entries=[_entry(asked, error) for asked in req.entries])


API = Api(
    key=49,
    name="AlterClientQuotas",
    versions=Versions(0, 1),
    request=AlterClientQuotasRequest,
    response=AlterClientQuotasResponse,
    handle=handle,
    failure=failure,
    parts=(Cut("entries", "entries", size=20),),
    is_for_controller=lambda _: True,
)
