"""AlterUserScramCredentials (key 51, v0): make users, change their passwords, remove them.

The client sends a password hashed and salted; what is kept is made of that, and cannot be turned back into it. Each user is changed
or refused on its own; named twice: DUPLICATE_RESOURCE. Who is logged in stays so until it has to log in again.
"""

from __future__ import annotations

from typing import TypeAlias

from kompat.cluster.scram_users import Deletion, Upsertion
from kompat.errors import ErrorCode, KafkaError
from kompat.handlers.base import Api, Context, Versions
from kompat.handlers.descriptions import describe
from kompat.protocol.messages import AlterUserScramCredentialsRequest, AlterUserScramCredentialsResponse
from kompat.security.acls import Kind, Operation
from kompat.security.scram import Credential, Mechanism, credential

Result: TypeAlias = AlterUserScramCredentialsResponse.AlterUserScramCredentialsResult
Wanted: TypeAlias = AlterUserScramCredentialsRequest.ScramCredentialUpsertion

NO_CREDENTIAL = Credential(b"", b"", b"", 0)


async def handle(ctx: Context, req: AlterUserScramCredentialsRequest) -> AlterUserScramCredentialsResponse:
    ctx.services.authorizer.require(ctx, Operation.ALTER, Kind.CLUSTER)
    outcomes = await ctx.services.users.alter(
        [Deletion(each.name, each.mechanism) for each in req.deletions],
        [Upsertion(each.name, each.mechanism, _credential(each)) for each in req.upsertions],
    )
    return AlterUserScramCredentialsResponse(results=[_result(user, error) for user, error in outcomes.items()])


def _credential(wanted: Wanted) -> Credential:
    if wanted.mechanism not in set(Mechanism):  # it will be refused
        return NO_CREDENTIAL
    mechanism = Mechanism(wanted.mechanism)
    return credential(mechanism, bytes(wanted.salted_password), bytes(wanted.salt), wanted.iterations)


def _result(user: str, error: KafkaError | None) -> Result:
    if error is None:
        return Result(user=user, error_code=ErrorCode.NONE, error_message=None)
    return Result(user=user, error_code=error.code, error_message=describe(error))


def failure(req: AlterUserScramCredentialsRequest, error: KafkaError) -> AlterUserScramCredentialsResponse:
    users = dict.fromkeys(each.name for each in (*req.deletions, *req.upsertions))
    return AlterUserScramCredentialsResponse(results=[_result(user, error) for user in users])


API = Api(
    key=51,
    name="AlterUserScramCredentials",
    versions=Versions(0, 0),
    request=AlterUserScramCredentialsRequest,
    response=AlterUserScramCredentialsResponse,
    handle=handle,
    failure=failure,
)
