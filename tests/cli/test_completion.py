"""Scripts for shells: those that are here run, and so show that their scripts do what they should."""

import shutil
import subprocess
from pathlib import Path

import pytest

from kompat.__main__ import COMMANDS, whole_parser
from kompat.cli.completion import SCRIPTS, bash, fish, nodes, tree, zsh

TREE = tree(whole_parser())


def completed(*words: str) -> set[str]:
    listed = " ".join(f"'{word}'" for word in words)
    program = f"{bash(TREE)}\nCOMP_WORDS=({listed}); COMP_CWORD={len(words) - 1}; _kompat; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    done = subprocess.run(["bash", "-c", program], capture_output=True, text=True, check=True)  # noqa: S603, S607
    assert done.stderr == ""
    return set(done.stdout.split())


def test_bash_understands_its_script() -> None:
    subprocess.run(["bash", "-n"], input=bash(TREE), text=True, check=True)  # noqa: S607


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (("kompat", "top"), {"topics"}),
        (("kompat", "topics", "c"), {"create", "configure"}),
        (("kompat", "--version", "topics", "list", "--js"), {"--json"}),
        (("kompat", "topics", "create", "orders", "--repl"), {"--replication-factor", "--replicas"}),
        (("kompat", "bench", "produce", "--compression", "z"), {"zstd"}),
        (("kompat", "completion", ""), {"bash", "zsh", "fish", "--help"}),
        (("kompat", "nonsense", "li"), set()),
    ],
)
def test_bash_offers_what_may_follow(words: tuple[str, ...], offered: set[str]) -> None:
    assert completed(*words) == offered


def test_bash_offers_all_commands() -> None:
    assert completed("kompat", "") == {*COMMANDS, "--help", "--version"}


@pytest.mark.parametrize("script", [zsh, fish])
def test_other_shells_know_every_command_and_flag(script: object) -> None:
    text = SCRIPTS["zsh"](TREE) if script is zsh else SCRIPTS["fish"](TREE)

    for node in nodes(TREE):
        assert node.path in text
        for option in node.options:
            for flag in option.flags:
                if flag.startswith("--"):
                    assert (flag if script is zsh else f"-l {flag[2:]} ") in text
    assert text.count("'") % 2 == 0 or "\\'" in text


OFFERED = [
    (("kompat", "top"), {"topics"}),
    (("kompat", "topics", "c"), {"create", "configure"}),
    (("kompat", "topics", "create", "orders", "--repl"), {"--replication-factor", "--replicas"}),
    (("kompat", "bench", "produce", "--compression", "z"), {"zstd"}),
    (("kompat", "completion", "z"), {"zsh"}),
]


def is_there(shell: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(shutil.which(shell) is None, reason=f"there is no {shell} here")


def run(shell: str, program: str, directory: Path) -> str:
    done = subprocess.run([shell, "-c", program], capture_output=True, text=True, check=True, cwd=directory)  # noqa: S603
    assert done.stderr == ""
    return done.stdout


@is_there("zsh")
@pytest.mark.parametrize(("words", "offered"), OFFERED)
def test_zsh_offers_what_may_follow(words: tuple[str, ...], offered: set[str], tmp_path: Path) -> None:
    """What its completion system is handed: that one chooses by what has been typed."""
    (tmp_path / "_kompat").write_text(zsh(TREE))
    listed = " ".join(f"'{word}'" for word in words)
    program = f"""_describe() {{ print -l -- "${{(@P)3}}" }}; _files() {{ }}
        words=({listed}) CURRENT={len(words)}; . ./_kompat"""
    found = {line.partition(":")[0] for line in run("zsh", program, tmp_path).splitlines()}

    assert {each for each in found if each.startswith(words[-1])} == offered


@is_there("fish")
@pytest.mark.parametrize(("words", "offered"), OFFERED)
def test_fish_offers_what_may_follow(words: tuple[str, ...], offered: set[str], tmp_path: Path) -> None:
    (tmp_path / "kompat.fish").write_text(fish(TREE))
    program = f"source kompat.fish; complete -C '{' '.join(words)}'"

    assert {line.partition("\t")[0] for line in run("fish", program, tmp_path).splitlines()} == offered
