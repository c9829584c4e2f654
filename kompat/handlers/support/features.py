"""Features and their levels: how clients and tools learn which newer behaviour a cluster has.

A feature stands for APIs: it is there where all of them are served, and then at its highest level. `metadata.version`
is what tools take for the cluster's version; kompat has one metadata format, so it has one level.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from kompat.errors import ErrorCode, KafkaError
from kompat.handlers import BY_KEY
from kompat.protocol.api_keys import ApiKey


@dataclass(frozen=True, slots=True)
class Feature:
    name: str
    low: int
    high: int
    needs: frozenset[ApiKey] = frozenset()


KAFKA_4_3 = 30
FEATURES = (
    Feature("group.version", 0, 1, needs=frozenset({ApiKey.ConsumerGroupHeartbeat, ApiKey.ConsumerGroupDescribe})),
    Feature("metadata.version", KAFKA_4_3, KAFKA_4_3),
    Feature(
        "share.version",
        0,
        1,
        needs=frozenset(
            {ApiKey.ShareGroupHeartbeat, ApiKey.ShareGroupDescribe, ApiKey.ShareFetch, ApiKey.ShareAcknowledge}
        ),
    ),
    Feature("streams.version", 0, 1, needs=frozenset({ApiKey.StreamsGroupHeartbeat, ApiKey.StreamsGroupDescribe})),
    Feature(
        "transaction.version",
        0,
        2,
        needs=frozenset(
            {
                ApiKey.InitProducerId,
                ApiKey.AddPartitionsToTxn,
                ApiKey.AddOffsetsToTxn,
                ApiKey.EndTxn,
                ApiKey.TxnOffsetCommit,
            }
        ),
    ),
)
UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3


@cache
def supported() -> tuple[Feature, ...]:
    return tuple(feature for feature in FEATURES if feature.needs <= BY_KEY.keys())


def check_update(node_id: int, name: str, level: int, upgrade_type: int) -> None:
    """INVALID_UPDATE_VERSION, with Kafka's reason, where the feature is not at this level already."""
    reason = _objection(node_id, name, level, upgrade_type)
    if reason:
        raise KafkaError(
            ErrorCode.INVALID_UPDATE_VERSION, f"Invalid update version {level} for feature {name}. {reason}"
        )


def _objection(node_id: int, name: str, level: int, upgrade_type: int) -> str:
    feature = next((f for f in supported() if f.name == name), None)
    if upgrade_type not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        return "The controller does not support the given upgrade type."
    if level < 0:
        return "A feature version cannot be less than 0."
    if feature is None:
        return f"Local controller {node_id} does not support this feature."
    if not feature.low <= level <= feature.high:
        return f"Local controller {node_id} only supports versions {feature.low}-{feature.high}"
    if level < feature.high:
        return "The level of a feature cannot be lowered."
    return ""
