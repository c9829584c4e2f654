"""Why somebody is not let in."""

from __future__ import annotations

from kompat.errors import ErrorCode, KafkaError


class SaslFailure(KafkaError):  # noqa: N818 - it is what the client is told
    """SASL_AUTHENTICATION_FAILED. Without a message the client is told no more than that its credentials are wrong."""

    def __init__(self, message: str = "") -> None:
        super().__init__(ErrorCode.SASL_AUTHENTICATION_FAILED, message)
