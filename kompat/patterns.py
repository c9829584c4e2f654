r"""Regular expressions from clients, held against whole names in linear time: `(a+)+` costs no more than `a+`.

The syntax is that of Rust's `regex`, which is RE2's but for `\Q…\E`: that is translated. Text and compiled size are bounded.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from kompat._native import NamePattern

MAX_LENGTH = 4_096  # characters
MAX_COMPILED_BYTES = 512 * 1024
MAX_CACHE_BYTES = 1024 * 1024

_QUOTED = re.compile(r"\\Q(.*?)(?:\\E|\Z)|\\.", re.DOTALL)


class Pattern:
    """Raises ValueError where the text is no expression, or too large."""

    __slots__ = ("_native",)

    def __init__(self, text: str) -> None:
        if len(text) > MAX_LENGTH:
            raise ValueError(f"longer than {MAX_LENGTH} characters")
        plain = _QUOTED.sub(lambda found: found[0] if found[1] is None else re.escape(found[1]), text)
        NamePattern(plain, MAX_COMPILED_BYTES, MAX_CACHE_BYTES, unicode=True)  # `a)(b` is none, though `(?:a)(b)` is
        self._native = NamePattern(rf"\A(?:{plain})\z", MAX_COMPILED_BYTES, MAX_CACHE_BYTES, unicode=True)

    def select(self, names: Sequence[str]) -> list[str]:
        """Those that match as a whole, in their order."""
        return self._native.select(names)
