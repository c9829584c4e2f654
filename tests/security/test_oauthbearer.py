"""Tokens that say who somebody is, and those that only pretend to."""

from __future__ import annotations

import json
import shutil
from base64 import urlsafe_b64decode
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kompat.errors import ConfigError
from kompat.security.failure import SaslFailure
from kompat.security.oauthbearer import (
    BearerConversation,
    InvalidToken,
    PublicKey,
    TokenRules,
    parse_keys,
    read_token,
)
from tests.security.tokens import Issuer, encoded, written

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="signs with openssl")
NOW = 1_700_000_000  # seconds
SETTING = "sasl.oauthbearer.jwks.endpoint.url"


@pytest.fixture(scope="module")
def issuer(tmp_path_factory: pytest.TempPathFactory) -> Issuer:
    return Issuer(tmp_path_factory.mktemp("issuer"))


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Issuer:
    return Issuer(tmp_path_factory.mktemp("stranger"))


def rules(known: Issuer, **more: Any) -> TokenRules:
    return TokenRules(keys=parse_keys(SETTING, known.keys.read_text()), **more)


def said(token: str, authorization: str = "") -> bytes:
    return f"n,{authorization},\x01auth=Bearer {token}\x01\x01".encode()


@pytest.mark.parametrize("algorithm", ["RS256", "RS384", "RS512"])
def test_a_signed_token_names_its_bearer_until_it_ends(issuer: Issuer, algorithm: str) -> None:
    token = issuer.token(algorithm, sub="alice", exp=NOW + 60)
    talk = BearerConversation(rules(issuer))

    assert talk.respond(said(token), NOW * 1000) == b""

    assert talk.bearer is not None
    assert (talk.bearer.user, talk.bearer.ends_ms) == ("alice", (NOW + 60) * 1000)


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ({"sub": "alice"}, "expired"),
        ({"sub": "alice", "exp": NOW - 31}, "expired"),
        ({"sub": "alice", "exp": True}, "expired"),
        ({"sub": "alice", "exp": NOW + 60, "nbf": NOW + 31}, "not valid yet"),
        ({"exp": NOW + 60}, "no sub"),
        ({"sub": " ", "exp": NOW + 60}, "no sub"),
        ({"sub": 7, "exp": NOW + 60}, "no sub"),
        ({"sub": "alice", "exp": NOW + 60, "iss": "them"}, "issued"),
        ({"sub": "alice", "exp": NOW + 60, "iss": "us"}, "meant for others"),
        ({"sub": "alice", "exp": NOW + 60, "iss": "us", "aud": ["x", "y"]}, "meant for others"),
    ],
)
def test_a_token_that_does_not_hold_is_invalid(issuer: Issuer, claims: dict[str, Any], reason: str) -> None:
    strict = rules(issuer, issuer="us", audiences=frozenset({"kompat"})) if "iss" in claims else rules(issuer)

    with pytest.raises(InvalidToken, match=reason):
        read_token(issuer.token(**claims), strict, NOW * 1000)


def test_a_token_may_be_for_several_and_name_its_bearer_by_another_claim(issuer: Issuer) -> None:
    strict = rules(issuer, issuer="us", audiences=frozenset({"kompat"}), subject_claim="email")
    token = issuer.token(iss="us", aud=["others", "kompat"], email="a@b.c", exp=NOW + 1)

    assert read_token(token, strict, NOW * 1000).user == "a@b.c"


def test_only_who_has_the_key_can_sign(issuer: Issuer, stranger: Issuer) -> None:
    claims = {"sub": "admin", "exp": NOW + 60}
    good = issuer.token(**claims)
    head, body, signature = good.split(".")
    flipped = bytearray(urlsafe_b64decode(signature + "=="))
    flipped[-1] ^= 1
    forged = [
        stranger.token(**claims),  # another key by the same name
        f"{written({'alg': 'none'})}.{body}.",
        f"{written({'alg': 'HS256', 'kid': issuer.kid})}.{body}.{signature}",
        f"{head}.{written({**claims, 'sub': 'root'})}.{signature}",
        f"{head}.{body}.{encoded(bytes(flipped))}",
        f"{head}.{body}.",
        f"{head}.{body}.{encoded(bytes(256))}",
        f"{head}.{body}.{encoded(bytes(100_000))}",
        issuer.token(kid="unknown", **claims),
    ]

    assert read_token(good, rules(issuer), NOW * 1000).user == "admin"
    for token in forged:
        with pytest.raises(InvalidToken):
            read_token(token, rules(issuer), NOW * 1000)


def test_a_client_hears_why_and_then_the_end(issuer: Issuer) -> None:
    talk = BearerConversation(rules(issuer))

    assert json.loads(talk.respond(said("a.b.c"), NOW * 1000)) == {"status": "invalid_token"}
    assert talk.bearer is None
    with pytest.raises(SaslFailure, match="invalid_token"):
        talk.respond(b"\x01", NOW * 1000)


def test_a_client_has_one_token_to_show(issuer: Issuer) -> None:
    talk = BearerConversation(rules(issuer))
    talk.respond(said("a.b.c"), NOW * 1000)

    with pytest.raises(SaslFailure, match="invalid_token"):
        talk.respond(said(issuer.token(sub="alice", exp=NOW + 60)), NOW * 1000)
    assert talk.bearer is None


def test_a_message_that_no_token_needs_is_refused_before_it_is_read(issuer: Issuer) -> None:
    with pytest.raises(SaslFailure) as refused:
        BearerConversation(rules(issuer)).respond(said("a" * 70_000), NOW * 1000)
    assert not refused.value.message


WORDS = st.sampled_from(("RS256", "alice", "us", "kompat", ""))
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.just(10**400) | WORDS,
    lambda each: st.lists(each, max_size=3) | st.dictionaries(WORDS, each, max_size=3),
    max_leaves=5,
)


@given(header=st.fixed_dictionaries({}, optional={"alg": anything, "kid": anything}))
def test_a_header_out_of_form_makes_an_invalid_token_and_no_trouble(issuer: Issuer, header: dict[str, Any]) -> None:
    token = f"{written(header)}.{written({'sub': 'alice', 'exp': NOW + 60})}.{encoded(bytes(256))}"

    with pytest.raises(InvalidToken):
        read_token(token, rules(issuer), NOW * 1000)


names = st.sampled_from(("exp", "nbf", "iss", "aud", "sub"))


@given(claims=st.dictionaries(names, anything))
def test_claims_out_of_form_make_an_invalid_token_and_no_trouble(issuer: Issuer, claims: dict[str, Any]) -> None:
    strict = rules(issuer, issuer="us", audiences=frozenset({"kompat"}))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("kompat.security.oauthbearer._check_signature", lambda *_: None)  # openssl is slow to sign
        with pytest.raises(InvalidToken):
            read_token(f"{written({})}.{written(claims)}.", strict, NOW * 1000)
        for odd in (float("inf"), float("nan"), 10**400, -(10**400)):
            with pytest.raises(InvalidToken, match="expired"):
                read_token(f"{written({})}.{written({'sub': 'alice', 'exp': odd})}.", rules(issuer), NOW * 1000)


def test_nobody_may_ask_to_be_somebody_else(issuer: Issuer) -> None:
    token = issuer.token(sub="alice", exp=NOW + 60)

    with pytest.raises(SaslFailure, match="different from the token's principal name"):
        BearerConversation(rules(issuer)).respond(said(token, "a=bob"), NOW * 1000)
    talk = BearerConversation(rules(issuer))
    talk.respond(said(token, "a=alice"), NOW * 1000)
    assert talk.bearer is not None


KEYS = TokenRules(keys={"k": PublicKey(2**2048 - 159, 65537)})


@settings(deadline=None)
@given(st.one_of(st.binary(max_size=60), st.text(max_size=60).map(lambda text: said(text))))
def test_whatever_comes_is_refused_and_breaks_nothing(message: bytes) -> None:
    talk = BearerConversation(KEYS)
    try:
        answer = talk.respond(message, NOW * 1000)
    except SaslFailure:
        return
    assert b"invalid_token" in answer
    assert talk.bearer is None


@settings(deadline=None)
@given(st.lists(st.text(st.characters(codec="ascii"), max_size=30), min_size=3, max_size=3))
def test_no_made_up_token_is_taken(parts: list[str]) -> None:
    with pytest.raises(InvalidToken):
        read_token(".".join(encoded(part.encode()) for part in parts), KEYS, NOW * 1000)


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '{"keys": []}', '{"keys": [{"kty": "RSA"}]}', '{"keys": [{"kty": "EC"}]}']
)
def test_a_set_of_keys_out_of_form_stops_the_start(text: str) -> None:
    with pytest.raises(ConfigError, match=r"sasl\.oauthbearer"):
        parse_keys(SETTING, text)


def test_a_short_key_stops_the_start() -> None:
    short = {"kty": "RSA", "kid": "k", "n": encoded(b"\xff" * 128), "e": "AQAB"}
    with pytest.raises(ConfigError, match="less than 2048 bits"):
        parse_keys(SETTING, json.dumps({"keys": [short]}))
