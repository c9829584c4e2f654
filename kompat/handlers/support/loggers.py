"""The broker's loggers as a config resource (BROKER_LOGGER): their levels, read and changed while it runs.

Levels have Kafka's names. A change lasts until the broker stops, as Kafka's do.
"""

from __future__ import annotations

import logging

from kompat.errors import ErrorCode, KafkaError

ROOT = "root"
LEVELS = {
    "DEBUG": logging.DEBUG,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
    "INFO": logging.INFO,
    "TRACE": logging.DEBUG // 2,
    "WARN": logging.WARNING,
}
SET, DELETE, APPEND = 0, 1, 2


def levels() -> dict[str, str]:
    """Every logger of the broker, and the level in force for it."""
    known = sorted(name for name in logging.root.manager.loggerDict if name.partition(".")[0] == "kompat")
    return {name: _level_name(_logger(name).getEffectiveLevel()) for name in [ROOT, *known]}


def check(name: str, operation: int, level: str | None) -> None:
    """Raise where the change makes no sense."""
    if operation not in (SET, DELETE):
        verb = "APPEND" if operation == APPEND else "SUBTRACT"
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{verb} operation is not allowed for the BROKER_LOGGER resource")
    if name not in levels():
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"Logger {name} does not exist!")
    if operation == DELETE and name == ROOT:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Removing the log level of the root logger is not allowed")
    if operation == SET and level not in LEVELS:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"Cannot set the log level of {name} to {level} as it is not a supported log level. "
            f"Valid log levels are {', '.join(LEVELS)}",
        )


def change(name: str, operation: int, level: str | None) -> None:
    _logger(name).setLevel(logging.NOTSET if operation == DELETE else LEVELS[level or ""])


def _logger(name: str) -> logging.Logger:
    return logging.root if name == ROOT else logging.getLogger(name)


def _level_name(level: int) -> str:
    """The most talkative of Kafka's levels that the logger lets through."""
    return min((value, name) for name, value in LEVELS.items() if value >= min(level, logging.CRITICAL))[1]
