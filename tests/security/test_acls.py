"""ACLs: the filed ones against a plain reading of all of them, and Kafka's rules one by one."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kompat.security.acls import (
    ANY_PRINCIPAL,
    ANYTHING,
    Acl,
    AclFilter,
    Acls,
    Kind,
    Operation,
    Pattern,
    Permission,
    Rules,
    allows,
    allows_any,
)

CALM = settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)  # on a busy machine
NAMES = ("a", "ab", "abc", "b", "ba", ANYTHING)
PEOPLE = ("User:alice", "User:bob")
HOSTS = ("10.0.0.1", "10.0.0.2")
OPERATIONS = [each for each in Operation if each > Operation.ANY]
KINDS = [Kind.TOPIC, Kind.GROUP]

acls = st.builds(
    Acl,
    kind=st.sampled_from(KINDS),
    name=st.sampled_from(NAMES),
    pattern=st.sampled_from([Pattern.LITERAL, Pattern.PREFIXED]),
    principal=st.sampled_from([*PEOPLE, ANY_PRINCIPAL]),
    host=st.sampled_from([*HOSTS, ANYTHING]),
    operation=st.sampled_from(OPERATIONS),
    permission=st.sampled_from([Permission.ALLOW, Permission.DENY]),
)
tables = st.lists(acls, max_size=12)
rules = st.builds(Rules, st.sampled_from([frozenset(), frozenset({"User:bob"})]), st.booleans())
asked = st.tuples(
    st.sampled_from(PEOPLE),
    st.sampled_from(HOSTS),
    st.sampled_from([each for each in OPERATIONS if each is not Operation.ALL]),
    st.sampled_from(KINDS),
)

IMPLIED = {
    Operation.DESCRIBE: {Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER},
    Operation.DESCRIBE_CONFIGS: {Operation.ALTER_CONFIGS},
}


def _applies(acl: Acl, kind: Kind, name: str) -> bool:
    if acl.kind is not kind:
        return False
    if acl.pattern is Pattern.PREFIXED:
        return name.startswith(acl.name)
    return acl.name in (name, ANYTHING)


def _speaks_of(acl: Acl, principal: str, host: str, operation: Operation) -> bool:
    operations = {operation, Operation.ALL}
    if acl.permission is Permission.ALLOW:
        operations |= IMPLIED.get(operation, set())
    return acl.principal in (principal, ANY_PRINCIPAL) and acl.host in (host, ANYTHING) and acl.operation in operations


def _read_plainly(
    table: list[Acl], rules: Rules, principal: str, host: str, operation: Operation, kind: Kind, name: str
) -> bool:
    if principal in rules.super_users:
        return True
    applying = [acl for acl in table if _applies(acl, kind, name)]
    if not applying:
        return rules.is_open_without_acls
    speaking = {acl.permission for acl in applying if _speaks_of(acl, principal, host, operation)}
    return speaking == {Permission.ALLOW}


@CALM
@given(tables, rules, asked, st.sampled_from(NAMES))
def test_the_filed_acls_say_what_all_of_them_say(
    table: list[Acl], rules: Rules, asked: tuple[str, str, Operation, Kind], name: str
) -> None:
    assert allows(Acls(table), rules, *asked, name) == _read_plainly(table, rules, *asked, name)


@CALM
@given(tables, tables, rules, asked, st.sampled_from(NAMES))
def test_what_was_added_and_removed_again_leaves_no_trace(
    table: list[Acl], passing: list[Acl], rules: Rules, asked: tuple[str, str, Operation, Kind], name: str
) -> None:
    filed = Acls(table)
    before = filed.version
    for acl in passing:
        filed.add(acl)
    for acl in passing:
        if acl not in table:
            filed.remove(acl)

    assert filed == Acls(table)
    assert (filed.version == before) == (set(passing) <= set(table))
    assert allows(filed, rules, *asked, name) == _read_plainly(table, rules, *asked, name)


@CALM
@given(tables, rules, asked)
def test_who_may_do_it_with_some_name_may_do_it_at_all(
    table: list[Acl], rules: Rules, asked: tuple[str, str, Operation, Kind]
) -> None:
    """But for implied operations, which Kafka does not look for here, and for names that only a default opens."""
    exact = [acl for acl in table if acl.operation in (asked[2], Operation.ALL)]
    tried = {acl.name for acl in exact} | {acl.name + "~" for acl in exact if acl.pattern is Pattern.PREFIXED}
    closed = replace(rules, is_open_without_acls=False)
    found = any(_read_plainly(exact, closed, *asked, name) for name in tried - {ANYTHING} | {"hardcode"})

    if found:
        assert allows_any(Acls(exact), closed, *asked)


@CALM
@given(acls, acls)
def test_a_filter_of_an_acl_finds_it_and_others_only_where_nothing_differs(one: Acl, other: Acl) -> None:
    exact = AclFilter(one.kind, one.name, one.pattern, one.principal, one.host, one.operation, one.permission)

    assert exact.matches(one)
    assert exact.matches(other) == (one == other)
    assert AclFilter().matches(other)


@CALM
@given(tables, st.sampled_from(NAMES[:-1]), st.sampled_from(KINDS))
def test_a_match_filter_finds_all_that_apply_to_a_name(table: list[Acl], name: str, kind: Kind) -> None:
    found = Acls(table).matching(AclFilter(kind=kind, name=name, pattern=Pattern.MATCH))

    assert set(found) == {acl for acl in table if _applies(acl, kind, name)}


def _acl(operation: Operation, permission: Permission = Permission.ALLOW) -> Acl:
    return Acl(Kind.TOPIC, "a", Pattern.LITERAL, "User:alice", ANYTHING, operation, permission)


def _may(operation: Operation, *table: Acl) -> bool:
    return allows(Acls(table), Rules(), "User:alice", "10.0.0.1", operation, Kind.TOPIC, "a")


def test_reading_implies_describing_but_a_denial_of_reading_does_not() -> None:
    assert _may(Operation.DESCRIBE, _acl(Operation.READ))
    assert not _may(Operation.READ, _acl(Operation.DESCRIBE))
    assert _may(Operation.DESCRIBE, _acl(Operation.DESCRIBE), _acl(Operation.READ, Permission.DENY))


def test_a_denial_on_a_prefix_takes_writing_from_names_below_it() -> None:
    allow = replace(_acl(Operation.WRITE), name="logs-web")
    deny = replace(_acl(Operation.WRITE, Permission.DENY), name="logs", pattern=Pattern.PREFIXED)
    may = Operation.WRITE, Kind.TOPIC

    assert allows_any(Acls([allow]), Rules(), "User:alice", "10.0.0.1", *may)
    assert not allows_any(Acls([allow, deny]), Rules(), "User:alice", "10.0.0.1", *may)
