"""Share group members on confluent-kafka: `python -m interop_tests.support.members.sharer`.

What a member does with a record is written in it, as in `Sharers.java`.
"""

import time

from confluent_kafka import AcknowledgeType, KafkaException, Message, ShareConsumer

from interop_tests.support.members.serve import Order, Reporter, serve

POLL_SECONDS = 0.2


class _Sharer:
    def __init__(self, order: Order, reporter: Reporter) -> None:
        self._reporter = reporter
        self._is_explicit = order.config.get("share.acknowledgement.mode") == "explicit"
        servers = {"bootstrap.servers": order.bootstrap, "group.id": order.group}
        self._consumer = ShareConsumer({**servers, "log_level": 0, **order.config})
        self._consumer.subscribe(list(order.topics))

    def run(self) -> None:
        while not self._reporter.stop.is_set():
            messages = list(self._consumer.poll(POLL_SECONDS))
            for message in messages:
                self._take(message)
            if self._is_explicit and messages:
                for error in self._consumer.commit_sync().values():
                    if error is not None:
                        self._reporter.problem(error)
                self._reporter.tell("acknowledged", count=len(messages))
        self._consumer.close()

    def _take(self, message: Message) -> None:
        if message.error():
            self._reporter.problem(KafkaException(message.error()))
            return
        value = (message.value() or b"").decode()
        count = message.delivery_count() or 1
        facts = {"topic": message.topic(), "partition": message.partition(), "offset": message.offset()}
        self._reporter.tell("record", value=value, deliveries=count, **facts)
        while value.startswith("hold") and not self._reporter.stop.is_set():
            time.sleep(0.05)
        if self._is_explicit:
            self._consumer.acknowledge(message, _judged(value, count))


def _judged(value: str, deliveries: int) -> AcknowledgeType:
    if value.startswith("reject"):
        return AcknowledgeType.REJECT
    is_released = (value.startswith("release") and deliveries == 1) or value.startswith("again")
    return AcknowledgeType.RELEASE if is_released else AcknowledgeType.ACCEPT


if __name__ == "__main__":
    serve(lambda order, reporter: _Sharer(order, reporter).run())
