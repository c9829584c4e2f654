"""CreateAcls: allow or deny principals operations on resources. Each is added or refused on its own.

What there is already is not refused. Without an authorizer: SECURITY_DISABLED.
"""

from __future__ import annotations

from typing import TypeAlias

from kompat.errors import ErrorCode, KafkaError
from kompat.handlers.support.acl_codes import member
from kompat.handlers.support.base import Context, Handler
from kompat.handlers.support.descriptions import describe
from kompat.handlers.support.parts import Cut
from kompat.protocol.messages import CreateAclsRequest, CreateAclsResponse
from kompat.security.acls import Acl, Kind, Operation, Pattern, Permission

Requested: TypeAlias = CreateAclsRequest.AclCreation
Result: TypeAlias = CreateAclsResponse.AclCreationResult


async def handle(ctx: Context, req: CreateAclsRequest) -> CreateAclsResponse:
    authorizer = ctx.services.authorizer
    authorizer.require(ctx, Operation.ALTER, Kind.CLUSTER)
    outcomes = await authorizer.create([_acl(requested) for requested in req.creations])
    return CreateAclsResponse(results=[_result(error) for error in outcomes])


def _acl(requested: Requested) -> Acl:
    return Acl(
        kind=member(Kind, requested.resource_type),
        name=requested.resource_name,
        pattern=member(Pattern, requested.resource_pattern_type),
        principal=requested.principal,
        host=requested.host,
        operation=member(Operation, requested.operation),
        permission=member(Permission, requested.permission_type),
    )


def _result(error: KafkaError | None) -> Result:
    if error is None:
        return Result(error_code=ErrorCode.NONE, error_message=None)
    return Result(error_code=error.code, error_message=describe(error))


def failure(req: CreateAclsRequest, error: KafkaError) -> CreateAclsResponse:
    return CreateAclsResponse(results=[_result(error) for _ in req.creations])


HANDLER = Handler(
    CreateAclsRequest,
    CreateAclsResponse,
    handle,
    failure,
    parts=(Cut("creations", "results"),),
    is_for_controller=lambda _: True,
)
