"""The settings of groups, from the configs of the broker and of the groups."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from kompat.cluster.service import ClusterService
from kompat.config.broker import BrokerConfig
from kompat.groups.config import GroupSettings, MigrationPolicy, ModernGroupSettings


def group_settings(config: BrokerConfig, cluster: ClusterService) -> GroupSettings:
    with_settings = list(cluster.groups_with_settings())
    return GroupSettings(
        min_session_timeout_ms=config["group.min.session.timeout.ms"],
        max_session_timeout_ms=config["group.max.session.timeout.ms"],
        initial_rebalance_delay_ms=config["group.initial.rebalance.delay.ms"],
        max_size=config["group.max.size"],
        consumer=_of_broker(config, "consumer"),
        consumer_overrides={group_id: _of_group(cluster, group_id, "consumer") for group_id in with_settings},
        consumer_max_size=config["group.consumer.max.size"],
        assignors=tuple(config["group.consumer.assignors"]),
        migration_policy=MigrationPolicy(config["group.consumer.migration.policy"]),
        regex_refresh_interval_ms=config["group.consumer.regex.refresh.interval.ms"],
        share=_of_broker(config, "share"),
        share_overrides={group_id: _of_group(cluster, group_id, "share") for group_id in with_settings},
        share_max_size=config["group.share.max.size"],
        offset_metadata_max_bytes=config["offset.metadata.max.bytes"],
        offsets_retention_ms=config["offsets.retention.minutes"] * 60_000,
        offsets_retention_check_interval_ms=config["offsets.retention.check.interval.ms"],
    )


def _of_broker(config: BrokerConfig, kind: str) -> ModernGroupSettings:
    return ModernGroupSettings(
        session_timeout_ms=config[f"group.{kind}.session.timeout.ms"],
        heartbeat_interval_ms=config[f"group.{kind}.heartbeat.interval.ms"],
        assignment_interval_ms=config[f"group.{kind}.assignment.interval.ms"],
    )


def _of_group(cluster: ClusterService, group_id: str, kind: str) -> ModernGroupSettings:
    setting: Callable[[str], Any] = partial(cluster.group_setting, group_id)
    return ModernGroupSettings(
        session_timeout_ms=setting(f"{kind}.session.timeout.ms"),
        heartbeat_interval_ms=setting(f"{kind}.heartbeat.interval.ms"),
        assignment_interval_ms=setting(f"{kind}.assignment.interval.ms"),
    )
