"""Tokens that say who somebody is, and those that only pretend to."""

from __future__ import annotations

import hashlib
import hmac
import json
from base64 import urlsafe_b64decode
from pathlib import Path
from time import perf_counter
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given, settings
from hypothesis import strategies as st

from kompat.errors import ConfigError
from kompat.security.oauthbearer import LONGEST_MESSAGE, Bearer, InvalidToken
from kompat.security.tokens import Key, TokenRules, UnknownKey, parse_keys, read_token
from tests.security.tokens import Issuer, encoded, written

NOW = 1_700_000_000  # seconds
SETTING = "sasl.oauthbearer.jwks.endpoint.url"
STRICT = TokenRules(issuer="us", audiences=("kompat",))


@pytest.fixture(scope="module")
def issuer(tmp_path_factory: pytest.TempPathFactory) -> Issuer:
    return Issuer(tmp_path_factory.mktemp("issuer"))


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Issuer:
    """Signs in no time."""
    return Issuer(tmp_path_factory.mktemp("quick"), kind="Ed25519")


def keys(*known: Issuer, **more: Any) -> dict[str, Key]:
    return parse_keys(SETTING, json.dumps({"keys": [each.jwk() | more for each in known]}))


def read(known: Issuer, token: str, rules: TokenRules = TokenRules()) -> Bearer:  # noqa: B008
    return read_token(token, keys(known), rules, NOW * 1000)


@pytest.mark.parametrize(
    ("kind", "algorithm"),
    [("RS", f"{family}{size}") for family in ("RS", "PS") for size in (256, 384, 512)]
    + [("ES256", "ES256"), ("ES384", "ES384"), ("ES512", "ES512"), ("Ed25519", "EdDSA"), ("Ed448", "EdDSA")],
)
def test_a_signed_token_names_its_bearer_until_it_ends(kind: str, algorithm: str, tmp_path: Path) -> None:
    known = Issuer(tmp_path, kind=kind)

    assert read(known, known.token(algorithm, sub="alice", exp=NOW + 60)) == Bearer("alice", (NOW + 60) * 1000)


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
        ({"sub": "alice", "exp": NOW + 60, "iss": "them"}, "(?i)issuer"),
        ({"sub": "alice", "exp": NOW + 60, "iss": ["us"]}, "(?i)issuer"),
        ({"sub": "alice", "exp": NOW + 60, "iss": "us"}, "aud"),
        ({"sub": "alice", "exp": NOW + 60, "iss": "us", "aud": ["x", "y"]}, "(?i)audience"),
        ({"sub": "alice", "exp": NOW + 60, "scope": " "}, "scope"),
        ({"sub": "alice", "exp": NOW + 60, "scope": ["a", "a"]}, "scope"),
        ({"sub": "alice", "exp": NOW + 60, "scope": ["a", 7]}, "scope"),
    ],
)
def test_a_token_that_does_not_hold_is_invalid(quick: Issuer, claims: dict[str, Any], reason: str) -> None:
    with pytest.raises(InvalidToken, match=reason):
        read(quick, quick.token(**claims), STRICT if "iss" in claims else TokenRules())


def test_a_token_may_be_for_several_and_name_its_bearer_by_another_claim(quick: Issuer) -> None:
    rules = TokenRules(issuer="us", audiences=("kompat",), subject_claim="email", scope_claim="scp")
    token = quick.token(iss="us", aud=["others", "kompat"], email="a@b.c", exp=NOW + 1, scp=["read", "write"], scope=7)

    assert read(quick, token, rules).user == "a@b.c"


def test_clocks_may_differ_a_little(quick: Issuer) -> None:
    assert read(quick, quick.token(sub="alice", exp=NOW - 30, nbf=NOW + 30)).user == "alice"


def test_only_who_has_the_key_can_sign(issuer: Issuer, tmp_path: Path) -> None:
    claims = {"sub": "admin", "exp": NOW + 60}
    good = issuer.token(**claims)
    head, body, signature = good.split(".")
    flipped = bytearray(urlsafe_b64decode(signature + "=="))
    flipped[-1] ^= 1
    forged = [
        Issuer(tmp_path).token(**claims),  # another key by the same name
        f"{written({'alg': 'none'})}.{body}.",
        f"{written({'alg': 'none', 'kid': issuer.kid})}.{body}.{signature}",
        f"{written({'alg': ['RS256'], 'kid': issuer.kid})}.{body}.{signature}",
        f"{written({'alg': 'HS256', 'kid': issuer.kid})}.{body}.{signature}",
        f"{head}.{written({**claims, 'sub': 'root'})}.{signature}",
        f"{head}.{body}.{encoded(bytes(flipped))}",
        f"{head}.{body}.",
        f"{head}.{body}.{encoded(bytes(256))}",
        f"{head}.{body}.{encoded(bytes(100_000))}",
        f"{head}.{body}",
        f"{good}.{signature}",
        issuer.token(kid="unknown", **claims),
        issuer.signed(written(claims), headers={"crit": ["x"], "x": 1}),
        issuer.signed(written(claims), headers={"b64": False, "crit": ["b64"]}),
    ]

    assert read(issuer, good).user == "admin"
    for token in forged:
        with pytest.raises(InvalidToken):
            read(issuer, token)


def test_a_public_key_is_nobodys_secret(issuer: Issuer) -> None:
    public = issuer.private.public_key()
    shapes = [
        public.public_bytes(encoding, PublicFormat.SubjectPublicKeyInfo) for encoding in (Encoding.PEM, Encoding.DER)
    ]
    for size in (256, 384, 512):
        signed = f"{written({'alg': f'HS{size}', 'kid': issuer.kid})}.{written({'sub': 'admin', 'exp': NOW + 60})}"
        for secret in (*shapes, json.dumps(issuer.jwk()).encode(), b""):
            signature = hmac.new(secret, signed.encode(), getattr(hashlib, f"sha{size}")).digest()
            with pytest.raises(InvalidToken):
                read(issuer, f"{signed}.{encoded(signature)}")


def test_a_key_checks_its_own_algorithms_only(issuer: Issuer) -> None:
    only = keys(issuer, alg="PS256")
    claims = {"sub": "alice", "exp": NOW + 60}

    assert read_token(issuer.token("PS256", **claims), only, TokenRules(), NOW * 1000).user == "alice"
    with pytest.raises(InvalidToken):
        read_token(issuer.token("RS256", **claims), only, TokenRules(), NOW * 1000)


def test_a_key_that_is_not_there_may_come_and_one_without_a_proper_name_cannot(quick: Issuer, tmp_path: Path) -> None:
    two = keys(quick, Issuer(tmp_path, "second", "Ed25519"))

    def attempt(**headers: Any) -> Bearer:
        token = quick.signed(written({"sub": "alice", "exp": NOW + 60}), headers=headers)
        return read_token(token, two, TokenRules(), NOW * 1000)

    assert attempt().user == "alice"
    with pytest.raises(UnknownKey):
        attempt(kid="newer")
    for odd in (None, 7, ["first"], "x" * 1001):
        with pytest.raises(InvalidToken) as refused:
            attempt(kid=odd)
        assert not isinstance(refused.value, UnknownKey)


WORDS = st.sampled_from(("RS256", "EdDSA", "alice", "us", "kompat", "first", ""))
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.just(10**400) | WORDS,
    lambda each: st.lists(each, max_size=3) | st.dictionaries(WORDS, each, max_size=3),
    max_leaves=5,
)
HEADERS = ("alg", "kid", "crit", "b64", "typ", "jwk")


@settings(deadline=None)
@given(header=st.dictionaries(st.sampled_from(HEADERS), anything))
def test_a_header_out_of_form_makes_an_invalid_token_and_no_trouble(issuer: Issuer, header: dict[str, Any]) -> None:
    token = f"{written(header)}.{written({'sub': 'alice', 'exp': NOW + 60})}.{encoded(bytes(256))}"

    with pytest.raises(InvalidToken):
        read(issuer, token)


CLAIMS = st.sampled_from(("exp", "nbf", "iat", "jti", "iss", "aud", "sub", "scope"))


@settings(deadline=None)
@given(claims=st.dictionaries(CLAIMS, anything))
def test_claims_out_of_form_make_an_invalid_token_and_no_trouble(quick: Issuer, claims: dict[str, Any]) -> None:
    with pytest.raises(
        InvalidToken
    ):  # none that is drawn has a time that is still to come, and all else that is asked for
        read(quick, quick.token(**{**claims, "exp": claims.get("exp", 0)}), STRICT)


@pytest.mark.parametrize("odd", [float("inf"), float("-inf"), float("nan"), 10**400, -(10**400), 1e308, "1", [NOW * 2]])
@pytest.mark.parametrize("claim", ["exp", "nbf"])
def test_a_time_that_no_clock_shows_is_none(quick: Issuer, odd: object, claim: str) -> None:
    with pytest.raises(InvalidToken, match=r"expired|not valid yet"):
        read(quick, quick.token(**{"sub": "alice", "exp": NOW + 60, claim: odd}))


@pytest.mark.parametrize(
    "payload", [b"[" * 20_000, b'{"a":' * 5_000, b'{"exp":' + b"9" * 20_000 + b"}", b"\xff", b"", b"[]"]
)
def test_a_payload_that_is_no_object_or_endless_is_invalid(quick: Issuer, payload: bytes) -> None:
    header = written({"alg": "EdDSA", "kid": "first"})
    for token in (quick.signed(encoded(payload)), f"{encoded(payload)}.e30.e30", f"{header}.{encoded(payload)}.e30"):
        with pytest.raises(InvalidToken):
            read(quick, token)


def test_the_longest_token_is_checked_in_less_than_a_slice_of_the_event_loop(tmp_path: Path) -> None:
    slowest = Issuer(tmp_path)
    slowest.private = rsa.generate_private_key(65537, 4096)
    known = keys(slowest)
    token = slowest.token("PS512", sub="alice", exp=NOW + 60, more="x" * (LONGEST_MESSAGE * 3 // 4 - 1500))
    assert LONGEST_MESSAGE * 0.9 < len(token) < LONGEST_MESSAGE

    def seconds() -> float:
        begun = perf_counter()
        read_token(token, known, TokenRules(), NOW * 1000)
        return perf_counter() - begun

    assert min(seconds() for _ in range(10)) < 0.01


@settings(deadline=None)
@given(st.lists(st.text(st.characters(codec="ascii"), max_size=30), min_size=3, max_size=3))
def test_no_made_up_token_is_taken(quick: Issuer, parts: list[str]) -> None:
    for token in (".".join(encoded(part.encode()) for part in parts), ".".join(parts)):
        with pytest.raises(InvalidToken):
            read(quick, token)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[]",
        "[" * 100_000,
        '{"keys": []}',
        '{"keys": [7]}',
        '{"keys": {"kty": "RSA"}}',
        '{"keys": [{"kty": "RSA"}]}',
        '{"keys": [{"kty": "RSA", "n": "AQAB", "e": 7}]}',
        '{"keys": [{"kty": "EC"}]}',
        '{"keys": [{"kty": ["EC"]}]}',
        '{"keys": [{"kty": "EC", "crv": "P-256", "x": "AQAB", "y": "AQAB"}]}',
        '{"keys": [{"kty": "oct", "k": "AQAB"}]}',
    ],
)
def test_a_set_of_keys_out_of_form_stops_the_start(text: str) -> None:
    with pytest.raises(ConfigError, match=r"sasl\.oauthbearer"):
        parse_keys(SETTING, text)


def test_a_short_key_stops_the_start_and_so_does_one_that_takes_long() -> None:
    for size, reason in ((128, "less than 2048 bits"), (1025, "more than 8192 bits")):
        odd = {"kty": "RSA", "kid": "k", "n": encoded(b"\xff" * size), "e": "AQAB"}
        with pytest.raises(ConfigError, match=reason):
            parse_keys(SETTING, json.dumps({"keys": [odd]}))


def test_keys_for_other_things_are_left_out_and_private_ones_made_public(quick: Issuer) -> None:
    others = [{"kty": "oct", "k": "AQAB"}, {**quick.jwk(), "use": "enc"}, {**quick.jwk(), "alg": "ES256"}]
    private = {**quick.jwk(), "d": encoded(quick.private.private_bytes_raw())}

    found = parse_keys(SETTING, json.dumps({"keys": [*others, private]}))

    assert read_token(quick.token(sub="alice", exp=NOW + 60), found, TokenRules(), NOW * 1000).user == "alice"
    assert not hasattr(found["first"].public, "sign")
