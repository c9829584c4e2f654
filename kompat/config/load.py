"""Settings at the start: flags over environment over file over defaults. An invalid setting stops the start."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace

from kompat.config.broker import DEFINITIONS, BrokerConfig, definition
from kompat.config.listeners import parse_listener
from kompat.config.topics import topic_config
from kompat.errors import ConfigError, KafkaError

__all__ = ["BrokerConfig", "assignments", "load", "read_properties", "topic_config"]

ENV_PREFIX = "KOMPAT_"
CONFIG_VARIABLE = "KOMPAT_CONFIG"  # the settings file, as --config
NOT_SETTINGS = frozenset({CONFIG_VARIABLE, "KOMPAT_BOOTSTRAP_SERVER", "KOMPAT_HTTP_URL", "KOMPAT_DEBUG"})  # of commands

_SHORT = {
    "data": "log.dirs",
    "node-id": "node.id",
    "http-host": "kompat.http.host",
    "http-port": "kompat.http.port",
    "cluster": "kompat.cluster.members",
    "cluster-listener": "kompat.cluster.listener",
    "cluster-secret-file": "kompat.cluster.secret.file",
}
_WORDS_FOR_NUMBERS = {"http-port": {"none": "-1"}}  # words that stand for a number
_ADDRESS = ("host", "port", "advertised")  # these are combined with those of the layers below
_SHORTHANDS = frozenset({*_SHORT, *_ADDRESS})


def load(
    flags: Mapping[str, str] | None = None, *, file: str | None = None, environ: Mapping[str, str] | None = None
) -> BrokerConfig:
    """Load the settings. `flags` has settings by name, and the shorthands host, port, data, node-id, http-port, advertised."""
    environ = os.environ if environ is None else environ
    file = file or environ.get(CONFIG_VARIABLE)
    given: dict[str, str] = {}
    origin: dict[str, str] = {}
    if file:
        _lay(given, origin, {name: (value, f"{file}:{line}") for line, name, value in read_properties(file)})
    _lay(given, origin, _from_environment(environ))
    _lay(given, origin, {name: (value, _flag(name)) for name, value in (flags or {}).items()})
    for name in given:
        _check(name, given[name], origin[name])
    try:
        return BrokerConfig(given)
    except KafkaError as wrong:
        raise ConfigError(str(wrong)) from None


def _flag(name: str) -> str:
    return f"--{name}" if name in _SHORTHANDS else f"--set {name}"


def assignments(texts: Iterable[str]) -> dict[str, str]:
    """Parse `name=value` texts, as for --set."""
    found = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not (name.strip() and equals):
            raise ConfigError(f"--set {text}: expected name=value")
        found[name.strip()] = value
    return found


def read_properties(file: str) -> list[tuple[int, str, str]]:
    """Line number, name and value of each line `name=value`; `#` and `!` begin comments, a final backslash continues the line."""
    try:
        with open(file, encoding="utf-8") as opened:
            lines = opened.read().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file}: cannot be read: {error}") from None
    found = []
    pending, start = "", 0
    for number, raw in enumerate(lines, 1):
        line = raw.strip()
        if not pending and (not line or line[0] in "#!"):
            continue
        start = start if pending else number
        pending += line
        if pending.endswith("\\"):
            pending = pending[:-1]
            continue
        found.append((start, *_split(file, start, pending)))
        pending = ""
    if pending:
        found.append((start, *_split(file, start, pending)))
    return found


def _split(file: str, number: int, line: str) -> tuple[str, str]:
    ends = [at for at in (line.find("="), line.find(":")) if at > 0]
    if not ends:
        raise ConfigError(f"{file}:{number}: expected name=value, found {line!r}")
    return line[: min(ends)].strip(), line[min(ends) + 1 :].strip()


def _from_environment(environ: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    variables = [name for name in environ if name.startswith(ENV_PREFIX) and name not in NOT_SETTINGS]
    if not variables:
        return {}
    names = {variable_of(name): name for name in (*DEFINITIONS, *_SHORTHANDS)}
    found = {}
    for variable in variables:
        if variable not in names:
            raise ConfigError(f"{variable}: this setting does not exist")
        found[names[variable]] = (environ[variable], variable)
    return found


def variable_of(name: str) -> str:
    """The environment variable of a setting: `log.retention.ms` is KOMPAT_LOG_RETENTION_MS."""
    return ENV_PREFIX + name.removeprefix("kompat.").replace(".", "_").replace("-", "_").upper()


def _lay(given: dict[str, str], origin: dict[str, str], layer: Mapping[str, tuple[str, str]]) -> None:
    """Add a layer over those below."""
    for name, (value, where) in layer.items():
        if name not in _ADDRESS:
            full = _SHORT.get(name, name)
            given[full], origin[full] = _WORDS_FOR_NUMBERS.get(name, {}).get(value, value), where
    address = {name: layer[name] for name in _ADDRESS if name in layer}
    if not address:
        return
    first, *others = given.get("listeners", DEFINITIONS["listeners"].default or "").split(",")
    listener = parse_listener("listeners", first.strip())
    if "host" in address:
        listener = replace(listener, host=address["host"][0].strip("[]"))
    if "port" in address:
        listener = replace(listener, port=_port(*address["port"]))
    if "host" in address or "port" in address:
        where = (address.get("host") or address["port"])[1]
        given["listeners"], origin["listeners"] = ",".join([str(listener), *others]), where
    if "advertised" in address:
        value, where = address["advertised"]
        given["advertised.listeners"], origin["advertised.listeners"] = f"{listener.name}://{value}", where


def _port(value: str, where: str) -> int:
    if not (value.isascii() and value.isdigit() and int(value) <= 65535):
        raise ConfigError(f"{where}: {value!r} is not a port")
    return int(value)


def _check(name: str, value: str, where: str) -> None:
    """Check a setting here, too, though BrokerConfig does: the error can name the file or the flag."""
    found = definition(name)
    if found is None:
        raise ConfigError(f"{where}: unknown setting {name}{_nearest(name)}")
    try:
        found.parse(value)
    except KafkaError as wrong:
        raise ConfigError(f"{where}: {wrong}") from None


def _nearest(name: str) -> str:
    from difflib import get_close_matches  # only for a start that fails

    near = get_close_matches(name, list(DEFINITIONS), n=1)
    return f", did you mean {near[0]}?" if near else ""
