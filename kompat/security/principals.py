"""Principals: `User:alice`. Those who show a certificate are named by its subject, or by what rules make of that.

Subjects are written as Java writes them (RFC 2253, the last part first), for that is what ACLs and rules have been written for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from kompat.errors import ConfigError, ErrorCode, KafkaError

ANONYMOUS = "User:ANONYMOUS"

# Attributes that have a name in RFC 2253; the others are written as numbers.
_KEYWORDS = {
    "2.5.4.3": "CN",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "2.5.4.6": "C",
    "2.5.4.9": "STREET",
    "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.1": "UID",
}
_ENCODINGS = {0x0C: "utf-8", 0x13: "ascii", 0x16: "ascii", 0x14: "latin-1", 0x1E: "utf-16-be", 0x1C: "utf-32-be"}
_VERSION = 0xA0
_OBJECT_ID = 0x06

_RULE = r"(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?).*?|(.*?)"
_REFERENCE = re.compile(r"\\(.)|\$(\d)")

Rule = Callable[[str], "str | None"]


def user(name: str) -> str:
    return f"User:{name}"


# -- the subject of a certificate -----------------------------------------------------------------------------------
def subject(certificate: bytes) -> str:
    """Of a certificate in DER that OpenSSL has found to be in order."""
    _, body, _ = _element(certificate, 0)
    _, fields, _ = _element(body, 0)
    position = 0
    if fields[0] == _VERSION:
        _, _, position = _element(fields, position)
    for _ in range(4):  # serial number, algorithm, issuer, validity
        _, _, position = _element(fields, position)
    _, names, _ = _element(fields, position)
    return ",".join("+".join(map(_written, _elements(part))) for _, part in reversed(list(_elements(names))))


def _written(attribute: tuple[int, bytes]) -> str:
    (_, kind), (tag, value) = _elements(attribute[1])
    number = _dotted(kind)
    keyword, encoding = _KEYWORDS.get(number), _ENCODINGS.get(tag)
    if keyword is None or encoding is None:
        return f"{number}=#{_encoded(tag, value).hex()}"
    return f"{keyword}={_escaped(value.decode(encoding, 'replace'))}"


def _escaped(text: str) -> str:
    escaped = re.sub(r'([,+"\\<>;])', r"\\\1", text)
    if escaped.startswith(("#", " ")):
        escaped = "\\" + escaped
    return escaped[:-1] + "\\ " if escaped.endswith(" ") and not escaped.endswith("\\ ") else escaped


def _element(data: bytes, position: int) -> tuple[int, bytes, int]:
    """Tag, contents and end of a DER element."""
    tag, length = data[position], data[position + 1]
    position += 2
    if length & 0x80:
        size = length & 0x7F
        length = int.from_bytes(data[position : position + size], "big")
        position += size
    return tag, data[position : position + length], position + length


def _elements(data: bytes) -> Iterator[tuple[int, bytes]]:
    position = 0
    while position < len(data):
        tag, contents, position = _element(data, position)
        yield tag, contents


def _encoded(tag: int, value: bytes) -> bytes:
    if len(value) < 0x80:
        return bytes([tag, len(value)]) + value
    size = (len(value).bit_length() + 7) // 8
    return bytes([tag, 0x80 | size]) + len(value).to_bytes(size, "big") + value


def _dotted(contents: bytes) -> str:
    numbers, number = [], 0
    for byte in contents:
        number = number << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(number)
            number = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))


# -- rules ------------------------------------------------------------------------------------------------------------
class PrincipalRules:
    """`ssl.principal.mapping.rules`: the first that applies says what a subject is called."""

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
    """What `$1` stands for; of groups that the pattern does not have, itself."""
    if found[1] is not None:
        return found[1]
    number = int(found[2])
    return (match[number] or "") if number <= match.re.groups else found[0]
