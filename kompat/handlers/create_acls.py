"""CreateAcls (key 30, v1-3): allow or deny principals operations on resources. Each is added or refused on its own.

What there is already is not refused. Without an authorizer: SECURITY_DISABLED.
"""

from __future__ import annotations

from typing import TypeAlias

from kompat.errors import ErrorCode, KafkaError
from kompat.handlers.acl_codes import member
from kompat.handlers.base import Api, Context, Versions
from kompat.handlers.descriptions import describe
from kompat.handlers.parts import Cut
from kompat.protocol.messages import CreateAclsRequest, CreateAclsResponse
from kompat.security.acls import Acl, Kind, Operation, Pattern, Permission

Asked: TypeAlias = CreateAclsRequest.AclCreation
Result: TypeAlias = CreateAclsResponse.AclCreationResult


async def handle(ctx: Context, req: CreateAclsRequest) -> CreateAclsResponse:
    authorizer = ctx.services.authorizer
    authorizer.require(ctx, Operation.ALTER, Kind.CLUSTER)
    outcomes = await authorizer.create([_acl(asked) for asked in req.creations])
    return CreateAclsResponse(results=[_result(error) for error in outcomes])


def _acl(asked: Asked) -> Acl:
    return Acl(
        kind=member(Kind, asked.resource_type),
        name=asked.resource_name,
        pattern=member(Pattern, asked.resource_pattern_type),
        principal=asked.principal,
        host=asked.host,
        operation=member(Operation, asked.operation),
        permission=member(Permission, asked.permission_type),
    )


def _result(error: KafkaError | None) -> Result:
    if error is None:
        return Result(error_code=ErrorCode.NONE, error_message=None)
    return Result(error_code=error.code, error_message=describe(error))


def failure(req: CreateAclsRequest, error: KafkaError) -> CreateAclsResponse:
    return CreateAclsResponse(results=[_result(error) for _ in req.creations])


API = Api(
    key=30,
    name="CreateAcls",
    versions=Versions(1, 3),
    request=CreateAclsRequest,
    response=CreateAclsResponse,
    handle=handle,
    failure=failure,
    parts=(Cut("creations", "results"),),
    is_for_controller=lambda _: True,
)
