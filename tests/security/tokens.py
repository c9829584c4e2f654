"""Tokens for tests, signed by openssl."""

from __future__ import annotations

import json
import subprocess
from base64 import urlsafe_b64encode
from pathlib import Path
from typing import Any


def encoded(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def written(found: dict[str, Any]) -> str:
    return encoded(json.dumps(found).encode())


class Issuer:
    """Has a key, and says who somebody is."""

    def __init__(self, directory: Path, kid: str = "first", bits: int = 2048) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.kid = kid
        self._key = str(directory / f"{kid}.key")
        _openssl("genrsa", "-out", self._key, str(bits))
        shown = _openssl("rsa", "-in", self._key, "-noout", "-modulus").decode()
        self.modulus = int(shown.strip().removeprefix("Modulus="), 16)
        self.keys = directory / "keys.json"
        self.publish(self)

    def jwk(self) -> dict[str, str]:
        size = (self.modulus.bit_length() + 7) // 8
        return {
            "kty": "RSA",
            "kid": self.kid,
            "n": encoded(self.modulus.to_bytes(size, "big")),
            "e": encoded((65537).to_bytes(3, "big")),
        }

    def publish(self, *issuers: Issuer) -> None:
        """Write whose tokens are good."""
        self.keys.write_text(json.dumps({"keys": [issuer.jwk() for issuer in issuers]}))

    def token(self, algorithm: str = "RS256", kid: str | None = None, **claims: Any) -> str:
        signed = f"{written({'alg': algorithm, 'kid': kid or self.kid})}.{written(claims)}"
        hash_name = f"-sha{algorithm[2:]}"
        signature = _openssl("dgst", hash_name, "-sign", self._key, stdin=signed.encode())
        return f"{signed}.{encoded(signature)}"


def _openssl(*words: str, stdin: bytes = b"") -> bytes:
    return subprocess.run(["openssl", *words], check=True, capture_output=True, input=stdin).stdout  # noqa: S603, S607
