"""All clients by name."""

from collections.abc import Callable
from typing import Any

from interop_tests.support.clients.aio import AioKafka
from interop_tests.support.clients.base import Client
from interop_tests.support.clients.confluent import Confluent
from interop_tests.support.clients.foreign import Go, Java
from interop_tests.support.clients.kafka_python import KafkaPython
from interop_tests.support.clients.kcat import Kcat

CLIENTS = ("confluent", "kafka-python", "aiokafka", "java", "java-3.9", "franz", "sarama", "kcat")


def client_named(name: str, fixture: Callable[[str], Any]) -> Client:
    """The client; those that live in a process of their own get it from the fixture of that name."""
    makers: dict[str, Callable[[], Client]] = {
        "confluent": Confluent,
        "kafka-python": KafkaPython,
        "aiokafka": AioKafka,
        "kcat": Kcat,
        "java": lambda: Java("java", fixture("java")),
        "java-3.9": lambda: Java("java-3.9", fixture("old_java")),
        "franz": lambda: Go("franz", fixture("golang")),
        "sarama": lambda: Go("sarama", fixture("golang")),
    }
    return makers[name]()
