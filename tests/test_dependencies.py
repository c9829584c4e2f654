"""What kompat is built of: versions with known faults, crates in two versions, licences.

This is no audit. It knows the advisories that are listed here, which people add when they hear of them, and has no way to
learn of others: the databases of `cargo audit` and `pip-audit` are behind a network that a build may not have. Nor can it
know whether a version was yanked after it was locked. Where there is a network, run both tools as well.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tomllib
from collections import defaultdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
NATIVE = ROOT / "kompat" / "native"

# (package, the first version without the fault, advisory)
CRATES = [
    ("bytes", "1.11.1", "RUSTSEC-2026-0007"),
    ("lz4-sys", "1.9.4", "RUSTSEC-2022-0051"),
    ("pyo3", "0.29.0", "RUSTSEC-2026-0176, RUSTSEC-2026-0177"),
    ("rand", "0.8.6", "RUSTSEC-2026-0097"),
    ("regex", "1.5.5", "RUSTSEC-2022-0013"),
    ("time", "0.3.47", "RUSTSEC-2026-0009"),
]
PACKAGES = [
    ("cryptography", "49.0.0", "GHSA-537c-gmf6-5ccf; CVE-2026-26007 in 46.0.5"),
    ("PyJWT", "2.13.0", "CVE-2026-48526; CVE-2026-32597 in 2.12.0"),
    ("starlette", "1.3.1", "CVE-2026-54283, CVE-2026-54282; CVE-2026-48710 in 1.0.1; CVE-2025-62727 in 0.49.1"),
    ("uvicorn", "0.11.7", "CVE-2020-7694, CVE-2020-7695"),
]
# protobuf 2 of the registry has RUSTSEC-2024-0437 and no version without it: ours, in kompat/native/protobuf, stands for it.
OWN = {"kompat-native", "protobuf", "raft-proto"}
# Two versions at once, because what depends on them does not agree yet; fxhash (RUSTSEC-2025-0057) is not maintained any
# more, does what it should, and goes with raft-rs.
TWICE = {"getrandom", "syn", "thiserror", "thiserror-impl"}
LICENCES = {"MIT", "Apache-2.0", "Apache-2.0 WITH LLVM-exception", "BSD-2-Clause", "BSD-3-Clause", "BSL-1.0"} | {
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
}


def number(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", re.split(r"[+-]", text)[0]))


def locked() -> dict[str, list[str]]:
    found = defaultdict(list)
    for each in tomllib.loads((NATIVE / "Cargo.lock").read_text(encoding="utf-8"))["package"]:
        assert each["name"] in OWN or "checksum" in each, f"{each['name']} is not from the registry"
        found[each["name"]].append(each["version"])
    return found


@pytest.mark.parametrize(("name", "fixed", "advisory"), CRATES)
def test_no_crate_has_a_fault_that_is_known(name: str, fixed: str, advisory: str) -> None:
    for found in locked()[name]:
        assert number(found) >= number(fixed), f"{name} {found}: {advisory}, fixed in {fixed}"


@pytest.mark.parametrize(("name", "fixed", "advisory"), PACKAGES)
def test_no_package_has_a_fault_that_is_known(name: str, fixed: str, advisory: str) -> None:
    try:
        found = version(name)
    except PackageNotFoundError:
        pytest.skip(f"{name} is not installed")
    assert number(found) >= number(fixed), f"{name} {found}: {advisory}, fixed in {fixed}"


def test_every_advisory_is_about_something_that_is_used() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = {
        re.split(r"[<>=]", each)[0] for each in [*declared["dependencies"], *declared["optional-dependencies"]["oauth"]]
    }

    assert {name for name, *_ in CRATES} <= locked().keys()
    assert {name for name, *_ in PACKAGES} <= wanted


def test_no_crate_comes_in_more_versions_than_it_must() -> None:
    assert {name for name, found in locked().items() if len(found) > 1} == TWICE


def test_the_licences_of_crates_allow_their_use() -> None:
    """Each part that is joined by AND has to be allowed, of those joined by OR one."""
    if shutil.which("cargo") is None:
        pytest.skip("needs cargo")
    wanted = ("cargo", "metadata", "--offline", "--locked", "--format-version", "1")
    shown = subprocess.run(wanted, cwd=NATIVE, capture_output=True, check=False)  # noqa: S603
    if shown.returncode:
        pytest.skip("crates have not been fetched")
    for each in json.loads(shown.stdout)["packages"]:
        if each["name"] not in OWN:
            assert is_allowed(each["license"] or ""), f"{each['name']}: {each['license']}"


def is_allowed(expression: str) -> bool:
    text = expression.replace("/", " OR ")
    while inner := re.search(r"\(([^()]*)\)", text):
        text = text.replace(inner[0], "MIT" if is_allowed(inner[1]) else "none")
    return any(all(one.strip() in LICENCES for one in each.split(" AND ")) for each in text.split(" OR "))


def test_a_licence_that_is_not_listed_is_seen() -> None:
    assert is_allowed("(MIT OR Apache-2.0) AND Unicode-3.0")
    assert is_allowed("MIT OR LGPL-2.1-or-later")
    assert not is_allowed("(GPL-3.0 OR MPL-2.0) AND MIT")
    assert not is_allowed("")
