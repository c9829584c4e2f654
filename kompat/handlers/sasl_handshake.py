"""SaslHandshake (key 17, v0-1): by which mechanism a client will say who it is.

UNSUPPORTED_SASL_MECHANISM comes with those that are, and ends the connection. After v0 the client's messages come without
request headers. Where nobody has to say who it is: ILLEGAL_SASL_STATE, and where a login has been renewed less than a second ago.
"""

from __future__ import annotations

from kompat.errors import ErrorCode, KafkaError
from kompat.handlers.base import Api, Context, Versions
from kompat.protocol.messages import SaslHandshakeRequest, SaslHandshakeResponse


async def handle(ctx: Context, req: SaslHandshakeRequest) -> SaslHandshakeResponse:
    if ctx.sasl is None:
        raise KafkaError(ErrorCode.ILLEGAL_SASL_STATE)
    code = ErrorCode.NONE
    try:
        await ctx.sasl.begin(req.mechanism, has_bare_messages=ctx.api_version == 0)
    except KafkaError as error:
        code = error.code
    return SaslHandshakeResponse(error_code=code, mechanisms=list(ctx.sasl.mechanisms))


def failure(_: SaslHandshakeRequest, error: KafkaError) -> SaslHandshakeResponse:
    return SaslHandshakeResponse(error_code=error.code, mechanisms=[])


API = Api(
    key=17,
    name="SaslHandshake",
    versions=Versions(0, 1),
    request=SaslHandshakeRequest,
    response=SaslHandshakeResponse,
    handle=handle,
    failure=failure,
)
