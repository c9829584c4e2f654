"""DescribeAcls: the ACLs that a filter matches, by resource.

The pattern type ANY takes the filter's name as it is, MATCH finds all that apply to a resource of that name. Without an
authorizer: SECURITY_DISABLED.
"""

from __future__ import annotations

from typing import TypeAlias

from kompat.common.slices import sliced
from kompat.errors import ErrorCode, KafkaError
from kompat.handlers.support.acl_codes import filter_of
from kompat.handlers.support.base import Context, Handler
from kompat.handlers.support.descriptions import describe
from kompat.protocol.messages import DescribeAclsRequest, DescribeAclsResponse
from kompat.security.acls import Acl, Kind, Operation, Pattern

ResourceAnswer: TypeAlias = DescribeAclsResponse.DescribeAclsResource
AclAnswer: TypeAlias = DescribeAclsResponse.DescribeAclsResource.AclDescription


async def handle(ctx: Context, req: DescribeAclsRequest) -> DescribeAclsResponse:
    authorizer = ctx.services.authorizer
    authorizer.require(ctx, Operation.DESCRIBE, Kind.CLUSTER)
    wanted = filter_of(req)
    if wanted.is_unknown:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "DescribeAclsRequest contains UNKNOWN elements")
    resources: dict[tuple[Kind, str, Pattern], list[Acl]] = {}
    for acl in authorizer.find(wanted):
        resources.setdefault((acl.kind, acl.name, acl.pattern), []).append(acl)
    return DescribeAclsResponse(
        error_code=ErrorCode.NONE,
        error_message=None,
        resources=[
            ResourceAnswer(
                resource_type=kind, resource_name=name, pattern_type=pattern, acls=[_answer(acl) for acl in found]
            )
            async for (kind, name, pattern), found in sliced(resources.items())
        ],
    )


def _answer(acl: Acl) -> AclAnswer:
    return AclAnswer(principal=acl.principal, host=acl.host, operation=acl.operation, permission_type=acl.permission)


def failure(_: DescribeAclsRequest, error: KafkaError) -> DescribeAclsResponse:
    return DescribeAclsResponse(error_code=error.code, error_message=describe(error), resources=[])


HANDLER = Handler(DescribeAclsRequest, DescribeAclsResponse, handle, failure)
