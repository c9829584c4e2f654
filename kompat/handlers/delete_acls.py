"""DeleteAcls: remove the ACLs that filters match, and return them.

Without an authorizer: SECURITY_DISABLED.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from kompat.errors import ErrorCode, KafkaError
from kompat.handlers.support.acl_codes import filter_of
from kompat.handlers.support.base import Context, Handler
from kompat.handlers.support.descriptions import describe
from kompat.handlers.support.parts import Cut
from kompat.protocol.messages import DeleteAclsRequest, DeleteAclsResponse
from kompat.security.acls import Acl, Kind, Operation

Result: TypeAlias = DeleteAclsResponse.DeleteAclsFilterResult
Matching: TypeAlias = DeleteAclsResponse.DeleteAclsFilterResult.DeleteAclsMatchingAcl


async def handle(ctx: Context, req: DeleteAclsRequest) -> DeleteAclsResponse:
    authorizer = ctx.services.authorizer
    authorizer.require(ctx, Operation.ALTER, Kind.CLUSTER)
    outcomes = await authorizer.delete([filter_of(requested) for requested in req.filters])
    return DeleteAclsResponse(filter_results=[_result(outcome) for outcome in outcomes])


def _result(outcome: Sequence[Acl] | KafkaError) -> Result:
    if isinstance(outcome, KafkaError):
        return Result(error_code=outcome.code, error_message=describe(outcome), matching_acls=[])
    return Result(error_code=ErrorCode.NONE, error_message=None, matching_acls=[_matching(acl) for acl in outcome])


def _matching(acl: Acl) -> Matching:
    return Matching(
        error_code=ErrorCode.NONE,
        error_message=None,
        resource_type=acl.kind,
        resource_name=acl.name,
        pattern_type=acl.pattern,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )


def failure(req: DeleteAclsRequest, error: KafkaError) -> DeleteAclsResponse:
    return DeleteAclsResponse(filter_results=[_result(error) for _ in req.filters])


HANDLER = Handler(
    DeleteAclsRequest,
    DeleteAclsResponse,
    handle,
    failure,
    parts=(Cut("filters", "filter_results", size=10),),
    is_for_controller=lambda _: True,
)
