"""ACLs and filters for them as requests carry them: numbers that kompat does not know are UNKNOWN, as in Kafka."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, TypeVar

from kompat.security.acls import AclFilter, Kind, Operation, Pattern, Permission

if TYPE_CHECKING:
    from kompat.protocol.messages import DeleteAclsRequest, DescribeAclsRequest

E = TypeVar("E", bound=IntEnum)


def member(kind: type[E], number: int) -> E:
    try:
        return kind(number)
    except ValueError:
        return kind(0)


def filter_of(requested: DescribeAclsRequest | DeleteAclsRequest.DeleteAclsFilter) -> AclFilter:
    """Of DescribeAcls, or one of DeleteAcls."""
    return AclFilter(
        kind=member(Kind, requested.resource_type_filter),
        name=requested.resource_name_filter,
        pattern=member(Pattern, requested.pattern_type_filter),
        principal=requested.principal_filter,
        host=requested.host_filter,
        operation=member(Operation, requested.operation),
        permission=member(Permission, requested.permission_type),
    )
