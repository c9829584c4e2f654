"""Builds the transaction coordinator."""

from __future__ import annotations

from kompat.clock import Clock
from kompat.cluster.internal_topic import InternalTopic
from kompat.cluster.names import TRANSACTION_STATE
from kompat.cluster.service import ClusterService
from kompat.config.broker import BrokerConfig
from kompat.log.manager import Logs
from kompat.txn.machine import TransactionMachine
from kompat.txn.markers import CommittedOffsets, Markers
from kompat.txn.service import TransactionService


def build_transactions(
    config: BrokerConfig, clock: Clock, cluster: ClusterService, logs: Logs, offsets: CommittedOffsets
) -> TransactionService:
    def machine() -> TransactionMachine:
        return TransactionMachine(
            max_timeout_ms=config["transaction.max.timeout.ms"],
            expiration_ms=config["transactional.id.expiration.ms"],
        )

    return TransactionService(
        InternalTopic(TRANSACTION_STATE, cluster, logs),
        rpc=cluster.rpc,
        make=machine,
        next_producer_id=cluster.next_producer_id,
        markers=Markers(cluster, offsets, clock),
        clock=clock,
    )
