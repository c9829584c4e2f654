"""Quotas of clients are counted where somebody has one."""

from __future__ import annotations

from typing import Any, cast

from kompat.clock import ManualClock
from kompat.cluster.client_quotas import ClientQuotas, Waits
from kompat.config.broker import BrokerConfig
from kompat.security.quotas import IP, USER
from tests.cluster.support import Written


def test_nothing_is_counted_until_somebody_has_a_quota() -> None:
    written, clock = Written(), ManualClock()
    quotas = ClientQuotas(cast("Any", written), BrokerConfig(), clock)
    assert (quotas.is_enabled, quotas.counts_connections) == (False, False)

    written.alter([(USER, "alice")], producer_byte_rate=1000)
    assert (quotas.is_enabled, quotas.counts_connections) == (True, False)
    assert quotas.produced("User:alice", "app", 10_000) == 0
    assert quotas.produced("User:alice", "app", 1000) == 1000
    assert quotas.produced("User:bob", "app", 1 << 40) == 0
    clock.advance(12_000)
    assert quotas.produced("User:alice", "app", 10_000) == 0
    assert {key: waits for key, waits in quotas.waits.items() if waits.count} == {"producer_byte_rate": Waits(1, 1000)}

    written.alter([(USER, "alice")], producer_byte_rate=None)
    written.alter([(IP, None)], connection_creation_rate=1)
    assert (quotas.is_enabled, quotas.counts_connections) == (False, True)
