"""SaslHandshake and SaslAuthenticate where the listener does not require authentication."""

from __future__ import annotations

from kompat.errors import ErrorCode
from tests.handlers.conftest import Asker


def test_nobody_logs_in_where_nobody_has_to(ask: Asker) -> None:
    for version in (0, 1):
        assert ask("SaslHandshake", version, mechanism="PLAIN").error_code == ErrorCode.ILLEGAL_SASL_STATE
    for version in (0, 1, 2):
        answer = ask("SaslAuthenticate", version, auth_bytes=b"\0alice\0a")
        assert answer.error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert answer.error_message == "SaslAuthenticate request received after successful authentication"
