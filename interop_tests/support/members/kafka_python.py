"""Members on kafka-python: `python -m interop_tests.support.members.kafka_python`."""

from kafka import ConsumerRebalanceListener, KafkaConsumer, OffsetAndMetadata, TopicPartition
from kafka.consumer.fetcher import ConsumerRecord
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.errors import KafkaConnectionError, KafkaError

from interop_tests.support.members.serve import Order, Place, Reporter, serve

# kafka-python 3.0 forgets a rebalance for ever that it began because the partitions changed and that lasts longer than
# the poll: the leader is given its assignment, never takes it up, and sends no heartbeat any more. So it polls for long
# (records end a poll at once), and knows the partitions of its topics before it joins.
POLL_MS = 1000

ASSIGNORS = {"range": RangePartitionAssignor, "cooperative-sticky": CooperativeStickyAssignor}


class _Member(ConsumerRebalanceListener):  # type: ignore[misc]
    """Commits each batch before it asks for the next, and before it gives a partition away."""

    def __init__(self, order: Order, reporter: Reporter) -> None:
        self._reporter = reporter
        self._done: dict[Place, int] = {}
        config = {name.replace(".", "_"): value for name, value in order.config.items()}
        assignor = ASSIGNORS[config.pop("partition_assignment_strategy", "range")]
        self._consumer = KafkaConsumer(
            bootstrap_servers=order.bootstrap,
            group_id=order.group,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            fetch_max_wait_ms=100,
            reconnect_backoff_ms=50,
            reconnect_backoff_max_ms=500,
            partition_assignment_strategy=(assignor,),
            **config,
        )
        wanted = {"pattern": order.pattern} if order.pattern else {"topics": list(order.topics)}
        self._consumer.subscribe(**wanted, listener=self)
        for topic in order.topics:
            self._consumer.partitions_for_topic(topic)

    def run(self) -> None:
        while not self._reporter.stop.is_set():
            found = self._poll()
            self._reporter.assignment(tuple(place) for place in self._consumer.assignment())
            for place, records in found.items():
                for record in records:
                    self._reporter.record(tuple(place), record.offset, record.value or b"")
                self._done[tuple(place)] = records[-1].offset + 1
            self._commit(dict(self._done))
        self._consumer.close()

    def _poll(self) -> dict[TopicPartition, list[ConsumerRecord]]:
        """kafka-python 3.0 looks for the coordinator and, where nobody listens, for new metadata: if nobody listens then
        either, its poll raises what it deals with by itself the first time (`ensure_coordinator_ready_async`). Whoever
        wants to outlive a broker's restart goes on; a member that does not is in its group still, by its heartbeats."""
        try:
            found: dict[TopicPartition, list[ConsumerRecord]] = self._consumer.poll(timeout_ms=POLL_MS)
        except KafkaConnectionError as error:
            self._reporter.problem(error)
            return {}
        return found

    def _commit(self, done: dict[Place, int]) -> None:
        if not done:
            return
        offsets = {TopicPartition(*place): OffsetAndMetadata(offset, "", -1) for place, offset in done.items()}
        try:
            self._consumer.commit(offsets)
        except KafkaError as error:
            self._reporter.problem(error)
            return
        self._reporter.committed(done)
        for place in done:
            del self._done[place]

    def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        gone = {tuple(place) for place in revoked}
        self._reporter.tell("revoked", places=sorted(gone))
        self._commit({place: offset for place, offset in self._done.items() if place in gone})
        for place in gone:
            self._done.pop(place, None)

    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        pass


if __name__ == "__main__":
    serve(lambda order, reporter: _Member(order, reporter).run())
