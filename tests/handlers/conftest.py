"""One broker in memory for all tests here; each makes topics of its own."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

import kompat.testing
from tests.handlers import wire

NUMBERS = count()


class Asker:
    """Asks a broker over a socket, with kafka-python's messages by name."""

    def __init__(self, broker: kompat.testing.RunningBroker) -> None:
        self.broker = broker

    def __call__(self, api: str, version: int, /, **fields: Any) -> Any:
        request = build(f"{api}Request", fields)
        return wire.ask((self.broker.host, self.broker.port), request, version)

    def new_topic(self, partitions: int = 1, **configs: str) -> str:
        """A topic that no other test has; settings with underscores for dots."""
        name = f"topic-{next(NUMBERS)}"
        created = self(
            "CreateTopics",
            7,
            topics=[
                {
                    "name": name,
                    "num_partitions": partitions,
                    "replication_factor": 1,
                    "configs": [{"name": k.replace("_", "."), "value": v} for k, v in configs.items()],
                }
            ],
        )
        assert created.topics[0].error_code == 0, created
        return name


def build(name: str, fields: dict[str, Any]) -> Any:
    """A message from plain dicts and lists; what is left out has its default."""
    return _fill(wire.message(name), fields)


def _fill(message: Any, fields: dict[str, Any]) -> Any:
    values = {}
    for field in message._struct._fields:
        value = fields.pop(field.name, field.default)
        if field.is_struct_array() and value is not None:
            nested = getattr(message, field.type_str)
            value = [_fill(nested, dict(each)) for each in value]
        elif field.is_struct() and value is not None:
            value = _fill(getattr(message, field.type_str), dict(value))
        values[field.name] = value
    assert not fields, f"{message.__name__} has no {sorted(fields)}"
    return message(**values)


@pytest.fixture(scope="session")
def running() -> Iterator[kompat.testing.RunningBroker]:
    with kompat.testing.broker() as broker:
        yield broker


@pytest.fixture(scope="session")
def ask(running: kompat.testing.RunningBroker) -> Asker:
    return Asker(running)


@pytest.fixture(scope="session")
def prompt() -> Iterator[Asker]:
    """Asks a broker whose groups do not wait for more members before they assign."""
    delays = ("group.initial.rebalance.delay.ms", "group.consumer.assignment.interval.ms")
    with kompat.testing.broker(dict.fromkeys(delays, 0)) as broker:
        yield Asker(broker)


@pytest.fixture
def topic(prompt: Asker) -> str:
    return prompt.new_topic(partitions=2)
