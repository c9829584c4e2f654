"""Users, ACLs and quotas."""

from __future__ import annotations

import asyncio
import secrets
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, UnsetType, field

from kompat.admin.problems import check, invalid
from kompat.admin.route import Call, Route
from kompat.admin.shapes import DEFAULT_LIMIT, MOST_ITEMS, Answer, Body, Cursor, Limit, Page, PageQuery, Query, page
from kompat.common.slices import sliced
from kompat.errors import ErrorCode
from kompat.protocol.messages import (
    AlterClientQuotasRequest,
    AlterUserScramCredentialsRequest,
    CreateAclsRequest,
    DeleteAclsRequest,
    DescribeAclsRequest,
    DescribeClientQuotasRequest,
    DescribeUserScramCredentialsRequest,
)
from kompat.security import scram
from kompat.security.acls import CLUSTER_NAME, Kind, Operation, Pattern, Permission

SALT_BYTES = 24
EXACT, DEFAULT_ENTITY, ANY_ENTITY = 0, 1, 2

Text = Annotated[str, Meta(max_length=1024)]
MechanismName = Literal["SCRAM-SHA-256", "SCRAM-SHA-512"]
MECHANISMS: dict[MechanismName, int] = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}
KindName = Literal["topic", "group", "cluster", "transactional_id", "delegation_token", "user"]
PatternName = Literal["literal", "prefixed"]
PermissionName = Literal["allow", "deny"]
OperationName = Literal[
    "all", "read", "write", "create", "delete", "alter", "describe", "cluster_action", "describe_configs",
    "alter_configs", "idempotent_write", "create_tokens", "describe_tokens", "two_phase_commit",
]  # fmt: skip


# -- users -------------------------------------------------------------------------------------------------------------
class Credential(Answer):
    mechanism: MechanismName
    iterations: int


class User(Answer):
    name: str
    credentials: list[Credential]


class NewUser(Body):
    name: Annotated[str, Meta(min_length=1, max_length=255)]
    password: Annotated[str, Meta(min_length=1, max_length=1024)]
    mechanisms: Annotated[list[MechanismName], Meta(min_length=1, max_length=2)] = field(
        default_factory=lambda: list(MECHANISMS)
    )
    iterations: Annotated[int, Meta(ge=scram.LEAST_ITERATIONS, le=16384)] = scram.LEAST_ITERATIONS


async def list_users(call: Call) -> Page[User]:
    response = await call.send(DescribeUserScramCredentialsRequest(users=None))
    check(response.error_code, response.error_message)
    found = [_user(each) async for each in sliced(response.results) if each.error_code == ErrorCode.NONE]
    return await page(found, lambda user: user.name, call.query.limit, call.query.cursor)


def _user(described: Any) -> User:
    names = {number: name for name, number in MECHANISMS.items()}
    known = [Credential(mechanism=names[c.mechanism], iterations=c.iterations) for c in described.credential_infos]
    return User(name=described.user, credentials=known)


async def put_user(call: Call) -> User:
    """Only the SCRAM credential leaves this process, not the password."""
    body: NewUser = call.body
    kind = AlterUserScramCredentialsRequest.ScramCredentialUpsertion
    upsertions = []
    for name in dict.fromkeys(body.mechanisms):
        mechanism, salt = scram.Mechanism(MECHANISMS[name]), secrets.token_bytes(SALT_BYTES)
        salted = await asyncio.to_thread(scram.salted, mechanism, body.password, salt, body.iterations)
        upsertions.append(
            kind(name=body.name, mechanism=mechanism, iterations=body.iterations, salt=salt, salted_password=salted)
        )
    # One mechanism at a time: Kafka rejects a request that has a user twice.
    for upsertion in upsertions:
        response = await call.send(AlterUserScramCredentialsRequest(deletions=[], upsertions=[upsertion]))
        check(response.results[0].error_code, response.results[0].error_message)
    return await _get_user(call, body.name)


async def _get_user(call: Call, name: str) -> User:
    requested = [DescribeUserScramCredentialsRequest.UserName(name=name)]
    response = await call.send(DescribeUserScramCredentialsRequest(users=requested))
    check(response.error_code, response.error_message)
    check(response.results[0].error_code, response.results[0].error_message)
    return _user(response.results[0])


async def get_user(call: Call) -> User:
    return await _get_user(call, call.path["user"])


async def delete_user(call: Call) -> None:
    known = await _get_user(call, call.path["user"])
    kind = AlterUserScramCredentialsRequest.ScramCredentialDeletion
    for each in known.credentials:
        deletion = kind(name=known.name, mechanism=MECHANISMS[each.mechanism])
        response = await call.send(AlterUserScramCredentialsRequest(deletions=[deletion], upsertions=[]))
        check(response.results[0].error_code, response.results[0].error_message)


# -- ACLs --------------------------------------------------------------------------------------------------------------
class AclShape(Answer):
    resource_type: str
    resource_name: str
    pattern_type: str
    principal: str
    host: str
    operation: str
    permission: str


class NewAcl(Body):
    principal: Annotated[str, Meta(max_length=1024, examples=["User:alice"])]
    operation: OperationName
    resource_type: KindName
    resource_name: Text | None = None  # the cluster needs none
    pattern_type: PatternName = "literal"
    host: Text = "*"
    permission: PermissionName = "allow"


class NewAcls(Body):
    acls: Annotated[list[NewAcl], Meta(min_length=1, max_length=MOST_ITEMS)]


class AclFilters(Query):
    resource_type: KindName | None = None
    resource_name: Text | None = None
    pattern_type: Literal["literal", "prefixed", "match"] | None = None
    principal: Text | None = None
    host: Text | None = None
    operation: OperationName | None = None
    permission: PermissionName | None = None


class AclsQuery(AclFilters):
    limit: Limit = DEFAULT_LIMIT
    cursor: Cursor | None = None


class DeletedAcls(Answer):
    deleted: list[AclShape]


def _filter(query: Any) -> dict[str, Any]:
    def number(kind: Any, name: str | None) -> int:
        return int(kind.ANY if name is None else kind[name.upper()])

    return {
        "resource_type_filter": number(Kind, query.resource_type),
        "resource_name_filter": query.resource_name,
        "pattern_type_filter": number(Pattern, query.pattern_type),
        "principal_filter": query.principal,
        "host_filter": query.host,
        "operation": number(Operation, query.operation),
        "permission_type": number(Permission, query.permission),
    }


def _acl(resource: Any, acl: Any) -> AclShape:
    return AclShape(
        resource_type=Kind(resource.resource_type).name.lower(),
        resource_name=resource.resource_name,
        pattern_type=Pattern(resource.pattern_type).name.lower(),
        principal=acl.principal,
        host=acl.host,
        operation=Operation(acl.operation).name.lower(),
        permission=Permission(acl.permission_type).name.lower(),
    )


async def list_acls(call: Call) -> Page[AclShape]:
    response = await call.send(DescribeAclsRequest(**_filter(call.query)))
    check(response.error_code, response.error_message)
    acls = ((resource, acl) for resource in response.resources for acl in resource.acls)
    found = [_acl(*each) async for each in sliced(acls)]
    return await page(found, _acl_key, call.query.limit, call.query.cursor)


def _acl_key(acl: AclShape) -> str:
    parts = (acl.resource_type, acl.resource_name, acl.pattern_type, acl.principal, acl.host, acl.operation)
    return "\0".join((*parts, acl.permission))


async def create_acls(call: Call) -> Page[AclShape]:
    kind = CreateAclsRequest.AclCreation
    creations = [
        kind(
            resource_type=Kind[each.resource_type.upper()],
            resource_name=_resource_name(each),
            resource_pattern_type=Pattern[each.pattern_type.upper()],
            principal=each.principal,
            host=each.host,
            operation=Operation[each.operation.upper()],
            permission_type=Permission[each.permission.upper()],
        )
        async for each in sliced(call.body.acls)
    ]
    response = await call.send(CreateAclsRequest(creations=creations))
    for outcome in response.results:
        check(outcome.error_code, outcome.error_message)
    made = [
        AclShape(
            resource_type=each.resource_type,
            resource_name=_resource_name(each),
            pattern_type=each.pattern_type,
            principal=each.principal,
            host=each.host,
            operation=each.operation,
            permission=each.permission,
        )
        async for each in sliced(call.body.acls)
    ]
    return Page(items=made)


def _resource_name(acl: NewAcl) -> str:
    if acl.resource_name is not None:
        return acl.resource_name
    if acl.resource_type != "cluster":
        raise invalid(f"Give the `resourceName` of the {acl.resource_type}; * stands for all.")
    return CLUSTER_NAME


async def delete_acls(call: Call) -> DeletedAcls:
    if all(getattr(call.query, name) is None for name in AclFilters.__struct_fields__):
        raise invalid("Give a parameter: without one, all ACLs would be deleted.")
    wanted = DeleteAclsRequest.DeleteAclsFilter(**_filter(call.query))
    response = await call.send(DeleteAclsRequest(filters=[wanted]))
    result = response.filter_results[0]
    check(result.error_code, result.error_message)
    return DeletedAcls(deleted=[_acl(each, each) async for each in sliced(result.matching_acls)])


# -- quotas ------------------------------------------------------------------------------------------------------------
class Quota(Answer, kw_only=True):
    user: str | UnsetType | None = UNSET  # null: the default user
    client_id: str | UnsetType | None = UNSET
    ip: str | UnsetType | None = UNSET
    values: dict[str, float]


class QuotaChange(Body):
    user: Text | UnsetType | None = UNSET
    client_id: Text | UnsetType | None = UNSET
    ip: Text | UnsetType | None = UNSET
    set: Annotated[dict[Text, float], Meta(max_length=16)] | UnsetType = UNSET
    delete: Annotated[list[Text], Meta(max_length=16)] | UnsetType = UNSET


ENTITIES = (("user", "user"), ("client_id", "client-id"), ("ip", "ip"))


async def list_quotas(call: Call) -> Page[Quota]:
    response = await call.send(DescribeClientQuotasRequest(components=[], strict=False))
    check(response.error_code, response.error_message)
    fields = {name: attribute for attribute, name in ENTITIES}
    found = []
    async for entry in sliced(response.entries or ()):
        entity = {fields[each.entity_type]: each.entity_name for each in entry.entity}
        found.append(Quota(**entity, values={each.key: each.value for each in entry.values}))
    return await page(found, _quota_key, call.query.limit, call.query.cursor)


def _quota_key(quota: Quota) -> str:
    return repr([getattr(quota, attribute) for attribute, _ in ENTITIES])


async def alter_quotas(call: Call) -> None:
    body: QuotaChange = call.body
    kind = AlterClientQuotasRequest.EntryData
    entity = [
        kind.EntityData(entity_type=name, entity_name=getattr(body, attribute))
        for attribute, name in ENTITIES
        if getattr(body, attribute) is not UNSET
    ]
    if not entity:
        raise invalid("Give `user`, `clientId` or `ip`; null stands for the default entity.")
    ops = [kind.OpData(key=key, value=value) for key, value in (body.set or {}).items()]
    ops += [kind.OpData(key=key, remove=True) for key in body.delete or ()]
    if not ops:
        raise invalid("The request changes nothing: give `set` or `delete`.")
    response = await call.send(AlterClientQuotasRequest(entries=[kind(entity=entity, ops=ops)]))
    check(response.entries[0].error_code, response.entries[0].error_message)


ROUTES = [
    Route(
        method="GET", path="/v1/users", handle=list_users, summary="List users", tag="security",
        query=PageQuery, answer=Page[User],
    ),
    Route(
        method="POST", path="/v1/users", handle=put_user, summary="Create a user, or change the password of a user", tag="security",
        body=NewUser, answer=User, status=201,
    ),
    Route(method="GET", path="/v1/users/{user}", handle=get_user, summary="Describe a user", tag="security", answer=User),
    Route(method="DELETE", path="/v1/users/{user}", handle=delete_user, summary="Delete a user", tag="security"),
    Route(
        method="GET", path="/v1/acls", handle=list_acls, summary="List ACLs", tag="security",
        query=AclsQuery, answer=Page[AclShape], problems=(409,),
    ),
    Route(
        method="POST", path="/v1/acls", handle=create_acls, summary="Create ACLs", tag="security",
        body=NewAcls, answer=Page[AclShape], status=201, problems=(409,),
    ),
    Route(
        method="DELETE", path="/v1/acls", handle=delete_acls, summary="Delete the ACLs that match", tag="security",
        query=AclFilters, answer=DeletedAcls, problems=(409,),
    ),
    Route(
        method="GET", path="/v1/quotas", handle=list_quotas, summary="List quotas", tag="security",
        query=PageQuery, answer=Page[Quota],
    ),
    Route(
        method="POST", path="/v1/quotas", handle=alter_quotas, summary="Set or delete quotas of a user, client or address",
        tag="security", body=QuotaChange,
    ),
]  # fmt: skip
