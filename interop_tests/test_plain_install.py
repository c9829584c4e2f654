"""The README's tour where there is nothing but `pip install .`: other tests have packages that a newcomer has not."""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from interop_tests.support.examples import Example, Reader, examples, reader

ROOT = Path(__file__).parents[1]
OTHERS = re.compile(r"\bkcat\b|confluent_kafka|\bspark\b|--from-snapshot|\bcurl\b")  # what a block would need besides
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")

pytestmark = pytest.mark.timeout(600)  # the wheel may have to be built from scratch


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Where a shell finds an environment with kompat and what it depends on, and the system's programs."""
    home = tmp_path_factory.mktemp("plain")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "wheel", "--no-deps", "--wheel-dir", home / "wheel", ROOT], check=True)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", home / "venv"], check=True)
    [wheel] = (home / "wheel").glob("*.whl")
    subprocess.run([*pip, "--python", home / "venv" / "bin" / "python", "install", wheel], check=True)
    return f"{home / 'venv' / 'bin'}:/usr/local/bin:/usr/bin:/bin"


@pytest.fixture
def newcomer(path: str, tmp_path: Path) -> Iterator[Reader]:
    """Who types in the checkout, where ./kompat stands before what was installed, and has no native module."""
    checkout = tmp_path / "reader"
    unbuilt = shutil.ignore_patterns("*.so", "native", "__pycache__")
    shutil.copytree(ROOT / "kompat", checkout / "kompat", ignore=unbuilt)
    with reader(checkout, path) as reading:
        yield reading


def shell(text: str) -> Example:
    return Example(line=0, language="sh", text=text, reason=None)


def test_the_tour_needs_nothing_but_the_package(newcomer: Reader) -> None:
    tour = examples((ROOT / "README.md").read_text(encoding="utf-8"))
    runnable = [each for each in tour if each.reason is None and not OTHERS.search(each.text)]
    assert len(runnable) >= 7

    for example in runnable:
        newcomer.paste(example)


def test_records_of_every_codec_are_written_and_read(newcomer: Reader) -> None:
    newcomer.paste(shell("kompat start --data :memory:"))
    for codec in CODECS:
        asked = "" if codec == "none" else f"--property compression.type={codec}"
        newcomer.paste(shell(f"seq 1000 | kompat produce {codec} {asked}"))
        told = newcomer.paste(shell(f"kompat consume {codec} --from-beginning --format value"))

        assert told.split() == [str(number) for number in range(1, 1001)], codec


def test_what_needs_another_package_says_which(newcomer: Reader) -> None:
    newcomer.paste(shell("kompat start --data :memory:"))
    told = newcomer.paste(
        shell(
            "mkdir -p archive/_commits; kompat topics create t; "
            "kompat consume t --from-snapshot ./archive --include-deleted 2>&1 || true"
        )
    )

    assert "pip install" in told
    assert "pyarrow" in told
