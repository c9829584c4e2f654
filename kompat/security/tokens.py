"""Tokens (JWT, RFC 7519) and the keys that sign them (RFC 7517). They need PyJWT: the extra `kompat[oauth]`.

RSA (RS*, PS*), elliptic curves (ES*) and EdDSA are accepted. Unsigned tokens, and tokens signed by a shared secret (HS*), are
not: a key only verifies the algorithms of its own kind, whatever the token's header names.
Times are compared here, because PyJWT reads the clock itself and fails on numbers that are out of range.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from kompat.errors import ConfigError
from kompat.security.oauthbearer import Bearer, InvalidToken

SMALLEST_KEY, LARGEST_KEY = 2048, 8192  # bits of RSA: shorter keys can be broken, longer ones are slow to verify
LONGEST_KEY_ID = 1000  # characters
LATEST = 1 << 53  # seconds

# The algorithms of a key, by its kty and crv; the key itself may name one of them.
_ALGORITHMS: Mapping[tuple[Any, Any], tuple[str, ...]] = {
    ("RSA", None): ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    ("EC", "P-256"): ("ES256",),
    ("EC", "P-384"): ("ES384",),
    ("EC", "P-521"): ("ES512",),
    ("EC", "secp256k1"): ("ES256K",),
    ("OKP", "Ed25519"): ("EdDSA",),
    ("OKP", "Ed448"): ("EdDSA",),
}


class UnknownKey(InvalidToken):
    """No key has the id in the token; a newer key set may have it."""


@dataclass(frozen=True, slots=True)
class Key:
    public: Any  # a public key of `cryptography`
    algorithms: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRules:
    issuer: str | None = None
    audiences: Collection[str] = ()  # the token must have one of them; empty: any
    subject_claim: str = "sub"
    scope_claim: str = "scope"
    skew_seconds: int = 30


def read_token(token: str, keys: Mapping[str, Key], rules: TokenRules, now_ms: int) -> Bearer:
    """Verify a token. Raises InvalidToken, or its subclass UnknownKey."""
    claims = _claims(token, keys, rules)
    ends, now, skew = _seconds(claims, "exp"), now_ms / 1000, rules.skew_seconds
    if ends is None or now > ends + skew:
        raise InvalidToken("it has expired, or does not say when it does")
    begins = _seconds(claims, "nbf")
    if "nbf" in claims and (begins is None or now < begins - skew):
        raise InvalidToken("it is not valid yet")
    _check_scopes(claims.get(rules.scope_claim), rules.scope_claim)
    user = claims.get(rules.subject_claim)
    if not isinstance(user, str) or not user.strip():
        raise InvalidToken(f"it has no {rules.subject_claim}")
    return Bearer(user.strip(), int(ends * 1000))


def _claims(token: str, keys: Mapping[str, Key], rules: TokenRules) -> dict[str, Any]:
    """The claims of a token, after its signature, issuer and audience are verified."""
    try:
        key = _key_of(jwt.get_unverified_header(token), keys)
        found: dict[str, Any] = jwt.decode(
            token,
            key.public,
            algorithms=key.algorithms,
            options={
                "verify_exp": False,  # read_token checks the times and the subject
                "verify_nbf": False,
                "verify_iat": False,
                "verify_sub": False,
                "verify_jti": False,
                "verify_aud": bool(rules.audiences),
                "verify_iss": bool(rules.issuer),
            },
            audience=rules.audiences,
            issuer=rules.issuer,
        )
    except jwt.PyJWTError as wrong:
        raise InvalidToken(str(wrong)) from None
    return found


def _key_of(header: Mapping[str, Any], keys: Mapping[str, Key]) -> Key:
    kid = header.get("kid")
    if kid is None and len(keys) == 1:  # a single key need not be named
        return next(iter(keys.values()))
    key = keys.get(kid) if kid is not None else None
    if key is None and isinstance(kid, str) and len(kid) <= LONGEST_KEY_ID:
        raise UnknownKey("there is no key of its id")
    if key is None:
        raise InvalidToken("it does not name its key")
    return key


def _seconds(claims: Mapping[str, Any], name: str) -> float | None:
    """A time in seconds; None if it is out of range: Python's JSON parser accepts infinite numbers, too."""
    found = claims.get(name)
    if not isinstance(found, int | float) or isinstance(found, bool) or not abs(found) < LATEST:
        return None
    return float(found)


def _check_scopes(found: Any, claim: str) -> None:
    """As in Kafka: a string or a list of strings, none blank, none twice. Scopes grant nothing."""
    scopes = found if isinstance(found, list) else [found] if isinstance(found, str) else []
    names = [each.strip() for each in scopes if isinstance(each, str)]
    if not all(names) or len(set(names)) < len(scopes):
        raise InvalidToken(f"its {claim} is out of form")


# -- keys -------------------------------------------------------------------------------------------------------------
def parse_keys(setting: str, text: str | bytes) -> dict[str, Key]:
    """The signature keys of a JSON Web Key Set by id, without those of unknown types. Raises ConfigError."""
    try:
        found = {str(each.get("kid")): key for each in json.loads(text)["keys"] if (key := _key(each)) is not None}
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError):
        raise ConfigError(f"{setting}: it is not a JSON Web Key Set") from None
    if not found:
        raise ConfigError(f"{setting}: there is no public key for signatures in it")
    sizes = [key.public.key_size for key in found.values() if isinstance(key.public, RSAPublicKey)]
    if sizes and min(sizes) < SMALLEST_KEY:
        raise ConfigError(f"{setting}: a key has less than {SMALLEST_KEY} bits")
    if sizes and max(sizes) > LARGEST_KEY:
        raise ConfigError(f"{setting}: a key has more than {LARGEST_KEY} bits")
    return found


def _key(jwk: Mapping[str, Any]) -> Key | None:
    algorithms = _ALGORITHMS.get((jwk.get("kty"), jwk.get("crv")), ())
    named = jwk.get("alg")
    if named is not None:
        algorithms = tuple(each for each in algorithms if each == named)
    if not algorithms or jwk.get("use", "sig") != "sig":
        return None
    try:
        key = jwt.PyJWK(dict(jwk), algorithms[0]).key
    except jwt.PyJWTError:
        return None
    return Key(key.public_key() if hasattr(key, "public_key") else key, algorithms)
