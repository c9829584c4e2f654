"""The settings that the machines take: Kafka's `group.*` and `offsets.*`, with Kafka's defaults."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

MAX_INT = 2**31 - 1


class MigrationPolicy(Enum):
    """`group.consumer.migration.policy`: whether a group may change its protocol while it has members."""

    BIDIRECTIONAL = "bidirectional"
    UPGRADE = "upgrade"  # classic → consumer
    DOWNGRADE = "downgrade"  # consumer → classic
    DISABLED = "disabled"

    @property
    def allows_upgrade(self) -> bool:
        return self in (MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.UPGRADE)

    @property
    def allows_downgrade(self) -> bool:
        return self in (MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.DOWNGRADE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModernGroupSettings:
    """For consumer and share groups: what a group may override with its own configs (`consumer.session.timeout.ms`, …)."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    assignment_interval_ms: int = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    # classic groups
    min_session_timeout_ms: int = 6_000
    max_session_timeout_ms: int = 1_800_000
    initial_rebalance_delay_ms: int = 3_000
    max_size: int = MAX_INT
    new_member_join_timeout_ms: int = 300_000  # Kafka has no setting for it
    # consumer groups
    consumer: ModernGroupSettings = field(default_factory=ModernGroupSettings)
    consumer_overrides: Mapping[str, ModernGroupSettings] = field(default_factory=dict)  # by group id
    consumer_max_size: int = MAX_INT
    assignors: tuple[str, ...] = ("uniform", "range")  # the first is the default
    migration_policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL
    regex_refresh_interval_ms: int = 600_000
    # share groups
    share: ModernGroupSettings = field(default_factory=ModernGroupSettings)
    share_overrides: Mapping[str, ModernGroupSettings] = field(default_factory=dict)  # by group id
    share_max_size: int = 200
    share_initialize_retry_interval_ms: int = 30_000
    # offsets
    offset_metadata_max_bytes: int = 4_096
    offsets_retention_ms: int = 10_080 * 60_000
    offsets_retention_check_interval_ms: int = 600_000

    def consumer_of(self, group_id: str) -> ModernGroupSettings:
        return self.consumer_overrides.get(group_id, self.consumer)

    def share_of(self, group_id: str) -> ModernGroupSettings:
        return self.share_overrides.get(group_id, self.share)
