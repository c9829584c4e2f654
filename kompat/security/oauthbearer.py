"""SASL OAUTHBEARER (RFC 7628): a token that somebody else has signed says who the client is, and for how long.

Tokens are JWTs (RFC 7519) signed by RSA with SHA-2 (RS256, RS384, RS512). Those without a signature, and those under secrets
that both sides would have to know, are not taken.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from base64 import urlsafe_b64decode
from binascii import Error as NotBase64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kompat.errors import ConfigError
from kompat.security.failure import SaslFailure

MECHANISM = "OAUTHBEARER"
INVALID = '{"status":"invalid_token"}'
SMALLEST_KEY = 2048  # bits
LATEST = 1 << 53  # seconds
LONGEST_MESSAGE = 65536  # tokens are a few kilobytes; reading one takes time

_SAID = r"n,(?:a=(?P<authzid>(?:[^=,\x00]|=2C|=3D)+))?,\x01(?P<pairs>(?:[A-Za-z]+=[^\x01]+\x01)*)\x01"
_AUTH = r"(?:^|\x01)auth=(?i:bearer) +(?P<token>[-_~+/.a-zA-Z0-9]+=*)\x01"
# What stands before a hash in a signature (RFC 8017, 9.2), by algorithm.
_DIGESTS = {
    "RS256": ("sha256", bytes.fromhex("3031300d060960864801650304020105000420")),
    "RS384": ("sha384", bytes.fromhex("3041300d060960864801650304020205000430")),
    "RS512": ("sha512", bytes.fromhex("3051300d060960864801650304020305000440")),
}


class InvalidToken(Exception):  # noqa: N818 - it is what the client is told
    """The reason is for the log; the client hears that its token is invalid."""


@dataclass(frozen=True, slots=True)
class PublicKey:
    modulus: int
    exponent: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRules:
    keys: Mapping[str, PublicKey]  # by their ids
    issuer: str | None = None
    audiences: frozenset[str] = frozenset()  # one of them has to be meant; empty: any
    subject_claim: str = "sub"
    skew_seconds: int = 30


@dataclass(frozen=True, slots=True)
class Bearer:
    """Who a token speaks of."""

    user: str
    ends_ms: int


@dataclass(slots=True)
class BearerConversation:
    """One client's way to be known by a token: accepted at once, or refused at its second message, whatever that is."""

    rules: TokenRules
    bearer: Bearer | None = None  # once it is proved
    why: str = ""  # it was refused
    is_refused: bool = False

    def respond(self, message: bytes, now_ms: int) -> bytes:
        """The answer to the client's next message. Raises SaslFailure."""
        if self.is_refused:  # the client has seen why; another token would be a guess
            raise SaslFailure(INVALID)
        if len(message) > LONGEST_MESSAGE:
            raise SaslFailure
        authorization, token = _said(message)
        try:
            bearer = read_token(token, self.rules, now_ms)
        except InvalidToken as wrong:
            self.is_refused, self.why = True, str(wrong)
            return INVALID.encode()
        if authorization not in ("", bearer.user):
            raise SaslFailure(
                f"Authentication failed: Client requested an authorization id ({authorization}) that is different from the"
                f" token's principal name ({bearer.user})"
            )
        self.bearer = bearer
        return b""


def _said(message: bytes) -> tuple[str, str]:
    """The authorization id, if any, and the token."""
    try:
        found = re.fullmatch(_SAID, message.decode())
    except UnicodeDecodeError:
        raise SaslFailure from None
    auth = re.search(_AUTH, found["pairs"]) if found is not None else None
    if found is None or auth is None:
        raise SaslFailure
    return (found["authzid"] or "").replace("=2C", ",").replace("=3D", "="), auth["token"]


# -- tokens -----------------------------------------------------------------------------------------------------------
def read_token(token: str, rules: TokenRules, now_ms: int) -> Bearer:
    """Raises InvalidToken."""
    parts = token.split(".")
    if len(parts) != 3:
        raise InvalidToken("it is not of three parts")
    header, claims = _object(parts[0]), _object(parts[1])
    _check_signature(header, f"{parts[0]}.{parts[1]}".encode(), _bytes(parts[2]), rules.keys)
    ends = _seconds(claims, "exp")
    skew = rules.skew_seconds
    if ends is None or now_ms / 1000 > ends + skew:
        raise InvalidToken("it has expired, or does not say when it does")
    begins = _seconds(claims, "nbf")
    if "nbf" in claims and (begins is None or now_ms / 1000 < begins - skew):
        raise InvalidToken("it is not valid yet")
    if rules.issuer and claims.get("iss") != rules.issuer:
        raise InvalidToken("somebody else has issued it")
    if rules.audiences and not rules.audiences & _audiences(claims):
        raise InvalidToken("it is meant for others")
    user = claims.get(rules.subject_claim)
    if not isinstance(user, str) or not user.strip():
        raise InvalidToken(f"it has no {rules.subject_claim}")
    return Bearer(user.strip(), int(ends * 1000))


def _check_signature(header: Mapping[str, Any], signed: bytes, signature: bytes, keys: Mapping[str, PublicKey]) -> None:
    algorithm = header.get("alg")
    if not isinstance(algorithm, str) or algorithm not in _DIGESTS:
        raise InvalidToken("its algorithm is not taken")
    kid = header.get("kid")
    # Where there is one key only, it need not be named.
    key = keys.get(str(kid)) if kid is not None or len(keys) != 1 else next(iter(keys.values()))
    if key is None:
        raise InvalidToken("there is no key of its id")
    hash_name, prefix = _DIGESTS[algorithm]
    size = (key.modulus.bit_length() + 7) // 8
    digest = prefix + hashlib.new(hash_name, signed).digest()
    expected = b"\x00\x01" + b"\xff" * (size - len(digest) - 3) + b"\x00" + digest
    if len(signature) != size:
        raise InvalidToken("its signature is of another length than the key")
    shown = pow(int.from_bytes(signature, "big"), key.exponent, key.modulus).to_bytes(size, "big")
    if not hmac.compare_digest(shown, expected):
        raise InvalidToken("its signature is wrong")


def _seconds(claims: Mapping[str, Any], name: str) -> float | None:
    """None, where it is no time that a clock could ever show: JSON as it is read here has infinite numbers, too."""
    found = claims.get(name)
    if not isinstance(found, int | float) or isinstance(found, bool) or not abs(found) < LATEST:
        return None
    return float(found)


def _audiences(claims: Mapping[str, Any]) -> set[str]:
    found = claims.get("aud")
    return {found} if isinstance(found, str) else {str(each) for each in found} if isinstance(found, list) else set()


def _object(part: str) -> dict[str, Any]:
    try:
        found = json.loads(_bytes(part))
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise InvalidToken("it is not JSON")
    return found


def _bytes(part: str) -> bytes:
    try:
        return urlsafe_b64decode(part + "=" * (-len(part) % 4))
    except (NotBase64, ValueError):
        raise InvalidToken("it is not base64") from None


# -- keys -------------------------------------------------------------------------------------------------------------
def parse_keys(setting: str, text: str) -> dict[str, PublicKey]:
    """The RSA keys of a JSON Web Key Set (RFC 7517). Raises ConfigError."""
    try:
        listed = json.loads(text)["keys"]
        found = {
            str(key.get("kid")): PublicKey(_number(key["n"]), _number(key["e"]))
            for key in listed
            if key.get("kty") == "RSA" and key.get("use", "sig") == "sig"
        }
    except (AttributeError, InvalidToken, KeyError, TypeError, ValueError):
        raise ConfigError(f"{setting}: it is not a JSON Web Key Set") from None
    if not found:
        raise ConfigError(f"{setting}: there is no RSA key for signatures in it")
    if any(key.modulus.bit_length() < SMALLEST_KEY for key in found.values()):
        raise ConfigError(f"{setting}: a key has less than {SMALLEST_KEY} bits")
    return found


def _number(text: str) -> int:
    return int.from_bytes(_bytes(text), "big")
