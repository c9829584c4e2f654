"""SaslHandshake: the mechanism by which a client will authenticate.

UNSUPPORTED_SASL_MECHANISM is returned with the supported ones, and ends the connection. After v0 the client's messages have no
request headers. On a listener without SASL: ILLEGAL_SASL_STATE, and where the last re-authentication is less than a second ago.
"""

from __future__ import annotations

from kompat.errors import ErrorCode, KafkaError
from kompat.handlers.support.base import Context, Handler
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


HANDLER = Handler(SaslHandshakeRequest, SaslHandshakeResponse, handle, failure)
