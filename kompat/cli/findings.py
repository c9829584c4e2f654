"""The doctor's findings: the subject, the problem, and the advice. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum


class Level(Enum):
    FINE = "ok"
    WARNING = "warning"
    WRONG = "wrong"


MARKS = {Level.FINE: "✓", Level.WARNING: "!", Level.WRONG: "✗"}


@dataclass(frozen=True, slots=True)
class Finding:
    level: Level
    about: str
    found: str
    advice: str = ""

    @property
    def row(self) -> dict[str, str]:
        shown = {"level": self.level.value, "about": self.about, "found": self.found}
        return shown | ({"advice": self.advice} if self.advice else {})


def fine(about: str, found: str) -> Finding:
    return Finding(Level.FINE, about, found)


def warning(about: str, found: str, advice: str) -> Finding:
    return Finding(Level.WARNING, about, found, advice)


def wrong(about: str, found: str, advice: str) -> Finding:
    return Finding(Level.WRONG, about, found, advice)


def is_well(findings: Iterable[Finding]) -> bool:
    return all(each.level is not Level.WRONG for each in findings)


def lines(findings: Iterable[Finding], *, for_eyes: bool) -> list[str]:
    found = []
    for each in findings:
        if not for_eyes:
            found.append("\t".join((each.level.value, each.about, each.found, each.advice)).rstrip("\t"))
            continue
        found.append(f"{MARKS[each.level]} {each.about}: {each.found}")
        if each.advice:
            found.append(f"    → {each.advice}")
    return found
