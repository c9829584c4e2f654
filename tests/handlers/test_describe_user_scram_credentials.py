"""DescribeUserScramCredentials."""

from __future__ import annotations

from kompat.errors import ErrorCode
from tests.handlers.conftest import Asker
from tests.handlers.scram_users import SHA_256, SHA_512, alter, described, set_password


def test_users_are_made_described_and_removed(ask: Asker) -> None:
    assert alter(ask, set_password("ann"), set_password("ben", SHA_512, 8192)) == {"ann": 0, "ben": 0}
    assert alter(ask, set_password("ann", SHA_512, 5000)) == {"ann": 0}

    assert described(ask, "ann", "ben") == {"ann": {SHA_256: 4096, SHA_512: 5000}, "ben": {SHA_512: 8192}}
    assert described(ask).keys() >= {"ann", "ben"}

    assert alter(ask, remove=(("ann", SHA_256), ("ben", SHA_512))) == {"ann": 0, "ben": 0}
    assert described(ask, "ann", "ben") == {"ann": {SHA_512: 5000}, "ben": ErrorCode.RESOURCE_NOT_FOUND}
