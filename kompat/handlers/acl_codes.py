"""ACLs and filters for them as requests carry them: numbers that kompat does not know are UNKNOWN, as in Kafka."""

from __future__ import annotations

from enum import IntEnum
from typing import Any, TypeVar

from kompat.security.acls import AclFilter, Kind, Operation, Pattern, Permission

E = TypeVar("E", bound=IntEnum)


def member(kind: type[E], number: int) -> E:
    try:
        return kind(number)
    except ValueError:
        return kind(0)


def filter_of(asked: Any) -> AclFilter:
    """Of DescribeAcls, or one of DeleteAcls."""
    return AclFilter(
        kind=member(Kind, asked.resource_type_filter),
        name=asked.resource_name_filter,
        pattern=member(Pattern, asked.pattern_type_filter),
        principal=asked.principal_filter,
        host=asked.host_filter,
        operation=member(Operation, asked.operation),
        permission=member(Permission, asked.permission_type),
    )
