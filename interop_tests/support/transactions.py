"""Transactions by every client that has them."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from aiokafka import AIOKafkaProducer
from confluent_kafka import Producer
from kafka import KafkaProducer

from interop_tests.support.clients.confluent import producer

# How often a broker of the tests' own looks for transactions that are past their time; Kafka does every ten seconds.
FAST_TRANSACTIONS = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "200"}
CALL_SECONDS = 30.0
TRANSACTORS = ("confluent", "kafka-python", "aiokafka", "java", "java-3.9", "franz", "sarama")


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """Values for partition 0, and whether they are to stay."""

    values: tuple[str, ...]
    commit: bool


def transactional(bootstrap: str, transactional_id: str, **settings: object) -> Producer:
    """A librdkafka producer that is ready to begin; a setting's dots are written as underscores."""
    dotted = {name.replace("_", "."): value for name, value in settings.items()}
    opened = producer(bootstrap, **{"transactional.id": transactional_id, **dotted})
    opened.init_transactions(CALL_SECONDS)
    return opened


def _confluent(bootstrap: str, topic: str, transactional_id: str, transactions: Sequence[Transaction]) -> None:
    opened = transactional(bootstrap, transactional_id)
    for transaction in transactions:
        opened.begin_transaction()
        for value in transaction.values:
            opened.produce(topic, value, partition=0)
        opened.flush(CALL_SECONDS)
        opened.commit_transaction(CALL_SECONDS) if transaction.commit else opened.abort_transaction(CALL_SECONDS)


def _kafka_python(bootstrap: str, topic: str, transactional_id: str, transactions: Sequence[Transaction]) -> None:
    opened = KafkaProducer(bootstrap_servers=bootstrap, transactional_id=transactional_id)
    opened.init_transactions()
    for transaction in transactions:
        opened.begin_transaction()
        for value in transaction.values:
            opened.send(topic, value.encode(), partition=0)
        opened.flush(CALL_SECONDS)
        opened.commit_transaction() if transaction.commit else opened.abort_transaction()
    opened.close()


async def _aiokafka(bootstrap: str, topic: str, transactional_id: str, transactions: Sequence[Transaction]) -> None:
    async with AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=transactional_id) as opened:
        for transaction in transactions:
            await opened.begin_transaction()
            for value in transaction.values:
                await opened.send_and_wait(topic, value.encode(), partition=0)
            await (opened.commit_transaction() if transaction.commit else opened.abort_transaction())


def transact(
    name: str,
    bootstrap: str,
    topic: str,
    transactional_id: str,
    transactions: Sequence[Transaction],
    fixture: Callable[[str], Any],
) -> None:
    """Run the transactions with the client of that name; those with a process of their own get it from the fixture."""
    match name:
        case "confluent":
            _confluent(bootstrap, topic, transactional_id, transactions)
        case "kafka-python":
            _kafka_python(bootstrap, topic, transactional_id, transactions)
        case "aiokafka":
            asyncio.run(_aiokafka(bootstrap, topic, transactional_id, transactions))
        case _:
            worker = fixture({"java": "java", "java-3.9": "old_java"}.get(name, "golang"))
            wanted = [asdict(transaction) for transaction in transactions]
            arguments = {"topic": topic, "transactional_id": transactional_id, "transactions": wanted}
            worker.call("transact", bootstrap, client=name, **arguments)
