"""SCRAM (RFC 5802, RFC 7677): the credentials that a broker stores, and the server side of the exchange.

Credentials are derived from a password by many rounds of hashing (`salted`), which takes milliseconds and must not run on the
event loop. The exchange itself needs only a few hashes.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

from kompat.security.failure import SaslFailure

LEAST_ITERATIONS = 4096
MOST_ITERATIONS = 16384
SALT_BYTES = 24
LONGEST_MESSAGE = 8192  # a name, two nonces and a proof are much shorter; parsing takes time

_NAME = r"(?:[^=,\x00]|=2C|=3D)+"
# Compiled on first use, because most brokers do not need them.
_FIRST = (
    rf"n,(?:a=(?P<authzid>{_NAME}))?,(?P<bare>(?:m=[^,]+,)?n=(?P<name>{_NAME}),r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+)"
    r"(?P<extensions>(?:,[A-Za-z]+=[^,\x00]+)*))"
)
_FINAL = r"(?P<bare>c=(?P<channel>[A-Za-z0-9/+=]*),r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+)(?:,[A-Za-z]+=[^,\x00]+)*?),p=(?P<proof>[A-Za-z0-9/+=]+)"


class Mechanism(IntEnum):
    """The mechanisms, with the protocol's numbers."""

    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @property
    def label(self) -> str:
        return self.name.replace("_", "-")

    @property
    def hash_name(self) -> str:
        return "sha256" if self is Mechanism.SCRAM_SHA_256 else "sha512"

    @property
    def hash_size(self) -> int:
        return 32 if self is Mechanism.SCRAM_SHA_256 else 64

    @classmethod
    def named(cls, label: str) -> Mechanism | None:
        return next((each for each in cls if each.label == label), None)


@dataclass(frozen=True, slots=True)
class Credential:
    """What a broker stores: enough to verify a password, but not enough to authenticate with."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        return f"Credential(iterations={self.iterations})"


def salted(mechanism: Mechanism, password: str, salt: bytes, iterations: int) -> bytes:
    """The salted password. Slow, but it releases the interpreter's lock: run it in another thread."""
    return hashlib.pbkdf2_hmac(mechanism.hash_name, password.encode(), salt, iterations)


def credential(mechanism: Mechanism, salted_password: bytes, salt: bytes, iterations: int) -> Credential:
    client_key = _hmac(mechanism, salted_password, b"Client Key")
    return Credential(
        salt=salt,
        stored_key=_digest(mechanism, client_key),
        server_key=_hmac(mechanism, salted_password, b"Server Key"),
        iterations=iterations,
    )


def matches(mechanism: Mechanism, known: Credential, password: str) -> bool:
    """Whether the password is right. Slow: see `salted`."""
    shown = credential(mechanism, salted(mechanism, password, known.salt, known.iterations), known.salt, 0)
    return hmac.compare_digest(shown.stored_key, known.stored_key)


class Conversation:
    """The authentication of one client, from its first message to its second.

    `find` returns the credential of a user, or a stand-in if the user does not exist. A client cannot distinguish the two:
    its second message fails in the same way.
    """

    def __init__(self, mechanism: Mechanism, find: Callable[[str], Credential], nonce: str) -> None:
        self._mechanism = mechanism
        self._find = find
        self._server_nonce = nonce
        self._known: Credential | None = None
        self._gs2 = b""
        self._nonce = ""
        self._auth_message = ""  # RFC 5802's AuthMessage, up to the client's second message
        self.user: str | None = None  # set once the client is authenticated

    def respond(self, message: bytes) -> bytes:
        """The response to the client's next message. Raises SaslFailure."""
        if self.user is not None or len(message) > LONGEST_MESSAGE:
            raise SaslFailure
        text = _text(message)
        return (self._first(text) if self._known is None else self._final(text)).encode()

    def _first(self, text: str) -> str:
        found = re.fullmatch(_FIRST, text)
        if found is None or "tokenauth=true" in found["extensions"].lower():  # delegation tokens are not supported
            raise SaslFailure
        self._user = found["name"].replace("=2C", ",").replace("=3D", "=")
        if found["authzid"] not in (None, found["name"]):
            raise SaslFailure(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        known = self._known = self._find(self._user)
        self._gs2 = text[: found.start("bare")].encode()
        self._nonce = found["nonce"] + self._server_nonce
        answer = f"r={self._nonce},s={b64encode(known.salt).decode()},i={known.iterations}"
        self._auth_message = f"{found['bare']},{answer}"
        return answer

    def _final(self, text: str) -> str:
        found = re.fullmatch(_FINAL, text)
        known = self._known
        # librdkafka before 2.6 repeats its own nonce before the common one, which Kafka accepts. The proof covers both.
        if found is None or known is None or not found["nonce"].endswith(self._nonce):
            raise SaslFailure
        if _bytes(found["channel"]) != self._gs2:
            raise SaslFailure
        auth_message = f"{self._auth_message},{found['bare']}".encode()
        signature = _hmac(self._mechanism, known.stored_key, auth_message)
        proof = _bytes(found["proof"])
        if len(proof) != len(signature):
            raise SaslFailure
        client_key = bytes(a ^ b for a, b in zip(signature, proof, strict=True))
        if not hmac.compare_digest(_digest(self._mechanism, client_key), known.stored_key):
            raise SaslFailure
        self.user = self._user
        return f"v={b64encode(_hmac(self._mechanism, known.server_key, auth_message)).decode()}"


def _text(message: bytes) -> str:
    try:
        return message.decode()
    except UnicodeDecodeError:
        raise SaslFailure from None


def _bytes(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except (NotBase64, ValueError):
        raise SaslFailure from None


def _digest(mechanism: Mechanism, data: bytes) -> bytes:
    return hashlib.new(mechanism.hash_name, data).digest()


def _hmac(mechanism: Mechanism, key: bytes, data: bytes) -> bytes:
    return hmac.digest(key, data, mechanism.hash_name)
