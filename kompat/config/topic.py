"""A topic's settings for the log: parsed once, when they change, not on every append."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfig:
    """Field names are Kafka's setting names with underscores; `cleanup.policy` is split into its two halves."""

    compact: bool = False
    delete: bool = True
    compression_type: str = "producer"
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_zstd_level: int = 3
    max_message_bytes: int = 1_048_588
    message_timestamp_type: str = "CreateTime"
    message_timestamp_before_max_ms: int = 9_223_372_036_854_775_807
    message_timestamp_after_max_ms: int = 3_600_000
    retention_ms: int = 604_800_000  # -1: no limit
    retention_bytes: int = -1  # -1: no limit
    segment_bytes: int = 1_073_741_824
    segment_ms: int = 604_800_000
    segment_jitter_ms: int = 0
    index_interval_bytes: int = 4096
    delete_retention_ms: int = 86_400_000
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = 9_223_372_036_854_775_807
    min_cleanable_dirty_ratio: float = 0.5
    file_delete_delay_ms: int = 60_000
    flush_messages: int = 9_223_372_036_854_775_807
    flush_ms: int = 9_223_372_036_854_775_807
    min_insync_replicas: int = 1
    kompat_extensions_enable: bool = True
    kompat_delay_max_ms: int = 604_800_000
    kompat_delivery_order: str = "offset"
    kompat_dedup_window_ms: int = 120_000
    kompat_queue_source: str = ""  # empty: not a queue topic
    kompat_queue_lock_ms: int = 30_000
    kompat_queue_max_deliveries: int = 5
    kompat_queue_max_in_flight: int = 100
    kompat_priority_release_max_records: int = 500
    kompat_priority_window: int = 0  # 0: no limit
    kompat_priority_aging_ms: int = 30_000  # 0: never
    kompat_trace_sample: float = 0.0
    wants_all: bool = field(init=False, default=False)  # batches without kompat's headers are inspected, too

    def __post_init__(self) -> None:
        wants_all = bool(self.kompat_trace_sample or self.kompat_delivery_order != "offset" or self.kompat_queue_source)
        object.__setattr__(self, "wants_all", wants_all)
