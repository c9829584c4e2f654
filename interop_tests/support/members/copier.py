"""Members that copy what they read to another topic, in transactions: `python -m interop_tests.support.members.copier`.

`copy.output` and `copy.transactional.id` come with the consumer's settings.
"""

import contextlib
import time
from collections.abc import Callable

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka import Message as RawMessage

from interop_tests.support.members.serve import POLL_SECONDS, Order, Reporter, serve

BATCH = 25
ABORT_EVERY = 5
RETRY_SECONDS = 60.0
TRANSACTION_MS = 60_000


def _error(raised: KafkaException) -> KafkaError:
    error: KafkaError = raised.args[0]
    return error


class _Life:
    """From one start of the producer to the error that ends it."""

    def __init__(self, order: Order, reporter: Reporter) -> None:
        config = dict(order.config)
        self._output = config.pop("copy.output")
        self._reporter = reporter
        self._number = 0
        common = {
            "bootstrap.servers": order.bootstrap,
            "log_level": 0,
            "reconnect.backoff.ms": 50,
            "reconnect.backoff.max.ms": 500,
            # Having begun anew with the bootstrap servers, librdkafka waits for ever to commit offsets in a transaction.
            "metadata.recovery.strategy": "none",
        }
        self._producer = Producer(
            {
                **common,
                "transactional.id": config.pop("copy.transactional.id"),
                "transaction.timeout.ms": TRANSACTION_MS,
                "linger.ms": 0,
            }
        )
        self._consumer = Consumer(
            {
                **common,
                "group.id": order.group,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "fetch.wait.max.ms": 100,
                **config,
            }
        )
        self._input = list(order.topics)

    def run(self) -> None:
        with contextlib.ExitStack() as stack:
            stack.callback(self._consumer.close)
            self._patiently(lambda: self._producer.init_transactions(10))
            self._consumer.subscribe(self._input)
            while not self._reporter.stop.is_set():
                self._reporter.assignment((place.topic, place.partition) for place in self._consumer.assignment())
                messages = [message for message in self._consumer.consume(BATCH, POLL_SECONDS) if not message.error()]
                if messages:
                    self._copy(messages)

    def _copy(self, messages: list[RawMessage]) -> None:
        self._number += 1
        is_changing_its_mind = self._number % ABORT_EVERY == 0
        try:
            self._producer.begin_transaction()
            for message in messages:
                self._producer.produce(self._output, message.value(), partition=message.partition())
            if is_changing_its_mind:
                self._producer.flush(10)
                self._give_up()
                return
            done = {(message.topic(), message.partition()): message.offset() + 1 for message in messages}
            offsets = [TopicPartition(*place, offset=offset) for place, offset in done.items()]
            membership = self._consumer.consumer_group_metadata()
            self._patiently(lambda: self._producer.send_offsets_to_transaction(offsets, membership, 10))
            self._patiently(lambda: self._producer.commit_transaction(10))
            self._reporter.committed(done)
        except KafkaException as raised:
            if not _error(raised).txn_requires_abort():
                raise
            self._reporter.problem(raised)
            self._give_up()

    def _give_up(self) -> None:
        """Abort, and read again from where the last transaction ended."""
        self._patiently(lambda: self._producer.abort_transaction(10))
        owned = self._consumer.assignment()
        if owned:
            for place in self._patiently(lambda: self._consumer.committed(owned, 10)):
                place.offset = max(place.offset, 0)
                with contextlib.suppress(KafkaException):  # it may be somebody else's by now, who starts there as well
                    self._consumer.seek(place)

    def _patiently(self, call: Callable[[], list[TopicPartition]]) -> list[TopicPartition]:
        """Calls that time out while the broker is away are to be made again."""
        deadline = time.monotonic() + RETRY_SECONDS
        while True:
            try:
                return call()
            except KafkaException as raised:
                error = _error(raised)
                is_temporary = error.retriable() or error.code() in (KafkaError._TIMED_OUT, KafkaError._TRANSPORT)
                if not is_temporary or error.txn_requires_abort() or time.monotonic() > deadline:
                    raise


def _live(order: Order, reporter: Reporter) -> None:
    """Starts again after an error that ends the producer, as whoever runs such a program does."""
    while not reporter.stop.is_set():
        try:
            _Life(order, reporter).run()
        except KafkaException as raised:
            reporter.problem(raised)


if __name__ == "__main__":
    serve(_live)
