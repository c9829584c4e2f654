"""ACLs as in Kafka: which principal may do which operation on which resource, from which host.

A denial takes precedence over any permission. A resource without an ACL is closed to all principals, unless
`allow.everyone.if.no.acl.found` opens it. Some permissions imply others; denials imply none.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum

ANYTHING = "*"  # as the name of a literal pattern, and as a host
ANY_PRINCIPAL = "User:*"
CLUSTER_NAME = "kafka-cluster"


class Operation(IntEnum):
    UNKNOWN = 0
    ANY = 1  # in filters
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class Kind(IntEnum):
    """The type of a resource."""

    UNKNOWN = 0
    ANY = 1  # in filters
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class Pattern(IntEnum):
    UNKNOWN = 0
    ANY = 1  # in filters
    MATCH = 2  # in filters: all patterns that match a resource of this name
    LITERAL = 3
    PREFIXED = 4


class Permission(IntEnum):
    UNKNOWN = 0
    ANY = 1  # in filters
    DENY = 2
    ALLOW = 3


_IMPLIED_BY = {
    Operation.DESCRIBE: frozenset({Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}),
    Operation.DESCRIBE_CONFIGS: frozenset({Operation.ALTER_CONFIGS}),
}
_NOTHING: frozenset[Operation] = frozenset()


@dataclass(frozen=True, slots=True, order=True)
class Acl:
    kind: Kind
    name: str
    pattern: Pattern
    principal: str
    host: str
    operation: Operation
    permission: Permission

    def is_for(self, principal: str, host: str, operation: Operation) -> bool:
        """Whether the ACL applies to this principal, host and operation. The caller has matched the resource."""
        if self.principal not in (principal, ANY_PRINCIPAL) or self.host not in (host, ANYTHING):
            return False
        if self.operation in (operation, Operation.ALL):
            return True
        is_permission = self.permission is Permission.ALLOW
        return is_permission and self.operation in _IMPLIED_BY.get(operation, _NOTHING)


@dataclass(frozen=True, slots=True)
class AclFilter:
    """None and ANY match everything."""

    kind: Kind = Kind.ANY
    name: str | None = None
    pattern: Pattern = Pattern.ANY
    principal: str | None = None
    host: str | None = None
    operation: Operation = Operation.ANY
    permission: Permission = Permission.ANY

    def matches(self, acl: Acl) -> bool:
        return (
            self.kind in (Kind.ANY, acl.kind)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (Operation.ANY, acl.operation)
            and self.permission in (Permission.ANY, acl.permission)
            and self._names(acl)
        )

    def _names(self, acl: Acl) -> bool:
        if self.pattern not in (Pattern.ANY, Pattern.MATCH, acl.pattern):
            return False
        if self.name is None or self.name == acl.name:
            return True
        if self.pattern is not Pattern.MATCH:
            return False
        if acl.pattern is Pattern.PREFIXED:
            return self.name.startswith(acl.name)
        return acl.name == ANYTHING

    @property
    def is_unknown(self) -> bool:
        return 0 in (self.kind, self.pattern, self.operation, self.permission)


class Acls:
    """All ACLs, indexed by resource: finding those for a resource does not scan the others."""

    def __init__(self, acls: Iterable[Acl] = ()) -> None:
        self._all: dict[Acl, None] = {}
        self._filed: dict[tuple[Kind, Pattern, str], dict[Acl, None]] = {}
        self._prefixes: dict[Kind, dict[int, int]] = {}  # the number of patterns by the length of their prefix
        self.version = 0  # grows with every change
        for acl in acls:
            self.add(acl)

    def add(self, acl: Acl) -> None:
        if acl in self._all:
            return
        self.version += 1
        self._all[acl] = None
        key = acl.kind, acl.pattern, acl.name
        if key not in self._filed and acl.pattern is Pattern.PREFIXED:
            lengths = self._prefixes.setdefault(acl.kind, {})
            lengths[len(acl.name)] = lengths.get(len(acl.name), 0) + 1
        self._filed.setdefault(key, {})[acl] = None

    def remove(self, acl: Acl) -> None:
        if acl not in self._all:
            return
        self.version += 1
        del self._all[acl]
        key = acl.kind, acl.pattern, acl.name
        alike = self._filed[key]
        del alike[acl]
        if not alike:
            del self._filed[key]
            if acl.pattern is Pattern.PREFIXED:
                lengths = self._prefixes[acl.kind]
                lengths[len(acl.name)] -= 1
                if not lengths[len(acl.name)]:
                    del lengths[len(acl.name)]

    def copy(self) -> Acls:
        return Acls(self._all)

    def of(self, kind: Kind, name: str) -> Iterator[Acl]:
        """The ACLs that apply to a resource."""
        filed = self._filed
        yield from filed.get((kind, Pattern.LITERAL, name), ())
        if name != ANYTHING:
            yield from filed.get((kind, Pattern.LITERAL, ANYTHING), ())
        for length in self._prefixes.get(kind, ()):
            if length <= len(name):
                yield from filed.get((kind, Pattern.PREFIXED, name[:length]), ())

    def matching(self, wanted: AclFilter) -> list[Acl]:
        return [acl for acl in self._all if wanted.matches(acl)]

    def __iter__(self) -> Iterator[Acl]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)

    def __contains__(self, acl: object) -> bool:
        return acl in self._all

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Acls) and self._all == other._all

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True, slots=True)
class Rules:
    """The settings that count beside ACLs."""

    super_users: Collection[str] = frozenset()
    is_open_without_acls: bool = False


def allows(acls: Acls, rules: Rules, principal: str, host: str, operation: Operation, kind: Kind, name: str) -> bool:
    if principal in rules.super_users:
        return True
    is_allowed = False
    is_without = True
    for acl in acls.of(kind, name):
        is_without = False
        if acl.is_for(principal, host, operation):
            if acl.permission is Permission.DENY:
                return False
            is_allowed = True
    return is_allowed or (is_without and rules.is_open_without_acls)


def allows_any(acls: Acls, rules: Rules, principal: str, host: str, operation: Operation, kind: Kind) -> bool:
    """Whether the principal may do the operation on at least one resource of this kind, which need not exist."""
    if allows(acls, rules, principal, host, operation, kind, "hardcode"):
        return True  # Kafka's own placeholder: it finds super users, and ACLs for all names
    relevant = [
        acl
        for acl in acls
        if acl.kind is kind
        and acl.principal in (principal, ANY_PRINCIPAL)
        and acl.host in (host, ANYTHING)
        and acl.operation in (operation, Operation.ALL)
    ]
    denied = {(acl.pattern, acl.name) for acl in relevant if acl.permission is Permission.DENY}
    if (Pattern.LITERAL, ANYTHING) in denied:
        return False
    return any(acl.permission is Permission.ALLOW and not _is_dominated(acl, denied) for acl in relevant)


def _is_dominated(acl: Acl, denied: Collection[tuple[Pattern, str]]) -> bool:
    if acl.pattern is Pattern.LITERAL:
        if acl.name == ANYTHING:
            return False
        if (Pattern.LITERAL, acl.name) in denied:
            return True
    return any((Pattern.PREFIXED, acl.name[:length]) in denied for length in range(1, len(acl.name) + 1))
