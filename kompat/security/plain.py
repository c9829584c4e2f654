"""SASL PLAIN (RFC 4616): a user name and a password as plain text, and the users in a listener's settings."""

from __future__ import annotations

import hmac
import re
from collections.abc import Mapping

from kompat.errors import ConfigError
from kompat.security.failure import SaslFailure

_ENTRY = r"""\s*([A-Za-z0-9_.$@-]+)\s*=\s*("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[^\s;"']+)"""
_MODULE = r"(?i)\s*([A-Za-z0-9_.$]+)\s+(required|requisite|sufficient|optional)\b"
_USER = "user_"


def name_and_password(token: bytes) -> tuple[str, str]:
    """The user name and the password in the client's message. Raises SaslFailure."""
    try:
        parts = token.decode().split("\0", 3)
    except UnicodeDecodeError:
        raise SaslFailure from None
    if len(parts) != 3:
        raise SaslFailure(f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(parts)}")
    authorization, user, password = parts
    if not user:
        raise SaslFailure("Authentication failed: username not specified")
    if not password:
        raise SaslFailure("Authentication failed: password not specified")
    if authorization not in ("", user):
        raise SaslFailure("Authentication failed: Client requested an authorization id that is different from username")
    return user, password


def is_listed(users: Mapping[str, str], user: str, password: str) -> bool:
    """Whether a user of a listener's settings has this password; takes the same time for any password."""
    known = users.get(user)
    return known is not None and hmac.compare_digest(known.encode(), password.encode())


def listed_users(setting: str, text: str) -> dict[str, str]:
    """The users in a `sasl.jaas.config`: each `user_NAME="password"` of a PlainLoginModule."""
    found = re.match(_MODULE, text)
    if found is None:
        raise ConfigError(f"{setting}: expected a login module and `required`")
    entries: dict[str, str] = {}
    position = found.end()
    while entry := re.compile(_ENTRY).match(text, position):
        entries[entry[1]] = _unquoted(entry[2])
        position = entry.end()
    if text[position:].strip() != ";":
        raise ConfigError(f"{setting}: expected name=value pairs and a semicolon at the end")
    return {name.removeprefix(_USER): value for name, value in entries.items() if name.startswith(_USER)}


def _unquoted(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text[1:-1]) if text[0] in "\"'" else text
