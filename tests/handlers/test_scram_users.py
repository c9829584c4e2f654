"""DescribeUserScramCredentials, AlterUserScramCredentials, and SASL where nobody asks for it."""

from __future__ import annotations

from typing import Any

from kompat.errors import ErrorCode

from .conftest import Asker

SHA_256, SHA_512 = 1, 2


def set_password(name: str, mechanism: int = SHA_256, iterations: int = 4096) -> dict[str, Any]:
    return {
        "name": name,
        "mechanism": mechanism,
        "iterations": iterations,
        "salt": b"salt",
        "salted_password": b"salted",
    }


def alter(ask: Asker, *upsertions: dict[str, Any], remove: tuple[tuple[str, int], ...] = ()) -> dict[str, int]:
    deletions = [{"name": name, "mechanism": mechanism} for name, mechanism in remove]
    answer = ask("AlterUserScramCredentials", 0, deletions=deletions, upsertions=list(upsertions))
    return {result.user: result.error_code for result in answer.results}


def described(ask: Asker, *names: str) -> dict[str, Any]:
    users = [{"name": name} for name in names] or None
    answer = ask("DescribeUserScramCredentials", 0, users=users)
    assert answer.error_code == 0
    return {
        result.user: result.error_code or {info.mechanism: info.iterations for info in result.credential_infos}
        for result in answer.results
    }


def test_users_are_made_described_and_removed(ask: Asker) -> None:
    assert alter(ask, set_password("ann"), set_password("ben", SHA_512, 8192)) == {"ann": 0, "ben": 0}
    assert alter(ask, set_password("ann", SHA_512, 5000)) == {"ann": 0}

    assert described(ask, "ann", "ben") == {"ann": {SHA_256: 4096, SHA_512: 5000}, "ben": {SHA_512: 8192}}
    assert described(ask).keys() >= {"ann", "ben"}

    assert alter(ask, remove=(("ann", SHA_256), ("ben", SHA_512))) == {"ann": 0, "ben": 0}
    assert described(ask, "ann", "ben") == {"ann": {SHA_512: 5000}, "ben": ErrorCode.RESOURCE_NOT_FOUND}


def test_each_user_is_refused_for_itself(ask: Asker) -> None:
    outcomes = alter(
        ask,
        set_password("cat", 9),
        set_password("dan", iterations=1),
        set_password("eve"),
        set_password("eve", SHA_512),
        set_password("fay"),
        remove=(("gus", SHA_256),),
    )

    assert outcomes == {
        "cat": ErrorCode.UNSUPPORTED_SASL_MECHANISM,
        "dan": ErrorCode.UNACCEPTABLE_CREDENTIAL,
        "eve": ErrorCode.DUPLICATE_RESOURCE,
        "fay": 0,
        "gus": ErrorCode.RESOURCE_NOT_FOUND,
    }
    assert described(ask, "fay", "fay") == {"fay": ErrorCode.DUPLICATE_RESOURCE}


def test_nobody_logs_in_where_nobody_has_to(ask: Asker) -> None:
    for version in (0, 1):
        assert ask("SaslHandshake", version, mechanism="PLAIN").error_code == ErrorCode.ILLEGAL_SASL_STATE
    for version in (0, 1, 2):
        answer = ask("SaslAuthenticate", version, auth_bytes=b"\0alice\0a")
        assert answer.error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert answer.error_message == "SaslAuthenticate request received after successful authentication"
