"""What a broker without others has for links and Raft groups: nobody, and none."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from kompat.cluster.local_broker import BrokerParts
from kompat.cluster.state import Broker
from kompat.config.broker import BrokerConfig
from kompat.rpc.router import NoTransport
from kompat.types import Buffer, NodeId

if TYPE_CHECKING:
    from kompat.cluster.ports import Replica
    from kompat.log.partition import Partition
    from kompat.raft.ports import RoleListener


def standalone(config: BrokerConfig) -> BrokerParts:
    # It has no addresses: clients are told that by which they have come.
    broker = Broker(NodeId(config.node_id), config["broker.rack"])
    return BrokerParts(broker, NoLinks(), NoReplication(), {}, has_peers=False)


class NoLinks(NoTransport):
    def __init__(self) -> None:
        self.cluster_id = ""
        self.on_up: Callable[[NodeId], None] = lambda _: None
        self.on_down: Callable[[NodeId], None] = lambda _: None
        self.on_call: dict[int, Callable[[NodeId, memoryview], Awaitable[Sequence[Buffer]]]] = {}

    def connect(self, node: NodeId, host: str, port: int) -> None:
        pass

    def forget(self, node: NodeId) -> None:
        pass

    def is_up(self, node: NodeId) -> bool:
        return False

    def is_gone(self, node: NodeId) -> bool:
        return True


class NoReplication:
    proposals = leader_changes = elections_won = in_doubt = 0

    def start(self, listener: RoleListener, on_renewed: Callable[[str], None]) -> None:
        pass

    def peer_up(self, node: NodeId) -> None:
        pass

    def peer_lost(self, node: NodeId) -> None:
        pass

    def has_group(self, partition: Partition) -> bool:
        return False

    def attach(self, partition: Partition, voters: Sequence[NodeId]) -> Replica:
        raise NotImplementedError("a broker without others has no Raft groups")

    def detach(self, partition: Partition) -> None:
        pass

    def __len__(self) -> int:
        return 0
