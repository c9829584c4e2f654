"""Names in kompat are Kafka's words, or common ones: a reader from Kafka needs no dictionary (docs/glossary.md)."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

KOMPAT = Path(__file__).parents[1] / "kompat"

# Words that stood for several things each, or for something that Kafka has a word for, and what to say instead.
BANNED = {
    "told": "reported, returned, response",
    "said": "requested, acknowledgement",
    "asked": "requested, request",
    "judged": "checked, validated",
    "far": "remote, or a request of kompat/rpc",
    "anywhere": "a request of kompat/rpc",
    "elsewhere": "a request of kompat/rpc",
    "home": "coordinator, partition",
    "homes": "coordinator, partition",
    "keeper": "coordinator, persister",
    "letterbox": "dead-letter topic",
    "courier": "forwarder",
    "door": "listener, server, client",
    "doors": "listeners",
    "stranger": "unauthenticated connection",
    "strangers": "unauthenticated connections",
    "story": "trace",
    "stories": "traces",
    "settle": "acknowledge, complete, resolve",
    "settled": "acknowledged, completed, resolved",
    "bury": "write dead-letter records",
    "buried": "dead-lettered, archived",
    "intake": "interceptor",
    "demand": "fetch listener",
    "shell": "empty batch",
    "shells": "empty batches",
}
ALLOWED: frozenset[str] = frozenset()


def test_names_are_kafkas_words() -> None:
    found = [
        f"{path.relative_to(KOMPAT)}: {name} ({BANNED[word]})"
        for path in sorted(KOMPAT.rglob("*.py"))
        for name in sorted({*_names(ast.parse(path.read_text())), path.stem} - ALLOWED)
        for word in _words(name)
        if word in BANNED
    ]

    assert found == []


def test_letters_are_dead_letters() -> None:
    """A letter is a character: what a consumer gives up is a dead-letter record."""
    found = [
        f"{path.relative_to(KOMPAT)}: {name}"
        for path in sorted(KOMPAT.rglob("*.py"))
        for name in sorted(_names(ast.parse(path.read_text())))
        if {"letter", "letters"} & {*_words(name)} and "dead" not in _words(name)
    ]

    assert found == []


def _names(tree: ast.Module) -> Iterator[str]:
    """All that is given a name there."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield name


def _words(name: str) -> list[str]:
    return re.sub(r"([a-z])([A-Z])", r"\1_\2", name).lower().split("_")
