"""The error of a failed authentication."""

from __future__ import annotations

from kompat.errors import ErrorCode, KafkaError


class SaslFailure(KafkaError):  # noqa: N818 - its text is the client's error message
    """SASL_AUTHENTICATION_FAILED. Without a message the client learns only that its credentials are wrong."""

    def __init__(self, message: str = "") -> None:
        super().__init__(ErrorCode.SASL_AUTHENTICATION_FAILED, message)
