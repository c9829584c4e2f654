"""DescribeUserScramCredentials (key 50, v0): which SCRAM mechanisms users can log in with, and how slow their hashes are.

Salts and keys are not told. Named twice: DUPLICATE_RESOURCE; not there: RESOURCE_NOT_FOUND; none named: all users.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from kompat.errors import KafkaError
from kompat.handlers.base import Api, Context, Versions
from kompat.handlers.descriptions import describe
from kompat.handlers.parts import Cut
from kompat.protocol.messages import DescribeUserScramCredentialsRequest, DescribeUserScramCredentialsResponse
from kompat.security.acls import Kind, Operation
from kompat.security.scram import Credential, Mechanism
from kompat.slices import sliced

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


API = Api(
    key=50,
    name="DescribeUserScramCredentials",
    versions=Versions(0, 0),
    request=DescribeUserScramCredentialsRequest,
    response=DescribeUserScramCredentialsResponse,
    handle=handle,
    failure=failure,
    parts=(Cut("users", "results", key=lambda user: user.name),),
)
