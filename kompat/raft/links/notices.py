"""Limits repeated log messages: a peer that dials every second with the wrong secret is not worth a line every second."""

from __future__ import annotations

from collections.abc import Hashable

AGAIN_SECONDS = 300.0
MOST = 256


class Notices:
    """Bounded: when too much is remembered, the oldest is forgotten."""

    def __init__(self) -> None:
        self._logged: dict[Hashable, float] = {}

    def is_news(self, what: Hashable, now: float) -> bool:
        logged = self._logged.pop(what, None)
        is_news = logged is None or now - logged >= AGAIN_SECONDS
        self._logged[what] = now if is_news or logged is None else logged
        if len(self._logged) > MOST:
            del self._logged[next(iter(self._logged))]
        return is_news
