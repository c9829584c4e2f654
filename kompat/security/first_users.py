"""The first users of a new cluster: `SCRAM-SHA-256=[name=admin,password=…]`, in the format of kafka-storage."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from kompat.errors import ConfigError
from kompat.security.scram import LEAST_ITERATIONS, MOST_ITERATIONS, Mechanism

_USER = r'\s*,?\s*(SCRAM-SHA-256|SCRAM-SHA-512)=\[((?:"[^"]*"|[^\]"])*)\]'
_PART = r'\s*([a-z]+)=("[^"]*"|[^,"]*)\s*(?:,|$)'


@dataclass(frozen=True, slots=True)
class FirstUser:
    mechanism: Mechanism
    name: str
    password: str = field(repr=False)
    iterations: int = LEAST_ITERATIONS


def parse_first_users(setting: str, text: str) -> list[FirstUser]:
    """Parse users that are separated by spaces or lines; `#` begins a comment line."""
    left = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    found = []
    while left.strip():
        match = re.match(_USER, left)
        if match is None:
            raise ConfigError(f"{setting}: expected SCRAM-SHA-256=[name=NAME,password=PASSWORD]")
        found.append(_user(setting, match[1], match[2]))
        left = left[match.end() :]
    return found


def _user(setting: str, label: str, text: str) -> FirstUser:
    parts: dict[str, str] = {}
    position = 0
    while position < len(text) and (part := re.compile(_PART).match(text, position)):
        parts[part[1]] = part[2].strip('"')
        position = part.end()
    mechanism = Mechanism.named(label)
    iterations = parts.pop("iterations", str(LEAST_ITERATIONS))
    if position < len(text) or mechanism is None or set(parts) != {"name", "password"} or not all(parts.values()):
        raise ConfigError(f"{setting}: {label}: a user has a name, a password and, if need be, iterations")
    if not iterations.isdecimal() or not LEAST_ITERATIONS <= int(iterations) <= MOST_ITERATIONS:
        raise ConfigError(f"{setting}: {label}: iterations are from {LEAST_ITERATIONS} to {MOST_ITERATIONS}")
    return FirstUser(mechanism, parts["name"], parts["password"], int(iterations))
