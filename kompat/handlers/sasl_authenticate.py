"""SaslAuthenticate: a client's messages of the mechanism that it has named, and the broker's.

The last response has the session lifetime (v1+). Wrong credentials get SASL_AUTHENTICATION_FAILED after a delay, and the
connection is closed. On a listener without SASL: ILLEGAL_SASL_STATE.
"""

from __future__ import annotations

from kompat.errors import ErrorCode, KafkaError
from kompat.handlers.support.base import Context, Handler
from kompat.handlers.support.descriptions import describe
from kompat.protocol.messages import SaslAuthenticateRequest, SaslAuthenticateResponse


async def handle(ctx: Context, req: SaslAuthenticateRequest) -> SaslAuthenticateResponse:
    if ctx.sasl is None:
        raise KafkaError(
            ErrorCode.ILLEGAL_SASL_STATE, "SaslAuthenticate request received after successful authentication"
        )
    step = await ctx.sasl.respond(bytes(req.auth_bytes))
    return SaslAuthenticateResponse(
        error_code=ErrorCode.NONE, error_message="", auth_bytes=step.token, session_lifetime_ms=step.lifetime_ms
    )


def failure(_: SaslAuthenticateRequest, error: KafkaError) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(error_code=error.code, error_message=describe(error), auth_bytes=b"")


HANDLER = Handler(SaslAuthenticateRequest, SaslAuthenticateResponse, handle, failure)
