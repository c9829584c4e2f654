"""Users' SCRAM credentials, described and altered by request."""

from __future__ import annotations

from typing import Any

from tests.handlers.conftest import Asker

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
