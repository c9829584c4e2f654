"""A broker that is alone, as services see it: all logs that there are, and a router by which it is the receiver of everything."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection

from kompat.cluster.state import PartitionState, Topic
from kompat.errors import ErrorCode, KafkaError
from kompat.log.manager import Logs
from kompat.log.partition import Partition
from kompat.rpc.messages import Coordinator
from kompat.rpc.router import Router
from kompat.types import LogId, NodeId, Offset

ME = NodeId(1)


async def _nothing_to_make() -> None:
    raise AssertionError("no topic was to be made")


class OneBroker:
    """Topics are those that there are logs of."""

    controller = ME
    is_controller = True
    metadata_end = metadata_read = Offset(0)

    def __init__(self, logs: Logs, make_internal: Callable[[], Awaitable[None]] = _nothing_to_make) -> None:
        self._logs = logs
        self._make_internal = make_internal
        self.rpc = Router(ME, self)

    # -- as a cluster ----------------------------------------------------------------------------------------------
    def topic(self, name: str) -> Topic | None:
        found = sorted((log for log in self._logs.all() if log.topic == name), key=lambda log: log.index)
        states = tuple(PartitionState(log.index, (ME,)) for log in found)
        return Topic(name, found[0].log_id.topic_id, states) if found else None

    async def ensure_internal_topic(self, name: str) -> Topic:
        if self.topic(name) is None:
            await self._make_internal()
        topic = self.topic(name)
        assert topic is not None
        return topic

    # -- as a directory --------------------------------------------------------------------------------------------
    @property
    def brokers(self) -> Collection[NodeId]:
        return [ME]

    def leader(self, log_id: LogId) -> NodeId | None:
        return None

    def led(self, log_id: LogId) -> Partition | None:
        found = self._logs.find_by_id(log_id.topic_id, log_id.partition)
        return found if found is not None and found.is_led else None

    async def coordinated(self, coordinator: Coordinator) -> LogId:
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    async def read_metadata(self, end: Offset, seconds: float) -> bool:
        return True


class NoCommits:
    """Groups that have committed nothing."""

    knows_all_commits = True

    def furthest_offset(self, topic: str, partition: int) -> Offset | None:
        return None

    def watch_commits(self, callback: Callable[[], None]) -> None:
        """There will be none."""
