"""AlterUserScramCredentials."""

from __future__ import annotations

from kompat.errors import ErrorCode
from tests.handlers.conftest import Asker
from tests.handlers.scram_users import SHA_256, SHA_512, alter, described, set_password


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
