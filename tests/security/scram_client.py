"""The client's side of SCRAM, written from the RFC and not from kompat's."""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64decode, b64encode


class ScramClient:
    def __init__(self, hash_name: str, user: str, password: str, nonce: str = "client-nonce") -> None:
        self._hash = hash_name
        self._password = password.encode()
        self._bare = f"n={user.replace('=', '=3D').replace(',', '=2C')},r={nonce}"

    def first(self) -> bytes:
        return f"n,,{self._bare}".encode()

    def final(self, server_first: bytes, repeated: str = "") -> bytes:
        answer = server_first.decode()
        nonce, salt, iterations = (part.partition("=")[2] for part in answer.split(","))
        salted = hashlib.pbkdf2_hmac(self._hash, self._password, b64decode(salt), int(iterations))
        without_proof = f"c=biws,r={repeated}{nonce}"
        said = f"{self._bare},{answer},{without_proof}".encode()
        client_key = hmac.digest(salted, b"Client Key", self._hash)
        signature = hmac.digest(hashlib.new(self._hash, client_key).digest(), said, self._hash)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        server_key = hmac.digest(salted, b"Server Key", self._hash)
        self.expected = b"v=" + b64encode(hmac.digest(server_key, said, self._hash))
        return f"{without_proof},p={b64encode(proof).decode()}".encode()
