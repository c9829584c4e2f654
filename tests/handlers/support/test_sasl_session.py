"""How a connection's client says who it is, and says it again."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kompat.clock import ManualClock
from kompat.errors import ErrorCode, KafkaError
from kompat.handlers.support.sasl_session import SaslSession, SaslSettings
from kompat.protocol.api_keys import ApiKey
from kompat.security.oauthbearer import Bearer, InvalidToken
from kompat.security.scram import Credential, Mechanism, credential, salted
from kompat.security.stand_ins import StandIns
from tests.security.scram_client import ScramClient

METADATA = 3
SCRAM = "SCRAM-SHA-256"
PASSWORDS = {"alice": "a", "bob": "b"}


class FewUsers:
    """In place of the cluster's."""

    def credential(self, mechanism: Mechanism, user: str) -> Credential:
        if user not in PASSWORDS:
            return StandIns(b"secret").of(mechanism, user)
        return credential(mechanism, salted(mechanism, PASSWORDS[user], b"salt", 16), b"salt", 16)

    async def verify(self, user: str, password: str) -> bool:
        await asyncio.sleep(0)
        return PASSWORDS.get(user) == password


class Door:
    def __init__(self, **settings: Any) -> None:
        self.clock = ManualClock()
        self.principals: list[str] = []
        self.failures = 0
        wanted = SaslSettings(**{"mechanisms": ("PLAIN", SCRAM), "failure_delay": 0.0, **settings})
        users: Any = FewUsers()
        self.session = SaslSession(wanted, users, self.clock, known=self.principals.append, failed=self._failed)

    def _failed(self, _: KafkaError) -> None:
        self.failures += 1

    async def plain(self, user: str, password: str) -> int:
        """Log in; for how many milliseconds it counts."""
        await self.session.begin("PLAIN", has_bare_messages=False)
        return (await self.session.respond(f"\0{user}\0{password}".encode())).lifetime_ms

    async def scram(self, user: str, password: str) -> int:
        await self.session.begin(SCRAM, has_bare_messages=False)
        client = ScramClient("sha256", user, password)
        last = client.final((await self.session.respond(client.first())).token)
        step = await self.session.respond(last)
        assert step.token == client.expected
        return step.lifetime_ms

    def admitted(self) -> set[int]:
        keys = (METADATA, ApiKey.SaslHandshake, ApiKey.ApiVersions, ApiKey.SaslAuthenticate)
        return {key for key in keys if self.session.admits(key)}


STRANGERS = {ApiKey.SaslHandshake, ApiKey.ApiVersions, ApiKey.SaslAuthenticate}
EVERYTHING = STRANGERS | {METADATA}


@pytest.mark.parametrize("way", [Door.plain, Door.scram])
async def test_who_shows_the_password_is_known_and_may_ask_everything(way: Any) -> None:
    door = Door()
    assert door.admitted() == STRANGERS

    assert await way(door, "alice", "a") == 0

    assert door.principals == ["User:alice"]
    assert door.admitted() == EVERYTHING


@pytest.mark.parametrize(
    ("way", "message"),
    [
        (Door.plain, "Authentication failed: Invalid username or password"),
        (
            Door.scram,
            "Authentication failed during authentication due to invalid credentials with SASL mechanism SCRAM-SHA-256",
        ),
    ],
)
@pytest.mark.parametrize("user", ["alice", "nobody"])
async def test_who_does_not_is_told_after_the_delay_and_never_heard_again(way: Any, message: str, user: str) -> None:
    door = Door(failure_delay=0.05)
    began = asyncio.get_running_loop().time()

    with pytest.raises(KafkaError) as raised:
        await way(door, user, "wrong")

    assert raised.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED
    assert raised.value.message == message
    assert asyncio.get_running_loop().time() - began >= 0.05
    assert door.failures == 1
    assert door.principals == []
    assert door.admitted() == set()


async def test_a_mechanism_that_is_not_enabled_is_the_end() -> None:
    door = Door(mechanisms=(SCRAM,))

    with pytest.raises(KafkaError) as raised:
        await door.plain("alice", "a")

    assert raised.value.code is ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert door.failures == 1


async def test_messages_before_a_handshake_are_the_end() -> None:
    door = Door()

    with pytest.raises(KafkaError) as raised:
        await door.session.respond(b"\0alice\0a")

    assert raised.value.code is ErrorCode.ILLEGAL_SASL_STATE
    assert door.failures == 1


async def test_users_of_the_settings_may_use_plain() -> None:
    door = Door(plain_users={"carol": "c"})

    await door.plain("carol", "c")

    assert door.principals == ["User:carol"]


async def test_a_login_that_counts_for_a_time_has_to_be_renewed() -> None:
    door = Door(lifetimes_ms={"PLAIN": 10_000})
    assert await door.plain("alice", "a") == 10_000

    door.clock.advance(9_999)
    assert door.admitted() == EVERYTHING
    door.clock.advance(1)
    assert door.admitted() == {ApiKey.SaslHandshake, ApiKey.SaslAuthenticate}

    await door.plain("alice", "a")
    assert door.admitted() == EVERYTHING
    assert door.failures == 0


async def test_a_login_by_token_counts_as_long_as_the_token_and_no_longer_than_logins_do() -> None:
    async def verify(_: str, now_ms: int) -> Bearer:
        return Bearer("alice", now_ms + 60_000)

    async def lifetime(most: int) -> int:
        door = Door(mechanisms=("OAUTHBEARER",), verify_token=verify, lifetimes_ms={"OAUTHBEARER": most})
        await door.session.begin("OAUTHBEARER", has_bare_messages=False)
        step = await door.session.respond(b"n,,\x01auth=Bearer a.b.c\x01\x01")
        assert door.principals == ["User:alice"]
        door.clock.advance(step.lifetime_ms)
        assert door.admitted() == {ApiKey.SaslHandshake, ApiKey.SaslAuthenticate}
        return step.lifetime_ms

    assert await lifetime(0) == 60_000
    assert await lifetime(5_000) == 5_000
    assert await lifetime(500_000) == 60_000


async def test_a_token_that_is_refused_is_answered_after_a_while_and_is_the_only_one() -> None:
    async def verify(*_: object) -> Bearer:
        raise InvalidToken

    door = Door(mechanisms=("OAUTHBEARER",), verify_token=verify, failure_delay=0.05)
    await door.session.begin("OAUTHBEARER", has_bare_messages=False)
    guess = b"n,,\x01auth=Bearer a.b.c\x01\x01"
    begun = asyncio.get_running_loop().time()

    assert b"invalid_token" in (await door.session.respond(guess)).token
    assert asyncio.get_running_loop().time() - begun >= 0.05
    with pytest.raises(KafkaError) as refused:
        await door.session.respond(guess)

    assert refused.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED
    assert door.failures == 1
    assert door.admitted() == set()


async def test_nobody_becomes_somebody_else() -> None:
    door = Door()
    await door.plain("alice", "a")
    door.clock.advance(2_000)

    with pytest.raises(
        KafkaError, match=r"Cannot change principals during re-authentication from User\.alice: User\.bob"
    ):
        await door.plain("bob", "b")

    assert door.principals == ["User:alice"]
    assert door.failures == 1


async def test_nobody_logs_in_again_by_another_mechanism() -> None:
    door = Door()
    await door.plain("alice", "a")
    door.clock.advance(2_000)

    with pytest.raises(KafkaError, match="not supported for re-authentication of mechanism 'PLAIN'"):
        await door.scram("alice", "a")

    assert door.failures == 1


async def test_nobody_renews_a_login_twice_within_a_second_but_is_not_thrown_out_for_it() -> None:
    door = Door()
    await door.plain("alice", "a")
    await door.plain("alice", "a")

    with pytest.raises(KafkaError) as raised:
        await door.plain("alice", "a")

    assert raised.value.code is ErrorCode.ILLEGAL_SASL_STATE
    assert door.failures == 0
    assert door.admitted() == EVERYTHING


async def test_messages_after_a_login_are_refused_but_not_the_end() -> None:
    door = Door()
    await door.plain("alice", "a")

    with pytest.raises(KafkaError) as raised:
        await door.session.respond(b"\0alice\0a")

    assert raised.value.code is ErrorCode.ILLEGAL_SASL_STATE
    assert door.failures == 0
