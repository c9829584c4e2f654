"""How commands end, what they say then, and what they cost those who do not use them."""

import argparse
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from kompat.__main__ import COMMANDS, main, parser_of, whole_parser
from kompat.cli import reference
from kompat.cli.command import CommandError, UsageError, run
from kompat.cli.kafka_client import client_settings, split_address
from tests.cli.support import clean_environment

LEAVES = list(reference.leaves(whole_parser()))


def ended(error: BaseException | None) -> int:
    def work(_: argparse.Namespace) -> None:
        if error is not None:
            raise error

    return run(argparse.Namespace(), work)


def test_every_end_is_a_status_and_at_most_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert ended(None) == 0
    assert ended(KeyboardInterrupt()) == 130
    assert capsys.readouterr().err == ""
    assert ended(CommandError("it is\nbroken")) == 1
    assert ended(UsageError("which?")) == 2
    assert ended(OSError(2, "no such file", "x")) == 1
    assert ended(ZeroDivisionError("bug")) == 1
    said = capsys.readouterr().err.splitlines()
    assert said[:2] == ["kompat: it is broken", "kompat: which?"]
    assert len(said) == 4
    assert "KOMPAT_DEBUG" in said[3]


def test_a_reader_that_has_had_enough_is_no_failure() -> None:
    command = (
        f"{shlex.join([sys.executable, '-m', 'kompat', 'completion', 'fish'])} | head -c 1; echo ${{PIPESTATUS[0]}}"
    )
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)  # noqa: S603, S607

    assert done.stdout == "#0\n"
    assert done.stderr == ""


def test_a_mistake_in_the_command_is_told_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    for given in (["topics", "create"], ["no-such"], ["topics", "no-such"], ["consume", "t", "--nonsense"]):
        with pytest.raises(SystemExit) as raised:
            main(given)
        said = capsys.readouterr().err
        assert raised.value.code == 2
        assert said.startswith("kompat: ")
        assert said.count("\n") == 1


def test_a_command_that_needs_another_word_says_which_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    for given, word in (([], "topics"), (["topics"], "create"), (["dlq"], "redrive"), (["cluster"], "drain")):
        assert main(given) == 2
        told = capsys.readouterr()
        assert told.out.startswith("usage: kompat ")
        assert f"\n    {word} " in told.out
        assert told.err == ""


def test_only_the_given_command_is_looked_into() -> None:
    """A broker has to be up within a blink: nothing of the other commands is imported."""
    program = (
        "import sys; from kompat.__main__ import main, parser_of\n"
        "parser_of('start').parse_args(['start'])\n"
        "try: main(['--version'])\n"
        "except SystemExit: pass\n"
        "print(sorted(name for name in sys.modules if name.startswith(('kafka', 'kompat.', 'rocksdict', 'msgspec'))))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)  # noqa: S603

    assert done.stdout.splitlines()[1] == "['kompat.__main__']"


@pytest.mark.parametrize("leaf", LEAVES, ids=lambda leaf: leaf.prog)
def test_every_command_has_examples_that_it_understands(leaf: argparse.ArgumentParser) -> None:
    found = reference.examples(leaf)
    assert found
    assert leaf.get_default("run") is not None
    for example in found:
        for part in example.split("|"):
            words = shlex.split(part, comments=True)
            if words[0] == "kompat" and words != ["kompat"]:
                words = words[1 : words.index(">")] if ">" in words else words[1:]
                parser_of(words[0]).parse_args(words)


@pytest.mark.parametrize("leaf", LEAVES, ids=lambda leaf: leaf.prog)
def test_every_flag_says_what_it_is_for(leaf: argparse.ArgumentParser) -> None:
    assert [action.option_strings for action in leaf._actions if action.option_strings and not action.help] == []


def test_help_can_be_printed_in_any_width(monkeypatch: pytest.MonkeyPatch) -> None:
    """argparse takes a percent sign in a help text for a mistake, but not before it is asked."""
    for width in ("40", "120"):
        monkeypatch.setenv("COLUMNS", width)
        for leaf in LEAVES:
            assert leaf.prog in leaf.format_help()


def test_the_reference_is_that_of_the_commands() -> None:
    assert reference.PAGE.read_text(encoding="utf-8") == reference.page(), "python -m kompat.cli.reference"


def test_variables_of_commands_are_no_settings_of_a_broker() -> None:
    from kompat.config.load import load

    environ = {"KOMPAT_BOOTSTRAP_SERVER": "x:1", "KOMPAT_HTTP_URL": "http://x", "KOMPAT_DEBUG": "1"}
    assert load({"data": ":memory:"}, environ=environ)["log.dirs"] == load({"data": ":memory:"}, environ={})["log.dirs"]


# -- whom to talk to ---------------------------------------------------------------------------------------------------
DEFAULTS = {"linger_ms": 0, "check_crcs": True, "client_id": "", "acks": -1}


def flags(*given: str) -> argparse.Namespace:
    return parser_of("topics").parse_args(["topics", "list", *given])


def test_flags_become_settings_of_the_client(tmp_path: Path) -> None:
    secret = tmp_path / "password"
    secret.write_text("geheim\n")

    found = client_settings(
        flags(
            *("--bootstrap-server", "a:1,b:2", "--user", "alice", "--password-file", str(secret), "--tls-ca", "ca.pem"),
            *("--property", "linger.ms=7", "--property", "check-crcs=false", "--property", "acks=all"),
        ),
        DEFAULTS,
        {"linger_ms": 1},
    )

    assert found["bootstrap_servers"] == ["a:1", "b:2"]
    assert found["security_protocol"] == "SASL_SSL"
    assert (found["sasl_plain_username"], found["sasl_plain_password"]) == ("alice", "geheim")
    assert found["ssl_cafile"] == "ca.pem"
    assert (found["linger_ms"], found["check_crcs"], found["acks"]) == (7, False, "all")


@pytest.mark.parametrize(
    "given",
    [
        ("--user", "alice"),
        ("--property", "no.such=1"),
        ("--property", "linger.ms=x"),
        ("--property", "check_crcs=maybe"),
        ("--password-file", "/dev/null"),
    ],
)
def test_what_a_client_cannot_be_given(given: tuple[str, ...]) -> None:
    parsed = flags(*given)
    if "--password-file" in given:
        parsed.tls = parsed.user = None
        from kompat.cli.command import password

        with pytest.raises(UsageError):
            password(parsed)
        return
    with pytest.raises(UsageError):
        client_settings(parsed, DEFAULTS, {})


def test_addresses() -> None:
    assert split_address("[::1]:9092") == ("::1", 9092)
    for text in ("nowhere", "x:", ":1", "x:y"):
        with pytest.raises(UsageError):
            split_address(text)


def test_the_variable_says_where_brokers_are_and_a_flag_wins() -> None:
    program = [sys.executable, "-m", "kompat", "topics", "list"]
    environ = clean_environment({"KOMPAT_BOOTSTRAP_SERVER": "127.0.0.1:1"})
    for more, where in (((), "127.0.0.1:1"), (("--bootstrap-server", "127.0.0.1:2"), "127.0.0.1:2")):
        done = subprocess.run([*program, *more], capture_output=True, text=True, check=False, env=environ)  # noqa: S603
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr == f"kompat: no broker can be reached at {where}: {os.strerror(111)}\n"


def test_all_commands_have_modules() -> None:
    assert {leaf.prog.split()[1] for leaf in LEAVES} == set(COMMANDS)
