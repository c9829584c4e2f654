"""Saying something once: a peer that knocks every second with the wrong secret is not worth a line every second."""

from __future__ import annotations

from collections.abc import Hashable

AGAIN_SECONDS = 300.0
MOST = 256


class Notices:
    """Bounded: when too much is remembered, the oldest is forgotten."""

    def __init__(self) -> None:
        self._said: dict[Hashable, float] = {}

    def is_news(self, what: Hashable, now: float) -> bool:
        said = self._said.pop(what, None)
        is_news = said is None or now - said >= AGAIN_SECONDS
        self._said[what] = now if is_news or said is None else said
        if len(self._said) > MOST:
            del self._said[next(iter(self._said))]
        return is_news
