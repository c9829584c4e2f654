"""The messages that carry a token."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kompat.security.failure import SaslFailure
from kompat.security.oauthbearer import Bearer, BearerConversation, InvalidToken

NOW = 1_700_000_000_000  # ms
ALICE = Bearer("alice", NOW + 60_000)


async def verify(token: str, now_ms: int) -> Bearer:
    if token != "good" or now_ms != NOW:  # noqa: S105
        raise InvalidToken("no")
    return ALICE


def message(token: str, authorization: str = "") -> bytes:
    return f"n,{authorization},\x01auth=Bearer {token}\x01\x01".encode()


async def test_a_good_token_names_its_bearer_until_it_ends() -> None:
    talk = BearerConversation(verify)

    assert await talk.respond(message("good"), NOW) == b""

    assert talk.bearer == ALICE


async def test_a_client_hears_why_and_then_the_end() -> None:
    talk = BearerConversation(verify)

    assert json.loads(await talk.respond(message("a.b.c"), NOW)) == {"status": "invalid_token"}
    assert talk.bearer is None
    with pytest.raises(SaslFailure, match="invalid_token"):
        await talk.respond(b"\x01", NOW)


async def test_a_client_has_one_token_to_show() -> None:
    talk = BearerConversation(verify)
    await talk.respond(message("a.b.c"), NOW)

    with pytest.raises(SaslFailure, match="invalid_token"):
        await talk.respond(message("good"), NOW)
    assert talk.bearer is None


async def test_a_message_that_no_token_needs_is_refused_before_it_is_read() -> None:
    with pytest.raises(SaslFailure) as refused:
        await BearerConversation(verify).respond(message("a" * 40_000), NOW)
    assert not refused.value.message


async def test_nobody_may_ask_to_be_somebody_else() -> None:
    with pytest.raises(SaslFailure, match="different from the token's principal name"):
        await BearerConversation(verify).respond(message("good", "a=bob"), NOW)
    talk = BearerConversation(verify)
    await talk.respond(message("good", "a=alice"), NOW)
    assert talk.bearer == ALICE


@settings(deadline=None)
@given(st.one_of(st.binary(max_size=60), st.text(max_size=60).map(lambda text: message(text))))
async def test_whatever_comes_is_refused_and_breaks_nothing(sent: bytes) -> None:
    talk = BearerConversation(verify)
    try:
        answer = await talk.respond(sent, NOW)
    except SaslFailure:
        return
    assert b"invalid_token" in answer
    assert talk.bearer is None
