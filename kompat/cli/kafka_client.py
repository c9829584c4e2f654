"""A broker, as commands see it: any that speaks Kafka's protocol. kafka-python has the connections and the messages."""

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
_MOVING: Final = frozenset({3, 5, 6, 14, 15, 16, 41, 75, 100})  # errors that pass, while a cluster finds its leaders
_NO_REASONS: Final = ("Bootstrap failed", "not ready; waiting")  # but what follows from them
_NOISE: Final = re.compile(r"^Bootstrap connection to \S+ failed: (\w+Error: )?| \(backoff .*\)$")
# Values, and names of files.
_ANY_BYTES: Final = ("value", "key", "key_separator", "files", "password_file", "tls_ca", "tls_cert", "tls_key", "data")
# Where Kafka's words for an error are no help.
_WORDS: Final = {3: "there is no such topic or partition", 69: "there is no such group", 100: "there is no such topic"}

T = TypeVar("T")


# -- telling what is wrong ---------------------------------------------------------------------------------------------
def told(error: Exception) -> str:
    """kafka-python's errors, without its class names where the protocol has a name for them."""
    from kafka.errors import UnknownBrokerIdError

    code = getattr(error, "errno", None)
    said = " ".join(str(part) for part in error.args)
    if isinstance(error, UnknownBrokerIdError):
        return f"there is no broker {said}"
    if code is None:
        return f"{type(error).__name__}: {said}" if said else type(error).__name__
    return f"{said or getattr(error, 'description', '')} ({error_name(code)})"


def error_name(code: int) -> str:
    """Kafka's own: kafka-python has others for some."""
    try:
        return ErrorCode(code).name
    except ValueError:
        return f"error {code}"


def refusal(code: int, message: str | None, what: str) -> CommandError:
    """What a broker answered, in its own words where it has some."""
    from kafka.errors import for_code

    reason = _WORDS.get(code) or message or for_code(code).description or "the broker does not say why"
    return CommandError(f"{what}: {reason.rstrip('.')} ({error_name(code)})")


def check(code: int, message: str | None, what: str) -> None:
    if code != NO_ERROR:
        raise refusal(code, message, what)


class _Listener(logging.Handler):
    """kafka-python tries again and again, and tells its log alone why."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.reason = ""

    def emit(self, record: logging.LogRecord) -> None:
        message = record.getMessage()
        if not any(part in message for part in _NO_REASONS):
            self.reason = message


_listener = _Listener()


def quiet() -> None:
    """kafka-python's log is for nobody: errors are told once, by the command."""
    logger = logging.getLogger("kafka")
    logger.propagate = False
    if _listener not in logger.handlers:
        logger.addHandler(_listener)


def _passes(error: Exception) -> bool:
    """Whether to try again helps, and does nothing twice: what was not sent was not done."""
    from kafka.errors import KafkaConnectionError, NodeNotReadyError

    is_unsent = isinstance(error, NodeNotReadyError) or (
        isinstance(error, KafkaConnectionError) and "ECONNREFUSED" in str(error)
    )
    return is_unsent or getattr(error, "errno", None) in _MOVING


# -- settings ----------------------------------------------------------------------------------------------------------
def client_settings(given: argparse.Namespace, defaults: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Of a client of kafka-python. What is given as a property wins."""
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
    """Kafka's names, with dots, as kafka-python writes them; values of the type that it expects."""
    found = {}
    for spelled, text in given:
        name = spelled.replace(".", "_").replace("-", "_")
        if name not in defaults:
            raise UsageError(f"--property {spelled}: the Kafka client has no such setting")
        found[name] = _typed(spelled, text, defaults[name])
    return found


def _typed(name: str, text: str, default: Any) -> Any:
    if isinstance(default, bool):
        if text.lower() not in ("true", "false"):
            raise UsageError(f"--property {name}={text}: true or false")
        return text.lower() == "true"
    if name == "acks" and text == "all":
        return text
    if isinstance(default, int | float):
        try:
            return type(default)(text)
        except ValueError:
            raise UsageError(f"--property {name}={text}: a number") from None
    return text


# -- a connection ------------------------------------------------------------------------------------------------------
def opened(given: argparse.Namespace, make: Callable[..., T], defaults: Mapping[str, Any], **more: Any) -> T:
    """A client of kafka-python that has found a broker."""
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
        reason = _NOISE.sub("", _listener.reason) or told(error)
        raise CommandError(f"no broker answers at {given.bootstrap_server}: {reason}") from error


def _addresses(settings: Mapping[str, Any]) -> list[str]:
    given = settings["bootstrap_servers"]  # a list, or a property's text
    return given.split(",") if isinstance(given, str) else list(given)


def _check_text(given: argparse.Namespace) -> None:
    """Where names are not text, kafka-python's own thread ends, and whoever asked waits for ever."""
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
    """At least one of them has to take a connection: clients would try for long, and not say why."""
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
    """Asks brokers, and tells what they refuse."""

    def __init__(self, admin: KafkaAdminClient) -> None:
        self.admin = admin
        self._manager = admin._manager

    def __enter__(self) -> Kafka:
        return self

    def __exit__(self, *_: object) -> None:
        self.admin.close()

    def ask(self, request: Any, node: int | None = None) -> Any:
        """Any broker, or one of them."""
        return self.patiently(lambda: self._manager.run(lambda: self._manager.send(request, node_id=node)))

    def run(self, work: Callable[[], Any]) -> Any:
        """A coroutine, where the connections are."""
        return self._manager.run(work)

    def send(self, request: Any, node: int) -> Any:
        """For coroutines that `run` runs: what will be the answer."""
        return self._manager.send(request, node_id=node)

    def ask_controller(self, request: Any) -> Any:
        return self.patiently(lambda: self._manager.run(self.admin._send_request_to_controller, request))

    def coordinator(self, group: str) -> int:
        found: int = self.patiently(lambda: self._manager.run(self.admin._find_coordinator_id, group))
        return found

    def ask_coordinator(self, group: str, request: Any) -> Any:
        return self.ask(request, self.coordinator(group))

    def patiently(self, work: Callable[[], T]) -> T:
        """Leaders and coordinators may be on the move, and a broker may just have died: others will be asked."""
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
        """Metadata's topics; one that is asked for by name and is not there is an error."""
        found: list[dict[str, Any]] = self.patiently(lambda: self.admin.describe_topics(names))
        for topic in found if names is not None else ():
            check(topic["error_code"], None, f"topic {topic['name']}")
        return sorted(found, key=lambda topic: topic["name"] or "")

    def cluster(self) -> dict[str, Any]:
        """The brokers, and which of them is the controller."""
        found: dict[str, Any] = self.patiently(self.admin.describe_cluster)
        return found

    def ends(self, places: Sequence[tuple[str, int]]) -> dict[tuple[str, int], tuple[int, int]]:
        """Where the logs of partitions start and end."""
        from kafka.admin import OffsetSpec

        starts, ends = self.offsets(places, OffsetSpec.EARLIEST), self.offsets(places, OffsetSpec.LATEST)
        return {place: (starts[place], ends[place]) for place in places}

    def offsets(self, places: Sequence[tuple[str, int]], spec: Any) -> dict[tuple[str, int], int]:
        from kafka import TopicPartition

        if not places:
            return {}
        asked = {TopicPartition(*place): spec for place in places}
        found = self.patiently(lambda: self.admin.list_partition_offsets(asked))
        return {(place.topic, place.partition): each.offset for place, each in found.items()}


def connect(given: argparse.Namespace, **more: Any) -> Kafka:
    from kafka import KafkaAdminClient

    settings = {"request_timeout_ms": REQUEST_MS, **more}
    return Kafka(opened(given, KafkaAdminClient, KafkaAdminClient.DEFAULT_CONFIG, **settings))
