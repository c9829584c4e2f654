"""Principals: `User:alice`. The principal of a client certificate is its subject, which mapping rules may shorten.

Subjects have Java's form (RFC 2253, the last part first), because existing ACLs and rules expect it.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from kompat._native import certificate_subject
from kompat.errors import ConfigError, ErrorCode, KafkaError

ANONYMOUS = "User:ANONYMOUS"

_RULE = r"(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?).*?|(.*?)"
_REFERENCE = re.compile(r"\\(.)|\$(\d)")

Rule = Callable[[str], "str | None"]


def user(name: str) -> str:
    return f"User:{name}"


def subject(certificate: bytes) -> str:
    """The subject of a DER certificate, in Java's form. Raises KafkaError if it cannot be read."""
    try:
        return certificate_subject(certificate)
    except ValueError as wrong:
        raise KafkaError(ErrorCode.SASL_AUTHENTICATION_FAILED, str(wrong)) from None


# -- rules ------------------------------------------------------------------------------------------------------------
class PrincipalRules:
    """`ssl.principal.mapping.rules`: the first rule that matches a subject makes the name of its principal."""

    def __init__(self, text: str) -> None:
        found = re.finditer(rf"\s*({_RULE})\s*(?:,\s*|$)", text.strip())
        self._rules = [rule for rule in map(_rule, found) if rule is not None]

    def principal(self, subject: str) -> str:
        for rule in self._rules:
            name = rule(subject)
            if name is not None:
                return user(name)
        raise KafkaError(ErrorCode.SASL_AUTHENTICATION_FAILED, f"No rules apply to {subject}")


def _rule(found: re.Match[str]) -> Rule | None:
    _, is_default, pattern, replacement, case, other = found.groups()
    if is_default:
        return lambda subject: subject
    if pattern is None:
        if other:
            raise ConfigError(f"ssl.principal.mapping.rules: Invalid rule: {other}")
        return None
    try:
        compiled = re.compile(re.sub(r"\(\?<(?![=!])", "(?P<", pattern))
    except re.error as wrong:
        raise ConfigError(f"ssl.principal.mapping.rules: {pattern!r}: {wrong}") from None

    def apply(subject: str) -> str | None:
        match = compiled.fullmatch(subject)
        if match is None:
            return None
        name = _REFERENCE.sub(lambda found: _referred(match, found), replacement)
        return name.lower() if case == "L" else name.upper() if case == "U" else name

    return apply


def _referred(match: re.Match[str], found: re.Match[str]) -> str:
    """The text of the group `$1`; a reference to a group that the pattern does not have stays as it is."""
    if found[1] is not None:
        return found[1]
    number = int(found[2])
    return (match[number] or "") if number <= match.re.groups else found[0]
