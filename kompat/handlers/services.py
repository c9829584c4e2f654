"""What handlers may call: built once by the composition root, handed to every handler in its Context."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kompat.meters import Meters

if TYPE_CHECKING:
    from kompat.clock import Clock
    from kompat.cluster.authorizer import Authorizer
    from kompat.cluster.client_quotas import ClientQuotas
    from kompat.cluster.service import ClusterService
    from kompat.cluster.users import Users
    from kompat.config.load import BrokerConfig
    from kompat.extensions.dead_letter_service import DeadLetterService
    from kompat.extensions.delay_far import FarDelays
    from kompat.extensions.end_offsets import EndOffsets
    from kompat.extensions.lane_far import FarLanes
    from kompat.extensions.queues import QueueService
    from kompat.extensions.reading import ReadService
    from kompat.extensions.tracing.service import TraceService
    from kompat.extensions.tracing.tracer import Tracer
    from kompat.groups.service import GroupService
    from kompat.handlers.fetch_room import FetchRoom
    from kompat.handlers.fetch_sessions import FetchSessions
    from kompat.handlers.transactional_produce import Turns
    from kompat.log.backups import Backups
    from kompat.log.manager import Logs
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
    transactions: TransactionService
    shares: ShareService
    telemetry: Telemetry
    backups: Backups
    delays: FarDelays
    ends: EndOffsets
    queues: QueueService
    dead_letters: DeadLetterService
    lanes: FarLanes
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
