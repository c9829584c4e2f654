"""The services that handlers may call: built once by the composition root, passed to every handler in its Context."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kompat.common.meters import Meters

if TYPE_CHECKING:
    from kompat.backup.service import Backups
    from kompat.clock import Clock
    from kompat.cluster.authorizer import Authorizer
    from kompat.cluster.client_quotas import ClientQuotas
    from kompat.cluster.service import ClusterService
    from kompat.cluster.users import Users
    from kompat.config.load import BrokerConfig
    from kompat.extensions.dead_letters.service import DeadLetterService
    from kompat.extensions.delay.service import DelayService
    from kompat.extensions.priority.service import LaneService
    from kompat.extensions.queues.service import QueueService
    from kompat.extensions.reads.end_offsets import EndOffsets
    from kompat.extensions.reads.service import ReadService
    from kompat.extensions.tracing.service import TraceService
    from kompat.extensions.tracing.tracer import Tracer
    from kompat.groups.service import GroupService
    from kompat.handlers.support.fetch_room import FetchRoom
    from kompat.handlers.support.fetch_sessions import FetchSessions
    from kompat.handlers.support.transactional_produce import Turns
    from kompat.log.manager import Logs
    from kompat.share.groups.service import ShareGroupService
    from kompat.share.service import ShareService
    from kompat.telemetry.service import Telemetry
    from kompat.txn.service import TransactionService
    from kompat.types import NodeId


@dataclass(slots=True, kw_only=True)
class Services:
    config: BrokerConfig
    clock: Clock
    cluster: ClusterService
    users: Users
    logs: Logs
    groups: GroupService
    share_groups: ShareGroupService
    transactions: TransactionService
    shares: ShareService
    telemetry: Telemetry
    backups: Backups
    delays: DelayService
    ends: EndOffsets
    queues: QueueService
    dead_letters: DeadLetterService
    lanes: LaneService
    tracer: Tracer
    traces: TraceService
    reads: ReadService
    node_id: NodeId
    version: str
    fetch_sessions: FetchSessions
    fetch_max_bytes: int
    fetch_room: FetchRoom
    produce_turns: Turns
    authorizer: Authorizer
    quotas: ClientQuotas
    meters: Meters = field(default_factory=Meters)

    def disconnected(self, connection_id: str) -> None:
        """A client's connection has ended."""
        self.shares.disconnected(connection_id)
        self.telemetry.left(connection_id)
