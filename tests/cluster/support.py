"""A cluster of one broker (or more, where only the machine is asked) and short ways to ask it things."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any, TypeVar, cast
from uuid import UUID

from kompat.cluster.machine import ClusterMachine
from kompat.cluster.quotas import QuotaChange
from kompat.cluster.records import ClusterCodec, ClusterRecord
from kompat.cluster.requests import ConfigChange, ConfigOp, ConfigReplacement, NewTopic
from kompat.cluster.service import ClusterService
from kompat.cluster.state import Broker, Resource, ResourceType, Topic
from kompat.config.broker import BrokerConfig
from kompat.coordination.decision import Decision
from kompat.errors import ErrorCode, KafkaError
from kompat.security.acls import Acl, Kind, Operation, Pattern, Permission
from kompat.types import NodeId
from tests.coordination.support import Node

T = TypeVar("T")
CONFIG = BrokerConfig()


def ids(start: int = 100) -> Iterator[UUID]:
    while True:
        yield UUID(int=start)
        start += 1


class Cluster:
    """A machine whose decisions are carried out at once."""

    def __init__(self, *topics: str, brokers: int = 1, config: BrokerConfig = CONFIG) -> None:
        self.machine = ClusterMachine()
        self.config = config
        self.records: list[ClusterRecord] = []
        self._ids = ids()
        for node in range(1, brokers + 1):
            self.do(self.machine.join(Broker(NodeId(node)), cluster_id="cluster", secret=b"s"))
        for name in topics:
            created(self.create(NewTopic(name)))

    def do(self, decision: Decision[ClusterRecord, T]) -> T:
        for record in decision.records:
            self.machine.apply(record)
        self.records += decision.records
        return decision.reply

    def create(
        self, *new: NewTopic, start: int = 0, validate_only: bool = False, by_owner: bool = False
    ) -> Topic | KafkaError:
        """The outcome of the last one."""
        wanted = [(each, next(self._ids)) for each in new]
        found = self.do(
            self.machine.create_topics(
                wanted, start=start, config=self.config, validate_only=validate_only, by_owner=by_owner
            )
        )
        return found[new[-1].name]

    def alter(self, wanted: ConfigChange | ConfigReplacement, *, validate_only: bool = False) -> KafkaError | None:
        [outcome] = self.do(self.machine.alter_configs([wanted], config=self.config, validate_only=validate_only))
        return outcome


def created(outcome: Topic | KafkaError) -> Topic:
    assert isinstance(outcome, Topic), outcome
    return outcome


def refused(outcome: object, code: ErrorCode, message: str | None = None) -> None:
    assert isinstance(outcome, KafkaError), outcome
    assert outcome.code is code
    if message is not None:
        assert outcome.message == message


def topic(name: str) -> Resource:
    return Resource(ResourceType.TOPIC, name)


def broker(name: str = "1") -> Resource:
    return Resource(ResourceType.BROKER, name)


def group(name: str = "g") -> Resource:
    return Resource(ResourceType.GROUP, name)


def metrics(name: str = "m") -> Resource:
    return Resource(ResourceType.CLIENT_METRICS, name)


def setting(resource: Resource, **values: str) -> ConfigChange:
    """Names with underscores for dots."""
    return ConfigChange(resource, [(name.replace("_", "."), ConfigOp.SET, value) for name, value in values.items()])


def changing(resource: Resource, *changes: tuple[str, int, str | None]) -> ConfigChange:
    return ConfigChange(resource, changes)


def replacing(resource: Resource, *configs: tuple[str, str | None]) -> ConfigReplacement:
    return ConfigReplacement(resource, configs)


async def service_on(node: Node, config: BrokerConfig | None = None) -> ClusterService:
    service = ClusterService(config or BrokerConfig(), node.clock, node.logs)
    await service.start()
    return service


async def create(service: ClusterService, *names: str, partitions: int = 1) -> list[Topic]:
    found = await service.create_topics([NewTopic(name, partitions) for name in names])
    return [created(found[name]) for name in names]


def names_of(topics: Sequence[Topic]) -> list[str]:
    return sorted(each.name for each in topics)


READS = Acl(Kind.TOPIC, "a", Pattern.LITERAL, "User:alice", "*", Operation.READ, Permission.ALLOW)


class Written:
    """A machine whose records all go through the codec."""

    def __init__(self) -> None:
        self.machine = ClusterMachine()
        self.watchers: list[Any] = []

    @property
    def image(self) -> Any:
        return self.machine.state

    def watch(self, watcher: Any) -> None:
        self.watchers.append(watcher)

    def do(self, decision: Decision[ClusterRecord, Any]) -> Any:
        codec = ClusterCodec()
        for record in decision.records:
            self.machine.apply(codec.decode(*codec.encode(record)))
        for watcher in self.watchers:
            watcher(SimpleNamespace(quotas=True))
        return decision.reply

    def alter(self, entity: Sequence[tuple[str, str | None]], **quotas: float | None) -> KafkaError | None:
        [outcome] = self.do(self.machine.alter_quotas([QuotaChange(entity, list(quotas.items()))]))
        return cast("KafkaError | None", outcome)
