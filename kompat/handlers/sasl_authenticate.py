"""SaslAuthenticate (key 36, v0-2): a client's messages of the mechanism that it has named, and the broker's.

The last answer says for how long the login counts (v1+). Wrong credentials: SASL_AUTHENTICATION_FAILED after a while, and the
connection is closed. Where nobody has to say who it is: ILLEGAL_SASL_STATE.
"""

from __future__ import annotations

from kompat.errors import ErrorCode, KafkaError
from kompat.handlers.base import Api, Context, Versions
from kompat.handlers.descriptions import describe
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


API = Api(
    key=36,
    name="SaslAuthenticate",
    versions=Versions(0, 2),
    request=SaslAuthenticateRequest,
    response=SaslAuthenticateResponse,
    handle=handle,
    failure=failure,
)
