"""The common parts of all commands: their declaration, their errors, and the flags of connections."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final

from kompat.cli.arguments import setting
from kompat.cli.interrupts import INTERRUPTED, ended_by_interrupt

FAILED: Final = 1
WRONG_USAGE: Final = 2

BOOTSTRAP_VARIABLE: Final = "KOMPAT_BOOTSTRAP_SERVER"
HTTP_VARIABLE: Final = "KOMPAT_HTTP_URL"
DEBUG_VARIABLE: Final = "KOMPAT_DEBUG"
DEFAULT_BOOTSTRAP: Final = "127.0.0.1:9092"
DEFAULT_HTTP: Final = "http://127.0.0.1:8080"
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")

Work = Callable[[argparse.Namespace], "int | None"]
Parsers = Any  # argparse has no public name for what add_subparsers returns


class CommandError(Exception):
    """An error whose text is printed as it is, in one line."""

    status = FAILED


class UsageError(CommandError):
    """The arguments are invalid, or contradict each other."""

    status = WRONG_USAGE


# -- declaring ---------------------------------------------------------------------------------------------------------
def declare(
    commands: Parsers, name: str, summary: str, *, examples: Sequence[str], description: str = ""
) -> argparse.ArgumentParser:
    """Declare a command or subcommand, with examples in its help."""
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=summary,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description=description or f"{summary[0].upper()}{summary[1:]}" + ("" if summary.endswith("?") else "."),
        epilog="examples:\n" + "\n".join(f"  {example}" for example in examples),
        allow_abbrev=False,
    )
    return parser


def subcommands(parser: argparse.ArgumentParser) -> Parsers:
    """Declare subcommands. Without one, the command lists them."""
    parser.set_defaults(run=lambda _: show_help(parser))
    return parser.add_subparsers(metavar="COMMAND", dest="subcommand")


def show_help(parser: argparse.ArgumentParser) -> int:
    parser.print_help()
    return WRONG_USAGE


def runs(parser: argparse.ArgumentParser, work: Work) -> None:
    """Set the function of a command. Its errors become one line and an exit status."""
    parser.set_defaults(run=lambda given: run(given, work))


# -- flags -------------------------------------------------------------------------------------------------------------
def add_kafka(parser: argparse.ArgumentParser) -> None:
    """Add the flags of commands that use a Kafka listener."""
    flags = parser.add_argument_group("broker")
    flags.add_argument(
        "--bootstrap-server",
        metavar="HOST:PORT,…",
        default=os.environ.get(BOOTSTRAP_VARIABLE) or DEFAULT_BOOTSTRAP,
        help=f"brokers to bootstrap from (${BOOTSTRAP_VARIABLE}, else {DEFAULT_BOOTSTRAP})",
    )
    flags.add_argument(
        "--property",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        type=setting,
        help="set a configuration property of the Kafka client",
    )
    flags.add_argument(
        "--sasl-mechanism", choices=MECHANISMS, default="SCRAM-SHA-256", help="SASL mechanism for --user"
    )
    _add_secrets(flags)


def add_http(parser: argparse.ArgumentParser, *, with_secrets: bool = True) -> None:
    """Add the flags of commands that use kompat's HTTP port."""
    flags = parser.add_argument_group("HTTP port")
    flags.add_argument(
        "--http",
        metavar="URL",
        default=os.environ.get(HTTP_VARIABLE) or DEFAULT_HTTP,
        help=f"URL of kompat's HTTP port (${HTTP_VARIABLE}, else {DEFAULT_HTTP})",
    )
    if with_secrets:
        _add_secrets(flags)


def _add_secrets(flags: Any) -> None:
    flags.add_argument("--user", metavar="NAME", help="user name for SASL or HTTP Basic authentication")
    flags.add_argument("--password-file", metavar="FILE", help="file whose first line is the user's password")
    flags.add_argument(
        "--tls", action="store_true", help="use TLS, and trust the certificate authorities of this system"
    )
    flags.add_argument("--tls-ca", metavar="FILE", help="use TLS, and trust these certificate authorities (PEM)")
    flags.add_argument("--tls-cert", metavar="FILE", help="client certificate (PEM)")
    flags.add_argument("--tls-key", metavar="FILE", help="private key of the client certificate (PEM)")


def add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON")


def password(given: argparse.Namespace) -> str | None:
    if given.password_file is None:
        return None
    if not given.user:
        raise UsageError("--password-file needs --user")
    try:
        with open(given.password_file, encoding="utf-8") as file:
            return file.readline().rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"the password cannot be read: {error}") from None


def add_yes(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--yes", action="store_true", help="do not ask for confirmation (which happens only on a terminal)"
    )


def confirm(given: argparse.Namespace, what: str) -> None:
    """Ask for confirmation of something irreversible on a terminal. Programs need not confirm."""
    if given.yes or not sys.stdin.isatty():
        return
    sys.stderr.write(f"{what}? [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise CommandError("nothing was done")


# -- running -----------------------------------------------------------------------------------------------------------
def run(given: argparse.Namespace, work: Work) -> int:
    """Run a command. It ends with an exit status and at most one line on stderr."""
    try:
        with ended_by_interrupt():
            status = work(given) or 0
            sys.stdout.flush()
    except CommandError as error:
        return fail(str(error), error.status)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # the reader of the pipe has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # otherwise the interpreter reports it again at exit
        return 0
    except Exception as error:
        if os.environ.get(DEBUG_VARIABLE):
            raise
        return fail(_reason(error), FAILED)
    return status


def fail(reason: str, status: int) -> int:
    print(f"kompat: {' '.join(reason.split())}", file=sys.stderr)  # noqa: T201
    return status


def _reason(error: Exception) -> str:
    errors = sys.modules.get("kafka.errors")
    if errors is not None and isinstance(error, errors.KafkaError):
        from kompat.cli.kafka_client import error_text

        return error_text(error)
    if isinstance(error, OSError):
        return str(error)
    if isinstance(error, UnicodeEncodeError):
        return f"an argument is not UTF-8: {os.fsencode(error.object)!r}"
    return f"internal error: {type(error).__name__}: {error} ({DEBUG_VARIABLE}=1 shows where)"
