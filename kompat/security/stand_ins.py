"""Credentials for users that do not exist.

A client that names such a user gets a salt and a number of iterations as for any other user, so it does not learn which users exist. They are the same at
every attempt, on every broker and whatever happens to other users: they are derived from a secret of the cluster, which never changes.

A credential made by another tool may have a shape that is new to the cluster. Some names then get that shape, and their salt changes with it, as
if they had a new password. A known shape stays, even if its user is deleted.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from kompat.security.scram import LEAST_ITERATIONS, SALT_BYTES, Credential, Mechanism

SECRET_BYTES: Final = 32
MOST_SHAPES: Final = 64  # of a mechanism: an authentication looks at all of them
LONGEST_SALT: Final = 256  # that is imitated: a longer one would make the response to an unauthenticated client long
_DIGITS: Final = b"0123456789abcdefghijklmnopqrstuvwxyz"
_KAFKA_SALT_BITS: Final = 130  # Kafka's own tools encode these bits in 20 to 26 digits and lower-case letters


class Shape(NamedTuple):
    """The parts of a credential that a client sees before it is authenticated."""

    salt_size: int = SALT_BYTES  # 0: as Kafka's own tools make salts
    iterations: int = LEAST_ITERATIONS


def shape_of(known: Credential) -> Shape:
    is_kafkas = 20 <= len(known.salt) <= 26 and set(known.salt) <= set(_DIGITS)
    return Shape(0 if is_kafkas else len(known.salt), known.iterations)


@dataclass(frozen=True, slots=True)
class StandIns:
    secret: bytes = field(default=b"", repr=False)
    shapes: Mapping[Mechanism, frozenset[Shape]] = field(default_factory=dict)  # of present and past credentials

    def noting(self, mechanism: Mechanism, known: Credential) -> StandIns:
        """These stand-ins, with the shape of one more credential."""
        seen, shape = self.shapes.get(mechanism, frozenset()), shape_of(known)
        if shape in seen or len(seen) >= MOST_SHAPES or shape.salt_size > LONGEST_SALT:
            return self
        return replace(self, shapes={**self.shapes, mechanism: seen | {shape}})

    def of(self, mechanism: Mechanism, user: str) -> Credential:
        """The stand-in for a user: no password matches it."""
        name = f"{mechanism.label} {user}".encode()
        shape = max(self.shapes.get(mechanism) or {Shape()}, key=lambda each: self._drawn(name, f"shape {each}"))
        drawn = hashlib.shake_256(self._drawn(name, f"salt {shape}")).digest(shape.salt_size or 32)
        key = hmac.digest(self.secret, b"key " + name, mechanism.hash_name)
        return Credential(drawn if shape.salt_size else _kafka_salt(drawn), key, key, shape.iterations)

    def _drawn(self, name: bytes, what: str) -> bytes:
        return hmac.digest(self.secret, f"{what} ".encode() + name, "sha256")


def _kafka_salt(drawn: bytes) -> bytes:
    left = int.from_bytes(drawn) >> (8 * len(drawn) - _KAFKA_SALT_BITS)
    digits = bytearray()
    while left:
        left, digit = divmod(left, len(_DIGITS))
        digits.append(_DIGITS[digit])
    return bytes(reversed(digits))
