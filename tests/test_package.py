"""What is installed, and what hides it: a checkout without the native module does not."""

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import kompat

WHOLE = Path(kompat.__file__).parent


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A directory with what git has of the package, or enough of it."""
    shutil.copytree(WHOLE, tmp_path / "kompat", ignore=shutil.ignore_patterns("*.so", "native", "__pycache__"))
    return tmp_path


def run(checkout: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603
        [sys.executable, *arguments], cwd=checkout, capture_output=True, text=True, check=False, timeout=60
    )


def test_the_installed_package_takes_the_place_of_a_checkout_that_was_not_built(checkout: Path) -> None:
    code = (
        "import kompat, kompat.testing; print(kompat.__file__)\n"
        "with kompat.testing.broker() as broker: print(broker.host)\n"
    )

    done = run(checkout, "-c", code)

    assert (done.stdout.splitlines(), done.stderr) == ([str(WHOLE / "__init__.py"), "127.0.0.1"], "")
    assert run(checkout, "-m", "kompat", "--version").stdout == f"kompat {kompat.__version__}\n"


def test_a_checkout_that_was_not_built_says_so_where_nothing_is_installed(checkout: Path) -> None:
    done = run(checkout, "-S", "-c", "import kompat.testing")

    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        f"ImportError: {checkout / 'kompat'} has no native module, and no other kompat is installed: "
        "run `pip install -e .` in the directory above it"
    )


def test_who_installs_spark_gets_the_one_that_is_tested() -> None:
    project = tomllib.loads((WHOLE.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]

    [used] = [each for each in extras["spark"] if each.startswith("pyspark")]

    assert used in extras["interop"]
    assert "==" in used
