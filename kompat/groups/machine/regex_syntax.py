"""RE2 syntax, parsed for topic names.

Topic names consist of 65 characters only, so a character class is the set of those it holds; what lies outside never matches.
Backreferences and look-around are not RE2: they are refused, as by Kafka.
"""

import string
import unicodedata
from dataclasses import dataclass
from typing import TypeAlias

ALPHABET = frozenset(string.ascii_letters + string.digits + "._-")
MAX_REPEAT = 1000
MAX_NESTING = 100

_DIGITS = frozenset(string.digits)
_WORD = frozenset(string.ascii_letters + string.digits + "_")
_EMPTY: frozenset[str] = frozenset()
_PERL = {"d": _DIGITS, "w": _WORD, "s": _EMPTY, "D": ALPHABET - _DIGITS, "W": ALPHABET - _WORD, "S": ALPHABET}
_POSIX = {
    "alnum": frozenset(string.ascii_letters + string.digits),
    "alpha": frozenset(string.ascii_letters),
    "ascii": ALPHABET,
    "blank": _EMPTY,
    "cntrl": _EMPTY,
    "digit": _DIGITS,
    "graph": ALPHABET,
    "lower": frozenset(string.ascii_lowercase),
    "print": ALPHABET,
    "punct": frozenset("._-"),
    "space": _EMPTY,
    "upper": frozenset(string.ascii_uppercase),
    "word": _WORD,
    "xdigit": frozenset(string.hexdigits),
}
_SCRIPTS = {
    "Any": ALPHABET,
    "Latin": frozenset(string.ascii_letters),
    "Common": ALPHABET - frozenset(string.ascii_letters),
    **dict.fromkeys(
        ("Arabic", "Cyrillic", "Devanagari", "Greek", "Han", "Hangul", "Hebrew", "Hiragana", "Katakana"), _EMPTY
    ),
}
_CONTROL = {"a": "\a", "f": "\f", "t": "\t", "n": "\n", "r": "\r", "v": "\v"}
_ASSERTIONS = {"A": "start", "z": "end", "b": "boundary", "B": "inside"}


class RegexSyntaxError(ValueError):
    """The text is not a regular expression of RE2's syntax."""


@dataclass(frozen=True, slots=True)
class Chars:
    chars: frozenset[str]


@dataclass(frozen=True, slots=True)
class Assert:
    kind: str


@dataclass(frozen=True, slots=True)
class Sequence:
    parts: "tuple[Node, ...]"


@dataclass(frozen=True, slots=True)
class Choice:
    options: "tuple[Node, ...]"


@dataclass(frozen=True, slots=True)
class Repeat:
    node: "Node"
    low: int
    high: int | None  # None: any number


Node: TypeAlias = Chars | Assert | Sequence | Choice | Repeat


def parse(pattern: str) -> Node:
    parser = _Parser(pattern)
    node = parser.choice(0)
    if parser.more():
        raise RegexSyntaxError(f"unexpected {parser.peek()!r} at {parser.pos}")
    return node


class _Parser:
    def __init__(self, pattern: str) -> None:
        self.text = pattern
        self.pos = 0
        self.fold_case = False

    def more(self) -> bool:
        return self.pos < len(self.text)

    def peek(self) -> str:
        return self.text[self.pos] if self.more() else ""

    def take(self, token: str) -> bool:
        if self.text.startswith(token, self.pos):
            self.pos += len(token)
            return True
        return False

    def next(self) -> str:
        if not self.more():
            raise RegexSyntaxError("the expression ends too early")
        self.pos += 1
        return self.text[self.pos - 1]

    def choice(self, depth: int) -> Node:
        if depth > MAX_NESTING:
            raise RegexSyntaxError("the expression is nested too deeply")
        outer = self.fold_case  # flags hold to the end of their group
        options = [self.sequence(depth)]
        while self.take("|"):
            options.append(self.sequence(depth))
        self.fold_case = outer
        return options[0] if len(options) == 1 else Choice(tuple(options))

    def sequence(self, depth: int) -> Node:
        parts: list[Node] = []
        while self.more() and self.peek() not in "|)":
            part = self.atom(depth)
            if part is not None:
                parts.append(self.repeats(part))
        return parts[0] if len(parts) == 1 else Sequence(tuple(parts))

    def atom(self, depth: int) -> Node | None:
        char = self.next()
        if char == "(":
            return self.group(depth)
        if char == "[":
            return Chars(self.char_class())
        if char == "\\":
            return self.escape()
        if char == ".":
            return Chars(ALPHABET)
        if char in "^$":
            return Assert("start" if char == "^" else "end")
        if char in "*+?{":
            self.pos -= 1
            if self.repeat_bounds() is not None:
                raise RegexSyntaxError(f"nothing to repeat before {char!r}")
            self.pos += 1
        return self.literal(char)

    def literal(self, char: str) -> Chars:
        return Chars(self._folded(frozenset(char) & ALPHABET))

    def _folded(self, chars: frozenset[str]) -> frozenset[str]:
        return frozenset(c for char in chars for c in (char.lower(), char.upper())) if self.fold_case else chars

    def repeats(self, node: Node) -> Node:
        bounds = self.repeat_bounds()
        if bounds is None:
            return node
        self.take("?")  # lazy or not, the whole name has to match
        if self.repeat_bounds() is not None:
            raise RegexSyntaxError("a repetition of a repetition needs parentheses")
        return Repeat(node, *bounds)

    def repeat_bounds(self) -> tuple[int, int | None] | None:
        for token, bounds in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self.take(token):
                return bounds
        end = self.text.find("}", self.pos)
        if self.peek() != "{" or end < 0:
            return None
        low, comma, high = self.text[self.pos + 1 : end].partition(",")
        if not (low.isascii() and low.isdigit() and (not high or (high.isascii() and high.isdigit()))):
            return None  # a brace that is no repetition is a literal
        self.pos = end + 1
        least = int(low)
        most = (int(high) if high else None) if comma else least
        if max(least, most or 0) > MAX_REPEAT or (most is not None and most < least):
            raise RegexSyntaxError(f"invalid repetition {{{low}{comma}{high}}}")
        return least, most

    def group(self, depth: int) -> Node | None:
        if self.take("?"):
            if self.take("P<") or (self.peek() == "<" and self.text[self.pos + 1 : self.pos + 2] not in ("=", "!")):
                self.take("<")
                self._group_name()
            elif self._flags():
                return None
        outer = self.fold_case
        node = self.choice(depth + 1)
        self.fold_case = outer
        if not self.take(")"):
            raise RegexSyntaxError("a parenthesis is not closed")
        return node

    def _group_name(self) -> None:
        end = self.text.find(">", self.pos)
        name = self.text[self.pos : end]
        if end < 0 or not name or not all(c in _WORD for c in name):
            raise RegexSyntaxError("a group has no valid name")
        self.pos = end + 1

    def _flags(self) -> bool:
        """Flags of a group; True when they stand alone, `(?i)`, and hold for what follows."""
        on = True
        while True:
            char = self.next()
            if char == "i":
                self.fold_case = on
            elif char == "-" and on:
                on = False
            elif char in ":)":
                return char == ")"
            elif char not in "msU":  # they change nothing for names without line breaks
                raise RegexSyntaxError(f"invalid group flag {char!r}")

    def escape(self) -> Node:
        char = self.peek()
        if char in _ASSERTIONS and char:
            self.pos += 1
            return Assert(_ASSERTIONS[char])
        if self.take("Q"):
            end = self.text.find("\\E", self.pos)
            quoted = self.text[self.pos : end if end >= 0 else len(self.text)]
            self.pos += len(quoted) + (2 if end >= 0 else 0)
            return Sequence(tuple(self.literal(c) for c in quoted))
        chars = self._class_escape()
        if chars is not None:
            return Chars(chars)
        return self.literal(self._char_escape())

    def _class_escape(self) -> frozenset[str] | None:
        char = self.peek()
        if char and char in _PERL:
            self.pos += 1
            return _PERL[char]
        if char not in ("p", "P"):
            return None
        self.pos += 1
        name = self.next()
        if name == "{":
            end = self.text.find("}", self.pos)
            if end < 0:
                raise RegexSyntaxError("a character class is not closed")
            name, self.pos = self.text[self.pos : end], end + 1
        negated = (char == "P") != name.startswith("^")
        chars = _unicode_class(name.removeprefix("^"))
        return ALPHABET - chars if negated else self._folded(chars)

    def _char_escape(self) -> str:
        char = self.next()
        if char in _CONTROL:
            return _CONTROL[char]
        if char == "x":
            digits = self._hex_digits()
            return chr(int(digits, 16))
        if char == "0" or (char in "1234567" and self.peek() in tuple("01234567")):
            while len(char) < 3 and self.peek() and self.peek() in "01234567":
                char += self.next()
            return chr(int(char, 8))
        if not (char.isascii() and char.isalnum()):
            return char
        raise RegexSyntaxError(f"invalid escape \\{char}")

    def _hex_digits(self) -> str:
        if self.take("{"):
            end = self.text.find("}", self.pos)
            digits = self.text[self.pos : max(end, self.pos)]
            self.pos = end + 1
        else:
            digits = self.text[self.pos : self.pos + 2]
            self.pos += 2
            if len(digits) != 2:
                digits = ""
        if (
            not digits
            or len(digits) > 6
            or any(c not in string.hexdigits for c in digits)
            or int(digits, 16) > 0x10FFFF
        ):
            raise RegexSyntaxError("invalid hexadecimal escape")
        return digits

    def char_class(self) -> frozenset[str]:
        negated = self.take("^")
        chars: set[str] = set()
        first = True
        while first or self.peek() != "]":
            self._class_item(chars, first=first)
            first = False
        self.pos += 1
        found = self._folded(frozenset(chars))
        return ALPHABET - found if negated else found

    def _class_item(self, chars: set[str], *, first: bool) -> None:
        if self.take("[:"):
            chars |= self._posix_class()
            return
        if self.take("\\"):
            known = self._class_escape()
            if known is not None:
                chars |= known
                return
            low = self._char_escape()
        else:
            low = self.next()
            if low == "-" and not first and self.peek() not in ("]", "-"):
                raise RegexSyntaxError("a minus stands in the middle of a character class")
        high = low
        if self.peek() == "-" and self.text[self.pos + 1 : self.pos + 2] not in ("]", ""):
            self.pos += 1
            high = self._char_escape() if self.take("\\") else self.next()
            if high < low:
                raise RegexSyntaxError(f"invalid range {low}-{high}")
        chars.update(c for c in ALPHABET if low <= c <= high)

    def _posix_class(self) -> frozenset[str]:
        end = self.text.find(":]", self.pos)
        name = self.text[self.pos : max(end, self.pos)]
        known = _POSIX.get(name.removeprefix("^"))
        if known is None:
            raise RegexSyntaxError(f"unknown character class [:{name}:]")
        self.pos = end + 2
        return ALPHABET - known if name.startswith("^") else known


def _unicode_class(name: str) -> frozenset[str]:
    if name in _SCRIPTS:
        return _SCRIPTS[name]
    if name and name[0] in "CLMNPSZ" and len(name) <= 2 and (len(name) == 1 or name[1].islower()):
        return frozenset(char for char in ALPHABET if unicodedata.category(char).startswith(name))
    raise RegexSyntaxError(f"unknown character class {name!r}")
