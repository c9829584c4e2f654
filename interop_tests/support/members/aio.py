"""Members on aiokafka: `python -m interop_tests.support.members.aio`."""

import asyncio

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.errors import KafkaError

from interop_tests.support.members.serve import POLL_SECONDS, Order, Place, Reporter, serve


class _Member(ConsumerRebalanceListener):  # type: ignore[misc]
    """Commits each batch before it asks for the next, and before it gives a partition away."""

    def __init__(self, order: Order, reporter: Reporter) -> None:
        self._reporter = reporter
        self._order = order
        self._done: dict[Place, int] = {}
        # A rebalance may not begin between records that were told and their commit.
        self._turn = asyncio.Lock()
        config = {name.replace(".", "_"): value for name, value in order.config.items()}
        self._consumer = AIOKafkaConsumer(
            bootstrap_servers=order.bootstrap,
            group_id=order.group,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            fetch_max_wait_ms=100,
            partition_assignment_strategy=(RangePartitionAssignor,),
            **config,
        )

    async def run(self) -> None:
        wanted = {"pattern": self._order.pattern} if self._order.pattern else {"topics": list(self._order.topics)}
        self._consumer.subscribe(**wanted, listener=self)
        await self._consumer.start()
        try:
            while not self._reporter.stop.is_set():
                await self._step()
        finally:
            await self._consumer.stop()

    async def _step(self) -> None:
        found = await self._consumer.getmany(timeout_ms=int(POLL_SECONDS * 1000))
        async with self._turn:
            self._reporter.assignment(tuple(place) for place in self._consumer.assignment())
            for place, records in found.items():
                if place not in self._consumer.assignment():
                    continue  # given away while this step waited for its turn
                for record in records:
                    self._reporter.record(tuple(place), record.offset, record.value or b"")
                self._done[tuple(place)] = records[-1].offset + 1
            await self._commit()

    async def _commit(self) -> None:
        done = dict(self._done)
        if not done:
            return
        try:
            await self._consumer.commit({TopicPartition(*place): offset for place, offset in done.items()})
        except KafkaError as error:
            self._reporter.problem(error)
            return
        self._reporter.committed(done)
        for place in done:
            del self._done[place]

    async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        async with self._turn:
            self._reporter.tell("revoked", places=sorted(tuple(place) for place in revoked))
            self._done.clear()

    async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        pass


async def _main(order: Order, reporter: Reporter) -> None:
    await _Member(order, reporter).run()


if __name__ == "__main__":
    serve(lambda order, reporter: asyncio.run(_main(order, reporter)))
