"""A client of any broker of Kafka's protocol. kafka-python has the connections and the messages."""

from __future__ import annotations

import argparse
import logging
import os
import re
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from kompat.cli import codecs
from kompat.cli.command import CommandError, UsageError, password
from kompat.cli.greeting import greet
from kompat.errors import ErrorCode

if TYPE_CHECKING:
    from kafka import KafkaAdminClient

BOOTSTRAP_MS: Final = 10_000
REQUEST_MS: Final = 30_000
DIAL_SECONDS: Final = 5.0
PATIENCE: Final = 15.0  # seconds in which leaders and coordinators may move
PAUSE: Final = 0.2
NO_ERROR: Final = 0
_MOVING: Final = frozenset({3, 5, 6, 14, 15, 16, 41, 75, 100})  # retriable errors, while a cluster elects leaders
_NO_REASONS: Final = ("Bootstrap failed", "not ready; waiting")  # consequences, not reasons
_NOISE: Final = re.compile(r"^Bootstrap connection to \S+ failed: (\w+Error: )?| \(backoff .*\)$")
# Values, and file names.
_ANY_BYTES: Final = ("value", "key", "key_separator", "files", "password_file", "tls_ca", "tls_cert", "tls_key", "data")
# Errors whose names in Kafka do not help.
_WORDS: Final = {
    3: "this topic or partition does not exist",
    69: "this group does not exist",
    100: "this topic does not exist",
}

T = TypeVar("T")


# -- errors ------------------------------------------------------------------------------------------------------------
def error_text(error: Exception) -> str:
    """The text of an error of kafka-python, with the protocol's name of it if it has one, rather than the class name."""
    from kafka.errors import UnknownBrokerIdError

    code = getattr(error, "errno", None)
    text = " ".join(str(part) for part in error.args)
    if isinstance(error, UnknownBrokerIdError):
        return f"broker {text} does not exist"
    if code is None:
        return f"{type(error).__name__}: {text}" if text else type(error).__name__
    return f"{text or getattr(error, 'description', '')} ({error_name(code)})"


def error_name(code: int) -> str:
    """Kafka's name of an error: kafka-python has other names for some."""
    try:
        return ErrorCode(code).name
    except ValueError:
        return f"error {code}"


def refusal(code: int, message: str | None, what: str) -> CommandError:
    """The error of a response, with the broker's message if it has one."""
    from kafka.errors import for_code

    reason = _WORDS.get(code) or message or for_code(code).description or "the broker gave no reason"
    return CommandError(f"{what}: {reason.rstrip('.')} ({error_name(code)})")


def check(code: int, message: str | None, what: str) -> None:
    if code != NO_ERROR:
        raise refusal(code, message, what)


class _Listener(logging.Handler):
    """Keeps the reason of a failed connection: kafka-python retries, and writes the reason only to its log."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.reason = ""

    def emit(self, record: logging.LogRecord) -> None:
        message = record.getMessage()
        if not any(part in message for part in _NO_REASONS):
            self.reason = message


_listener = _Listener()


def quiet() -> None:
    """Turn off kafka-python's log: the command reports an error once."""
    logger = logging.getLogger("kafka")
    logger.propagate = False
    if _listener not in logger.handlers:
        logger.addHandler(_listener)


def _passes(error: Exception) -> bool:
    """Whether a retry may help, and does nothing twice: a request that was not sent had no effect."""
    from kafka.errors import KafkaConnectionError, NodeNotReadyError

    is_unsent = isinstance(error, NodeNotReadyError) or (
        isinstance(error, KafkaConnectionError) and "ECONNREFUSED" in str(error)
    )
    return is_unsent or getattr(error, "errno", None) in _MOVING


# -- settings ----------------------------------------------------------------------------------------------------------
def client_settings(given: argparse.Namespace, defaults: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a client of kafka-python. `--property` takes precedence."""
    found: dict[str, Any] = {
        "bootstrap_servers": given.bootstrap_server.split(","),
        "client_id": "kompat-cli",
        "bootstrap_timeout_ms": BOOTSTRAP_MS,
        **_security(given),
        **more,
    }
    return found | _properties(given.property, defaults)


def _security(given: argparse.Namespace) -> dict[str, Any]:
    is_encrypted = given.tls or given.tls_ca or given.tls_cert
    found: dict[str, Any] = {}
    if given.user:
        secret = password(given)
        if secret is None:
            raise UsageError("--user needs --password-file")
        found |= {
            "sasl_mechanism": given.sasl_mechanism,
            "sasl_plain_username": given.user,
            "sasl_plain_password": secret,
        }
    found["security_protocol"] = ("SASL_" if given.user else "") + ("SSL" if is_encrypted else "PLAINTEXT")
    files = {"ssl_cafile": given.tls_ca, "ssl_certfile": given.tls_cert, "ssl_keyfile": given.tls_key}
    return found | {name: file for name, file in files.items() if file}


def _properties(given: Iterable[tuple[str, str]], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Properties with Kafka's names, converted to kafka-python's names and types."""
    found = {}
    for spelled, text in given:
        name = spelled.replace(".", "_").replace("-", "_")
        if name not in defaults:
            raise UsageError(f"--property {spelled}: the Kafka client does not have this property")
        found[name] = _typed(spelled, text, defaults[name])
    return found


def _typed(name: str, text: str, default: Any) -> Any:
    if isinstance(default, bool):
        if text.lower() not in ("true", "false"):
            raise UsageError(f"--property {name}={text}: the value must be true or false")
        return text.lower() == "true"
    if name == "acks" and text == "all":
        return text
    if isinstance(default, int | float):
        try:
            return type(default)(text)
        except ValueError:
            raise UsageError(f"--property {name}={text}: the value must be a number") from None
    return text


# -- a connection ------------------------------------------------------------------------------------------------------
def opened(given: argparse.Namespace, make: Callable[..., T], defaults: Mapping[str, Any], **more: Any) -> T:
    """Open a client of kafka-python that is connected to a broker."""
    from kafka.errors import KafkaConfigurationError, KafkaError

    quiet()
    codecs.register()
    _check_text(given)
    settings = client_settings(given, defaults, more)
    try:
        _first_of(_addresses(settings), lambda host, port: greet(host, port, settings, DIAL_SECONDS))
        return make(**settings)
    except (KafkaConfigurationError, AssertionError, OSError) as error:
        raise UsageError(f"{given.bootstrap_server}: {error}") from error
    except KafkaError as error:
        reason = _NOISE.sub("", _listener.reason) or error_text(error)
        raise CommandError(f"no broker answers at {given.bootstrap_server}: {reason}") from error


def _addresses(settings: Mapping[str, Any]) -> list[str]:
    given = settings["bootstrap_servers"]  # a list, or a text from a property
    return given.split(",") if isinstance(given, str) else list(given)


def _check_text(given: argparse.Namespace) -> None:
    """Reject names that are not text: kafka-python's own thread would fail, and the command would wait for ever."""
    for name, value in vars(given).items():
        if name not in _ANY_BYTES:
            for text in _texts([header for header, _ in value] if name == "header" else value):
                try:
                    text.encode()
                except UnicodeEncodeError:
                    raise UsageError(f"{name}: {os.fsencode(text)!r} is not UTF-8") from None


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _texts(each)


def dial(addresses: str) -> None:
    """Check that one of the addresses accepts a connection: clients retry for long, and do not report why."""
    _first_of(addresses.split(","), lambda host, port: socket.create_connection((host, port), DIAL_SECONDS).close())


def _first_of(addresses: Iterable[str], visit: Callable[[str, int], None]) -> None:
    reasons = []
    for address in addresses:
        host, port = split_address(address)
        try:
            visit(host, port)
        except OSError as error:
            reasons.append(f"{address.strip()}: {error.strerror or error}")
        else:
            return
    raise CommandError(f"no broker can be reached at {'; '.join(reasons)}")


def split_address(address: str) -> tuple[str, int]:
    host, _, port = address.strip().rpartition(":")
    if not host or not (port.isascii() and port.isdecimal()):
        raise UsageError(f"{address!r} is not HOST:PORT")
    return host.strip("[]"), int(port)


class Kafka:
    """Sends requests to brokers. Errors become CommandErrors."""

    def __init__(self, admin: KafkaAdminClient) -> None:
        self.admin = admin
        self._manager = admin._manager

    def __enter__(self) -> Kafka:
        return self

    def __exit__(self, *_: object) -> None:
        self.admin.close()

    def ask(self, request: Any, node: int | None = None) -> Any:
        """Send a request to any broker, or to a given one."""
        return self.patiently(lambda: self._manager.run(lambda: self._manager.send(request, node_id=node)))

    def run(self, work: Callable[[], Any]) -> Any:
        """Run a coroutine on the event loop of the connections."""
        return self._manager.run(work)

    def send(self, request: Any, node: int) -> Any:
        """The future of a response, for coroutines in `run`."""
        return self._manager.send(request, node_id=node)

    def ask_controller(self, request: Any) -> Any:
        return self.patiently(lambda: self._manager.run(self.admin._send_request_to_controller, request))

    def coordinator(self, group: str) -> int:
        found: int = self.patiently(lambda: self._manager.run(self.admin._find_coordinator_id, group))
        return found

    def ask_coordinator(self, group: str, request: Any) -> Any:
        return self.ask(request, self.coordinator(group))

    def patiently(self, work: Callable[[], T]) -> T:
        """Retry while leaders and coordinators move, or after a broker has failed."""
        from kafka.errors import KafkaError

        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                return work()
            except KafkaError as error:
                if not _passes(error) or time.monotonic() > deadline:
                    raise
                self.admin._controller_id = None
                time.sleep(PAUSE)

    # -- topics ----------------------------------------------------------------------------------------------------
    def topics(self, names: Sequence[str] | None = None) -> list[dict[str, Any]]:
        """Topics from Metadata. A missing topic in `names` is an error."""
        found: list[dict[str, Any]] = self.patiently(lambda: self.admin.describe_topics(names))
        for topic in found if names is not None else ():
            check(topic["error_code"], None, f"topic {topic['name']}")
        return sorted(found, key=lambda topic: topic["name"] or "")

    def cluster(self) -> dict[str, Any]:
        """The brokers and the controller."""
        found: dict[str, Any] = self.patiently(self.admin.describe_cluster)
        return found

    def ends(self, places: Sequence[tuple[str, int]]) -> dict[tuple[str, int], tuple[int, int]]:
        """The start and end offsets of partitions."""
        from kafka.admin import OffsetSpec

        starts, ends = self.offsets(places, OffsetSpec.EARLIEST), self.offsets(places, OffsetSpec.LATEST)
        return {place: (starts[place], ends[place]) for place in places}

    def offsets(self, places: Sequence[tuple[str, int]], spec: Any) -> dict[tuple[str, int], int]:
        from kafka import TopicPartition

        if not places:
            return {}
        specs = {TopicPartition(*place): spec for place in places}
        found = self.patiently(lambda: self.admin.list_partition_offsets(specs))
        return {(place.topic, place.partition): each.offset for place, each in found.items()}


def connect(given: argparse.Namespace, **more: Any) -> Kafka:
    from kafka import KafkaAdminClient

    settings = {"request_timeout_ms": REQUEST_MS, **more}
    return Kafka(opened(given, KafkaAdminClient, KafkaAdminClient.DEFAULT_CONFIG, **settings))
