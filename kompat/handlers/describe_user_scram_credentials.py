"""DescribeUserScramCredentials: which SCRAM mechanisms users can log in with, and with how many iterations.

Salts and keys are not returned. A user that is named twice gets DUPLICATE_RESOURCE, an unknown one RESOURCE_NOT_FOUND; without
names all users are described.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from kompat.common.slices import sliced
from kompat.errors import KafkaError
from kompat.handlers.support.base import Context, Handler
from kompat.handlers.support.descriptions import describe
from kompat.handlers.support.parts import Cut
from kompat.protocol.messages import DescribeUserScramCredentialsRequest, DescribeUserScramCredentialsResponse
from kompat.security.acls import Kind, Operation
from kompat.security.scram import Credential, Mechanism

Result: TypeAlias = DescribeUserScramCredentialsResponse.DescribeUserScramCredentialsResult
Info: TypeAlias = DescribeUserScramCredentialsResponse.DescribeUserScramCredentialsResult.CredentialInfo


async def handle(ctx: Context, req: DescribeUserScramCredentialsRequest) -> DescribeUserScramCredentialsResponse:
    ctx.services.authorizer.require(ctx, Operation.DESCRIBE, Kind.CLUSTER)
    users = ctx.services.users
    if req.users:
        found = users.describe([user.name for user in req.users])
        results = [_result(name, outcome) for name, outcome in found.items()]
    else:
        results = [_result(name, users.credentials(name)) async for name in sliced(users.names())]
    return DescribeUserScramCredentialsResponse(results=results)


def _result(name: str, outcome: Mapping[Mechanism, Credential] | KafkaError) -> Result:
    if isinstance(outcome, KafkaError):
        return _refused(name, outcome)
    infos = [Info(mechanism=mechanism, iterations=known.iterations) for mechanism, known in sorted(outcome.items())]
    return Result(user=name, credential_infos=infos)


def _refused(name: str, error: KafkaError) -> Result:
    return Result(user=name, error_code=error.code, error_message=describe(error), credential_infos=[])


def failure(req: DescribeUserScramCredentialsRequest, error: KafkaError) -> DescribeUserScramCredentialsResponse:
    # As Kafka's: one for each user, without a name.
    return DescribeUserScramCredentialsResponse(
        error_code=error.code, error_message=describe(error), results=[_refused("", error) for _ in req.users or ()]
    )


HANDLER = Handler(
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    handle,
    failure,
    parts=(Cut("users", "results", key=lambda user: user.name),),
)
