"""What type checkers are told of the message classes is what the classes are."""

import ast
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

import pytest

from kompat.handlers import APIS
from kompat.protocol import messages
from kompat.protocol.messages import stubs

MESSAGES = [node for node in ast.parse(stubs.stub()).body if isinstance(node, ast.ClassDef)]


def test_the_stub_is_current() -> None:
    current = stubs.STUB.read_text(encoding="utf-8")

    assert current == stubs.stub(), "run python -m kompat.protocol.messages.stubs"


def test_every_message_of_every_api_has_a_stub() -> None:
    names = {node.name for node in MESSAGES}

    assert {made.__name__ for api in APIS for made in messages.classes(api.key)} <= names


@pytest.mark.parametrize("node", MESSAGES, ids=lambda node: node.name)
def test_a_stub_has_the_fields_of_the_class(node: ast.ClassDef) -> None:
    for stub, made in _structs(node, messages.message_class(node.name)):
        typed = {each.target.id: ast.unparse(each.annotation) for each in stub.body if _is_field(each)}  # type: ignore[attr-defined]
        assert list(typed) == [field.name for field in fields(made)]
        for name, value in vars_of(made()).items():
            assert (value is None) <= typed[name].endswith("| None"), name
            assert isinstance(value, list) <= typed[name].startswith(("list", "Sequence")), name


def vars_of(message: Any) -> dict[str, Any]:
    return {field.name: getattr(message, field.name) for field in fields(message)}


def _structs(node: ast.ClassDef, made: Any) -> Iterator[tuple[ast.ClassDef, Any]]:
    assert is_dataclass(made)
    yield node, made
    for inner in node.body:
        if isinstance(inner, ast.ClassDef):
            yield from _structs(inner, getattr(made, inner.name))


def _is_field(node: ast.stmt) -> bool:
    return isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
