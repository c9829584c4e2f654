"""`kompat completion`: completion scripts for shells, generated from the commands."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from kompat.cli.command import Parsers, declare, runs

PROGRAM: Final = "kompat"


@dataclass(frozen=True, slots=True)
class Option:
    flags: tuple[str, ...]
    summary: str
    choices: tuple[str, ...]
    takes_value: bool


@dataclass(frozen=True, slots=True)
class Node:
    """A command with its subcommands."""

    path: str  # `kompat topics list`
    summary: str
    options: tuple[Option, ...]
    choices: tuple[str, ...]  # of arguments without a flag
    inner: dict[str, Node] = field(default_factory=dict)

    @property
    def words(self) -> list[str]:
        """All words that may come next."""
        flags = [flag for option in self.options for flag in option.flags if flag.startswith("--")]
        return [*self.inner, *self.choices, *flags]


def add(commands: Parsers, summary: str) -> None:
    parser = declare(
        commands,
        "completion",
        summary,
        examples=[
            'eval "$(kompat completion bash)"            # in ~/.bashrc',
            "kompat completion zsh > ~/.zfunc/_kompat      # in a directory of fpath",
            "kompat completion fish > ~/.config/fish/completions/kompat.fish",
        ],
    )
    parser.add_argument("shell", choices=list(SCRIPTS))
    runs(parser, _print)


def _print(given: argparse.Namespace) -> None:
    from kompat.__main__ import whole_parser

    print(SCRIPTS[given.shell](tree(whole_parser())), end="")  # noqa: T201


# -- the tree of commands ----------------------------------------------------------------------------------------------
def tree(parser: argparse.ArgumentParser, path: str = PROGRAM, summary: str = "") -> Node:
    options, choices, inner = [], [], {}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            summaries = {each.dest: each.help or "" for each in action._choices_actions}
            inner = {
                name: tree(each, f"{path} {name}", summaries.get(name, "")) for name, each in action.choices.items()
            }
        elif action.option_strings:
            options.append(
                Option(
                    tuple(action.option_strings),
                    (action.help or "").replace("\n", " "),
                    tuple(str(each) for each in action.choices or ()),
                    action.nargs != 0,
                )
            )
        elif action.choices:
            choices += [str(each) for each in action.choices]
    return Node(path, summary, tuple(options), tuple(choices), inner)


def nodes(node: Node) -> Iterator[Node]:
    yield node
    for each in node.inner.values():
        yield from nodes(each)


# -- scripts -----------------------------------------------------------------------------------------------------------
def bash(root: Node) -> str:
    """A script that finds the command in the words so far, and offers what may follow."""
    known = "|".join(f'"{node.path}"' for node in nodes(root) if node is not root)
    words = "\n".join(f'        "{node.path}") words="{" ".join(node.words)}" ;;' for node in nodes(root))
    values = "\n".join(
        f'        "{node.path} {flag}") words="{" ".join(option.choices)}" ;;'
        for node in nodes(root)
        for option in node.options
        if option.choices
        for flag in option.flags
    )
    return f"""# Completes the kompat command in bash: eval "$(kompat completion bash)"
_kompat() {{
    local current="${{COMP_WORDS[COMP_CWORD]}}" previous="${{COMP_WORDS[COMP_CWORD-1]}}"
    local place="{PROGRAM}" word words=""
    for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
        case "$place $word" in
        {known}) place="$place $word" ;;
        esac
    done
    case "$place" in
{words}
    esac
    case "$place $previous" in
{values}
    esac
    COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -o default -F _kompat {PROGRAM}
"""


def zsh(root: Node) -> str:
    known = "|".join(f"{_zsh(node.path)}" for node in nodes(root) if node is not root)
    cases = "\n".join(_zsh_case(node) for node in nodes(root))
    values = "\n".join(
        f"    ({_zsh(f'{node.path} {flag}')}) offered=({' '.join(map(_zsh, option.choices))}); files= ;;"
        for node in nodes(root)
        for option in node.options
        if option.choices
        for flag in option.flags
    )
    return f"""#compdef {PROGRAM}
# Completes the kompat command in zsh: kompat completion zsh > DIRECTORY_OF_FPATH/_kompat
_kompat() {{
    local place={PROGRAM} word files=yes
    local -a offered
    for word in "${{(@)words[2,CURRENT-1]}}"; do
        case "$place $word" in
        ({known}) place="$place $word" ;;
        esac
    done
    case "$place" in
{cases}
    esac
    case "$place ${{words[CURRENT-1]}}" in
{values}
    esac
    _describe -V '{PROGRAM}' offered
    [[ -z $files ]] || _files
}}
_kompat "$@"
"""


def _zsh_case(node: Node) -> str:
    offered = [(name, each.summary) for name, each in node.inner.items()] + [(choice, "") for choice in node.choices]
    offered += [(flag, option.summary) for option in node.options for flag in option.flags if flag.startswith("--")]
    listed = " ".join(
        _zsh(f"{name.replace(':', chr(92) + ':')}:{summary}" if summary else name) for name, summary in offered
    )
    return f"    ({_zsh(node.path)}) offered=({listed}) ;;"


def _zsh(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def fish(root: Node) -> str:
    """A script whose lines apply if the words so far, without flags, are the command's path."""
    lines = [
        "# Completes the kompat command in fish: kompat completion fish > ~/.config/fish/completions/kompat.fish",
        "function __kompat_at",
        "    set -l words (commandline -opc)",
        "    set -l place $words[1]",
        "    for word in $words[2..-1]",
        f'        if contains -- "$place $word" {" ".join(_fish(node.path) for node in nodes(root) if node is not root)}',
        '            set place "$place $word"',
        "        end",
        "    end",
        '    test "$place" = "$argv[1]"',
        "end",
    ]
    for node in nodes(root):
        at = f"complete -c {PROGRAM} -n {_fish('__kompat_at ' + _fish(node.path))}"
        lines += [f"{at} -f -a {_fish(name)} -d {_fish(each.summary)}" for name, each in node.inner.items()]
        lines += [f"{at} -f -a {_fish(choice)}" for choice in node.choices]
        for option in node.options:
            flags = " ".join(f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}" for flag in option.flags)
            value = (
                f" -x -a {_fish(' '.join(option.choices))}" if option.choices else " -r" if option.takes_value else ""
            )
            lines.append(f"{at} {flags}{value} -d {_fish(option.summary)}")
    return "\n".join(lines) + "\n"


def _fish(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


SCRIPTS: Final = {"bash": bash, "zsh": zsh, "fish": fish}
