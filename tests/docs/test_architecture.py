"""docs/architecture.md shows the layers of the import contract, and names modules that exist."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "docs/architecture.md", *sorted((ROOT / "docs/architecture").glob("*.md"))]


def layers() -> list[list[str]]:
    """The packages of each layer, the highest first."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    [contract] = [each for each in settings["tool"]["importlinter"]["contracts"] if each["type"] == "layers"]
    return [re.split(r"\s*[|:]\s*", layer) for layer in contract["layers"]]


def picture() -> str:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    [contract] = [each for each in settings["tool"]["importlinter"]["contracts"] if each["type"] == "layers"]
    return "\n".join("  " * depth + layer for depth, layer in enumerate(contract["layers"]))


def test_the_picture_shows_the_layers_of_the_import_contract() -> None:
    page = PAGES[0].read_text()
    [shown] = re.findall(r"## Layers\n.*?```\n(.*?)\n```", page, re.DOTALL)

    assert shown == picture()


def test_the_table_has_every_package() -> None:
    described = re.findall(r"^\| `([a-z_]+)(?:/|\.py)` \|", PAGES[0].read_text(), re.MULTILINE)

    assert described == [package for layer in layers() for package in layer]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_module_that_a_page_names_exists(page: Path) -> None:
    named = re.findall(r"`([a-z_/]+(?:\.py|/))`", page.read_text())
    folder = ROOT / "kompat"  # a name without a folder is of the one that was named before it
    for name in named:
        found = next((base / name for base in (ROOT / "kompat", ROOT, folder) if (base / name).exists()), None)
        assert found is not None, f"{page.name} names {name}"
        folder = found if found.is_dir() else found.parent


@pytest.mark.parametrize("page", sorted((ROOT / "docs").rglob("*.md")), ids=lambda page: page.stem)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text()):
        assert re.match(r"https?://", target) or (page.parent / target).exists(), f"{page.name} links to {target}"
