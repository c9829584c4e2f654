"""Every metric of the broker: its name, type, labels and help text. docs/operations.md has the same table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

COUNTER, GAUGE, HISTOGRAM = "counter", "gauge", "histogram"

# fmt: off
_ROWS: Final = (
    # requests
    ("kompat_requests_total", COUNTER, "api", "Requests answered."),
    ("kompat_request_errors_total", COUNTER, "api error", "Error codes in responses: one for each partition, topic or group that failed."),
    ("kompat_request_seconds", HISTOGRAM, "api", "Time from the last byte of a request to its response. It includes the time that the request waits for records, replicas or other members."),
    ("kompat_request_loop_seconds_total", COUNTER, "api", "Time that the event loop spent on requests of this API."),
    ("kompat_request_loop_seconds_max", GAUGE, "api", "The longest time that a request of this API has blocked the event loop since the broker started."),
    ("kompat_request_bytes_total", COUNTER, "api", "Bytes of requests."),
    ("kompat_response_bytes_total", COUNTER, "api", "Bytes of responses."),
    ("kompat_connections", GAUGE, "", "Open client connections."),
    ("kompat_connections_accepted_total", COUNTER, "", "Connections accepted."),
    ("kompat_request_bytes_in_flight", GAUGE, "", "Memory used by requests in flight; `queued.max.request.bytes` limits it."),
    # HTTP requests, failed authentications, throttling
    ("kompat_http_requests_total", COUNTER, "method route status", "HTTP requests answered. Requests that match no route have the route `(other)`."),
    ("kompat_http_request_seconds", HISTOGRAM, "method route", "Time from the head of an HTTP request to the start of its response. It includes the time that the request waits for its body, for records or for a quota."),
    ("kompat_http_loop_seconds_max", GAUGE, "method route", "The longest time that an HTTP request of this route has blocked the event loop since the broker started."),
    ("kompat_failed_authentications_total", COUNTER, "listener", "Failed authentications. For the HTTP port these are requests with a wrong user name or password."),
    ("kompat_quota_throttles_total", COUNTER, "quota", "Requests and connections that a quota throttled or rejected."),
    ("kompat_quota_throttle_seconds_total", COUNTER, "quota", "Total throttle time of those requests and connections."),
    # topics
    ("kompat_topic_bytes_in_total", COUNTER, "topic", "Bytes of batches received from producers."),
    ("kompat_topic_records_in_total", COUNTER, "topic", "Records received from producers."),
    ("kompat_topic_bytes_out_total", COUNTER, "topic", "Bytes of batches sent to consumers and share group members."),
    ("kompat_topic_records_out_total", COUNTER, "topic", "Offsets sent to consumers and share group members: records, and the gaps of compacted topics."),
    ("kompat_topic_log_bytes", GAUGE, "topic", "Bytes of batches in this broker's logs of the topic."),
    ("kompat_unreadable_records_total", COUNTER, "topic", "Records of an internal topic that the coordinator could not read and skipped."),
    # partitions
    ("kompat_partitions", GAUGE, "", "Partitions of which this broker has a replica."),
    ("kompat_leader_partitions", GAUGE, "", "Partitions that this broker leads."),
    ("kompat_under_replicated_partitions", GAUGE, "", "Partitions that this broker leads and that have replicas out of sync."),
    ("kompat_under_min_isr_partitions", GAUGE, "", "Partitions that this broker leads and that reject acks=all, because fewer than `min.insync.replicas` replicas are in sync."),
    ("kompat_offline_partitions", GAUGE, "", "Partitions of the cluster without a leader. Only the controller reports them; the value of other brokers is 0."),
    ("kompat_partition_end_offset", GAUGE, "topic partition", "High watermark of a partition that this broker leads."),
    # cluster
    ("kompat_active_controller", GAUGE, "", "1 if this broker is the controller, else 0."),
    ("kompat_brokers", GAUGE, "", "Brokers registered in the cluster, as this broker knows."),
    ("kompat_peer_up", GAUGE, "peer", "1 while this broker has a connection to another broker."),
    ("kompat_raft_groups", GAUGE, "", "Raft groups that this broker is a member of: the replicated partitions and the cluster metadata."),
    ("kompat_raft_replicas_in_doubt", GAUGE, "", "Replicas that neither vote nor count as in sync until they have caught up, because the broker's data directory was emptied or restored to an older state."),
    ("kompat_raft_proposals_total", COUNTER, "", "Entries that this broker proposed to Raft as a leader."),
    ("kompat_raft_elections_won_total", COUNTER, "", "Leader elections that this broker won."),
    ("kompat_leader_changes_total", COUNTER, "", "Leader changes of partitions of which this broker has a replica."),
    ("kompat_raft_follower_lag_entries", GAUGE, "peer", "Largest lag of a follower, in entries, over all logs that this broker leads."),
    # groups
    ("kompat_groups", GAUGE, "", "Groups of all types that this broker coordinates."),
    ("kompat_group_offset", GAUGE, "group topic partition", "Committed offset of a group that this broker coordinates."),
    ("kompat_group_lag", GAUGE, "group topic partition", "Consumer lag: records after the committed offset of a group that this broker coordinates. For a partition that is on other brokers only, the end offset that its leader reported in the last seconds is used."),
    # queues, delayed records, dead-letter records, traces
    ("kompat_queue_records", GAUGE, "group topic state", "Records of share groups in use, on partitions that this broker leads, by state: available, in_flight (acquired), backing_off (released, waiting for redelivery) or archiving (the dead-letter record is being written)."),
    ("kompat_queue_depth", GAUGE, "group topic class", "Records that are available or backing off, by priority class. If a partition has tens of thousands of a class, only the first of them are counted."),
    ("kompat_lane_records", GAUGE, "topic class", "Records that wait in the lanes of a topic with priority delivery."),
    ("kompat_lane_released_total", COUNTER, "", "Records released from their lanes."),
    ("kompat_delayed_records", GAUGE, "", "Delayed records that are not due yet, on partitions that this broker leads."),
    ("kompat_delayed_undecided_records", GAUGE, "", "Delayed records of open transactions."),
    ("kompat_delayed_bytes", GAUGE, "", "Bytes of delayed records, including those of open transactions."),
    ("kompat_delayed_overdue_seconds", GAUGE, "", "Time since the earliest delayed record became due; 0 if none is overdue."),
    ("kompat_delayed_delivered_total", COUNTER, "", "Delayed records delivered."),
    ("kompat_dead_letters_total", COUNTER, "", "Dead-letter records written by this broker, or on its behalf by another broker."),
    ("kompat_dead_letter_records", GAUGE, "topic", "Dead-letter records in the partitions of a dead-letter topic that this broker leads."),
    ("kompat_trace_events_total", COUNTER, "", "Trace events written."),
    ("kompat_trace_events_dropped_total", COUNTER, "", "Trace events dropped because there were too many."),
    # storage
    ("kompat_sync_seconds", HISTOGRAM, "", "Time to flush written data to the disk (fsync)."),
    ("kompat_cache_bytes", GAUGE, "", "Bytes of recent batches in memory; `kompat.cache.bytes` limits them."),
    ("kompat_damaged_batches_total", COUNTER, "", "Stored batches that a read found damaged or missing."),
    ("kompat_repaired_batches_total", COUNTER, "", "Damaged batches replaced with a copy from another replica."),
    ("kompat_refused_replica_batches_total", COUNTER, "", "Batches from another replica that arrived damaged and were fetched again."),
    ("kompat_scrubbed_bytes_total", COUNTER, "", "Bytes of stored batches that the scrubber read to compare them with their checksums."),
    ("kompat_disk_free_bytes", GAUGE, "", "Free bytes of the file system of the data directory."),
    ("kompat_disk_size_bytes", GAUGE, "", "Size of the file system of the data directory, in bytes."),
    ("kompat_disk_refusing_writes", GAUGE, "", "1 while the broker refuses writes, because the disk is full or an fsync failed."),
    ("kompat_rocksdb_memtable_bytes", GAUGE, "family", "Bytes in memtables."),
    ("kompat_rocksdb_table_bytes", GAUGE, "family", "Bytes in table files."),
    ("kompat_rocksdb_keys", GAUGE, "family", "Estimated number of keys."),
    ("kompat_rocksdb_level0_files", GAUGE, "family", "Table files in level 0. From 64 on RocksDB slows writes down."),
    ("kompat_rocksdb_pending_compaction_bytes", GAUGE, "family", "Estimated bytes that compaction still has to write."),
    ("kompat_rocksdb_running_compactions", GAUGE, "", "Compactions in progress."),
    ("kompat_rocksdb_running_flushes", GAUGE, "", "Memtable flushes in progress."),
    ("kompat_rocksdb_block_cache_bytes", GAUGE, "", "Bytes in the block cache."),
    ("kompat_rocksdb_write_stopped", GAUGE, "", "1 while RocksDB stops writes."),
    ("kompat_rocksdb_delayed_write_rate", GAUGE, "", "Bytes per second to which RocksDB slows writes down; 0 if it does not."),
    # metrics that clients push (KIP-714)
    ("kompat_client_instances", GAUGE, "", "Clients that have pushed metrics recently."),
    ("kompat_client_pushes_total", COUNTER, "", "Metric pushes accepted."),
    ("kompat_client_pushes_refused_total", COUNTER, "error", "Metric pushes rejected."),
    ("kompat_client_metric", GAUGE, "client_id client_instance_id metric attributes", "Latest value of a gauge or a sum that a client has pushed."),
    # the process
    ("kompat_build_info", GAUGE, "version python node_id cluster_id", "Always 1; the labels describe the broker."),
    ("kompat_loop_lag_seconds", HISTOGRAM, "", "Delay of a timer of the event loop, measured four times a second."),
    ("kompat_gc_collections_total", COUNTER, "generation", "Runs of Python's garbage collector."),
    ("process_resident_memory_bytes", GAUGE, "", "Resident memory of the process."),
    ("process_virtual_memory_bytes", GAUGE, "", "Virtual memory of the process."),
    ("process_cpu_seconds_total", COUNTER, "", "CPU time of the process."),
    ("process_open_fds", GAUGE, "", "Open file descriptors."),
    ("process_max_fds", GAUGE, "", "Maximum number of open file descriptors."),
    ("process_start_time_seconds", GAUGE, "", "Start time of the process in Unix time."),
    # this page
    ("kompat_metrics_seconds", GAUGE, "", "Time that it took to collect the previous page."),
    ("kompat_metrics_omitted_series", GAUGE, "metric", "Series of a metric that are not on this page, because there are too many."),
)
# fmt: on


@dataclass(frozen=True, slots=True)
class Metric:
    name: str
    kind: str
    labels: tuple[str, ...]
    help: str


METRICS: Final = {row[0]: Metric(row[0], row[1], tuple(row[2].split()), row[3]) for row in _ROWS}


def markdown() -> str:
    """The table in docs/operations.md."""
    rows = (
        f"| `{each.name}` | {each.kind} | {', '.join(f'`{label}`' for label in each.labels)} | {each.help} |"
        for each in METRICS.values()
    )
    return "\n".join(("| metric | type | labels | meaning |", "| --- | --- | --- | --- |", *rows))
