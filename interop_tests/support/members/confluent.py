"""Members on confluent-kafka: `python -m interop_tests.support.members.confluent`."""

import time

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from interop_tests.support.members.serve import POLL_SECONDS, Order, Place, Reporter, serve

COMMIT_SECONDS = 0.1


class _Member:
    """Commits ten times a second, and before it gives a partition away."""

    def __init__(self, order: Order, reporter: Reporter) -> None:
        self._reporter = reporter
        self._done: dict[Place, int] = {}
        self._due = 0.0
        self._consumer = Consumer(
            {
                "bootstrap.servers": order.bootstrap,
                "group.id": order.group,
                "log_level": 0,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "fetch.wait.max.ms": 100,
                "reconnect.backoff.ms": 50,
                "reconnect.backoff.max.ms": 500,
                **order.config,
            }
        )
        wanted = [order.pattern] if order.pattern else list(order.topics)
        self._consumer.subscribe(wanted, on_revoke=self._revoked, on_lost=self._lost)

    def run(self) -> None:
        while not self._reporter.stop.is_set():
            message = self._consumer.poll(POLL_SECONDS)
            self._reporter.assignment((place.topic, place.partition) for place in self._consumer.assignment())
            if message is not None and message.error():
                self._reporter.problem(KafkaException(message.error()))
                if message.error().code() == KafkaError._FATAL:
                    break
            elif message is not None:
                place = (message.topic(), message.partition())
                self._reporter.record(place, message.offset(), message.value() or b"")
                self._done[place] = message.offset() + 1
            if time.monotonic() > self._due:
                self._commit(self._done)
                self._due = time.monotonic() + COMMIT_SECONDS
        self._consumer.close()

    def _commit(self, done: dict[Place, int]) -> None:
        """What cannot be committed now, as in the middle of a rebalance, is tried again."""
        if not done:
            return
        offsets = [TopicPartition(topic, index, offset) for (topic, index), offset in done.items()]
        try:
            answers = self._consumer.commit(offsets=offsets, asynchronous=False)
        except KafkaException as error:
            self._reporter.problem(error)
            return
        kept = {(answer.topic, answer.partition): answer.offset for answer in answers if answer.error is None}
        self._reporter.committed(kept)
        for place in kept:
            del self._done[place]

    def _revoked(self, _: Consumer, places: list[TopicPartition]) -> None:
        gone = {(place.topic, place.partition) for place in places}
        self._reporter.tell("revoked", places=sorted(gone))
        self._commit({place: offset for place, offset in self._done.items() if place in gone})
        for place in gone:
            self._done.pop(place, None)

    def _lost(self, _: Consumer, places: list[TopicPartition]) -> None:
        self._reporter.tell("lost", places=sorted((place.topic, place.partition) for place in places))
        for place in places:
            self._done.pop((place.topic, place.partition), None)


if __name__ == "__main__":
    serve(lambda order, reporter: _Member(order, reporter).run())
