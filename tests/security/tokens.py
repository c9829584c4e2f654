"""Tokens for tests, and the keys that sign them."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from pathlib import Path
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa

KINDS = {
    "RS": lambda: rsa.generate_private_key(65537, 2048),
    "ES256": lambda: ec.generate_private_key(ec.SECP256R1()),
    "ES384": lambda: ec.generate_private_key(ec.SECP384R1()),
    "ES512": lambda: ec.generate_private_key(ec.SECP521R1()),
    "Ed25519": ed25519.Ed25519PrivateKey.generate,
    "Ed448": ed448.Ed448PrivateKey.generate,
}
FIRST = {"RS": "RS256", "Ed25519": "EdDSA", "Ed448": "EdDSA"}  # how a key signs, if a token does not say


def encoded(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def written(found: dict[str, Any]) -> str:
    return encoded(json.dumps(found).encode())


class Issuer:
    """Has a key, and says who somebody is."""

    def __init__(self, directory: Path, kid: str = "first", kind: str = "RS") -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.kid = kid
        self.algorithm = FIRST.get(kind, kind)
        self.private = KINDS[kind]()
        self.keys = directory / "keys.json"
        self.publish(self)

    def jwk(self) -> dict[str, Any]:
        of = jwt.get_algorithm_by_name(self.algorithm)
        return {**of.to_jwk(self.private.public_key(), as_dict=True), "kid": self.kid}  # type: ignore[call-overload]

    def publish(self, *issuers: Issuer) -> None:
        """Write whose tokens are good."""
        self.keys.write_text(json.dumps({"keys": [issuer.jwk() for issuer in issuers]}))

    def token(self, algorithm: str = "", kid: str | None = None, **claims: Any) -> str:
        return self.signed(written(claims), algorithm, {"kid": kid or self.kid})

    def signed(self, payload: str, algorithm: str = "", headers: dict[str, Any] | None = None) -> str:
        """Anything, in form or not."""
        by = algorithm or self.algorithm
        signing = f"{written({'alg': by, 'kid': self.kid} | (headers or {}))}.{payload}"
        of = jwt.get_algorithm_by_name(by)
        return f"{signing}.{encoded(of.sign(signing.encode(), self.private))}"
