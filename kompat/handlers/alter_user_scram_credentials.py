"""AlterUserScramCredentials: make users, change their passwords, remove them.

The client sends a password hashed and salted; what is stored is derived from that, and cannot be turned back into it. Each user is changed
or refused on its own; a user that is named twice gets DUPLICATE_RESOURCE. A client that is logged in stays so until it has to re-authenticate.
"""

from __future__ import annotations

from typing import TypeAlias

from kompat.cluster.scram_users import Deletion, Upsertion
from kompat.errors import ErrorCode, KafkaError
from kompat.handlers.support.base import Context, Handler
from kompat.handlers.support.descriptions import describe
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
    users = dict.fromkeys([each.name for each in req.deletions] + [each.name for each in req.upsertions])
    return AlterUserScramCredentialsResponse(results=[_result(user, error) for user in users])


HANDLER = Handler(AlterUserScramCredentialsRequest, AlterUserScramCredentialsResponse, handle, failure)
