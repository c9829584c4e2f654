"""The console's files: whole, their own, and without any way for data to become markup."""

from __future__ import annotations

import re
from posixpath import dirname, join, normpath

import pytest

from kompat.admin.routes.console import POLICY, console_files

FILES = {name: file.content.decode() for name, file in console_files().items()}
SCRIPTS = sorted(name for name in FILES if name.endswith(".js"))
IMPORTED = re.compile(r'(?:from\s+|import\s*\(?\s*)"(\.[^"]+)"')
MARKUP = (
    "innerHTML",
    "outerHTML",
    "insertAdjacentHTML",
    "document.write",
    "eval(",
    "new Function",
    "srcdoc",
    "DOMParser",
)
LINES = 400


def test_the_page_loads_files_that_are_there_and_nothing_else() -> None:
    named = re.findall(r'(?:src|href)="([^"#]+)"', FILES["index.html"])

    assert named
    assert {name.removeprefix("console/") for name in named} <= FILES.keys()


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_imports_what_is_there(name: str) -> None:
    for imported in IMPORTED.findall(FILES[name]):
        assert normpath(join(dirname(name), imported)) in FILES, imported


@pytest.mark.parametrize("name", SCRIPTS)
def test_no_script_turns_text_into_markup_or_code(name: str) -> None:
    assert [each for each in MARKUP if each in FILES[name]] == []
    assert len(FILES[name].splitlines()) <= LINES


def test_every_script_is_used() -> None:
    used = {normpath(join(dirname(name), each)) for name in SCRIPTS for each in IMPORTED.findall(FILES[name])}

    assert set(SCRIPTS) - used == {"app.js", "theme.js"}  # those the page itself loads


def test_nothing_comes_from_elsewhere() -> None:
    for name, text in FILES.items():
        addresses = set(re.findall(r"https?://[^\s\"'`)]+", text))
        assert addresses <= {"http://www.w3.org/2000/svg"}, name


def test_files_are_served_under_the_policy() -> None:
    assert "'unsafe" not in POLICY
    assert POLICY.startswith("default-src 'none'")
    assert "require-trusted-types-for 'script'" in POLICY


def test_all_styles_have_both_themes() -> None:
    tokens = FILES["styles/tokens.css"]
    light, dark = tokens.split(':root[data-theme="dark"]')
    declared = set(re.findall(r"(--[\w-]+):", dark.split("}")[0]))

    assert declared
    assert declared <= set(re.findall(r"(--[\w-]+):", light))
