"""Every metric that the broker has: its name, what it is, its labels, and what it tells. docs/operations.md has the same table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

COUNTER, GAUGE, HISTOGRAM = "counter", "gauge", "histogram"

# fmt: off
_ROWS: Final = (
    # requests
    ("kompat_requests_total", COUNTER, "api", "Requests that were answered."),
    ("kompat_request_errors_total", COUNTER, "api error", "Error codes in answers: one for each partition, topic or group that has one."),
    ("kompat_request_seconds", HISTOGRAM, "api", "From a request's last byte to its answer: also the time that it waits for records, replicas or other members."),
    ("kompat_request_loop_seconds_total", COUNTER, "api", "Seconds in which the event loop worked on nothing but requests of this API."),
    ("kompat_request_longest_stretch_seconds", GAUGE, "api", "The longest time for which a request of this API has held the event loop without a break, since the broker started."),
    ("kompat_request_bytes_total", COUNTER, "api", "Bytes of requests."),
    ("kompat_response_bytes_total", COUNTER, "api", "Bytes of answers."),
    ("kompat_connections", GAUGE, "", "Clients that are connected."),
    ("kompat_connections_accepted_total", COUNTER, "", "Connections that were accepted."),
    ("kompat_request_bytes_under_way", GAUGE, "", "Bytes that requests under way keep in memory; `queued.max.request.bytes` limits them."),
    # by HTTP; who was turned away or made to wait, at whichever door
    ("kompat_http_requests_total", COUNTER, "method route status", "Requests by HTTP that were answered; what fits no route counts as `(other)`."),
    ("kompat_http_request_seconds", HISTOGRAM, "method route", "From a request's head to the beginning of its answer: also the time that it waits for its body, for records or for a quota."),
    ("kompat_http_longest_stretch_seconds", GAUGE, "method route", "The longest time for which a request by HTTP has held the event loop without a break, since the broker started."),
    ("kompat_failed_logins_total", COUNTER, "listener", "Clients that could not show who they are; by HTTP, requests with a wrong name or password."),
    ("kompat_quota_waits_total", COUNTER, "quota", "Requests and connections that had to wait for a quota, or were refused for it."),
    ("kompat_quota_wait_seconds_total", COUNTER, "quota", "How long they were told to wait."),
    # topics
    ("kompat_topic_bytes_in_total", COUNTER, "topic", "Bytes of batches that producers sent."),
    ("kompat_topic_records_in_total", COUNTER, "topic", "Records that producers sent."),
    ("kompat_topic_bytes_out_total", COUNTER, "topic", "Bytes of batches that consumers and members of share groups got."),
    ("kompat_topic_records_out_total", COUNTER, "topic", "Offsets that consumers and members of share groups were brought past: records, and gaps of compacted topics."),
    ("kompat_topic_log_bytes", GAUGE, "topic", "Bytes of batches in this broker's logs of the topic."),
    ("kompat_unreadable_records_total", COUNTER, "topic", "Records of an internal topic that its coordinator could not read, and skipped."),
    # partitions
    ("kompat_partitions", GAUGE, "", "Partitions that this broker has a replica of."),
    ("kompat_leader_partitions", GAUGE, "", "Those among them that it leads."),
    ("kompat_under_replicated_partitions", GAUGE, "", "Those that it leads and of which not all replicas are in sync."),
    ("kompat_under_min_isr_partitions", GAUGE, "", "Those that it leads and that refuse acks=all, for fewer replicas are in sync than `min.insync.replicas`."),
    ("kompat_offline_partitions", GAUGE, "", "Partitions of the cluster that nobody leads, as the controller knows; 0 on other brokers."),
    ("kompat_partition_end_offset", GAUGE, "topic partition", "The high watermark of a partition that this broker leads."),
    # cluster
    ("kompat_active_controller", GAUGE, "", "1 on the cluster's controller."),
    ("kompat_brokers", GAUGE, "", "Brokers of the cluster, as this one knows."),
    ("kompat_peer_up", GAUGE, "peer", "1 while there is a link to another broker."),
    ("kompat_raft_groups", GAUGE, "", "Partitions with several replicas that this broker takes part in, the metadata's among them."),
    ("kompat_raft_replicas_in_doubt", GAUGE, "", "Replicas that do not vote or count until they have caught up: the broker's data directory was emptied or put back to an older state."),
    ("kompat_raft_proposals_total", COUNTER, "", "Entries that this broker gave to Raft as a leader."),
    ("kompat_raft_elections_won_total", COUNTER, "", "Partitions that this broker came to lead."),
    ("kompat_leader_changes_total", COUNTER, "", "New leaders of partitions that this broker has."),
    ("kompat_raft_follower_lag_entries", GAUGE, "peer", "The most entries that a broker lacks of any log that this one leads."),
    # groups
    ("kompat_groups", GAUGE, "", "Groups that this broker coordinates, of all kinds."),
    ("kompat_group_offset", GAUGE, "group topic partition", "The committed offset of a group that this broker coordinates."),
    ("kompat_group_lag", GAUGE, "group topic partition", "Records after the committed offset of a group that this broker coordinates; where it does not have the partition, by what its leader told in the last seconds."),
    # queues, delays, dead letters, traces
    ("kompat_queue_records", GAUGE, "group topic state", "Records of share groups on partitions that this broker leads, by state: available, in_flight, backing_off, being_buried. Of groups in use."),
    ("kompat_queue_depth", GAUGE, "group topic class", "Those of them that nobody holds, available and backing_off, by priority class. Where a class has tens of thousands in a partition, those that come first."),
    ("kompat_lane_records", GAUGE, "topic class", "Records that wait in the lanes of a topic that is delivered by priority."),
    ("kompat_lane_released_total", COUNTER, "", "Records that have left their lanes."),
    ("kompat_delayed_records", GAUGE, "", "Records that wait for their time, in partitions that this broker leads."),
    ("kompat_delayed_undecided_records", GAUGE, "", "Delayed records of transactions that have not ended."),
    ("kompat_delayed_bytes", GAUGE, "", "Bytes of both."),
    ("kompat_delayed_overdue_seconds", GAUGE, "", "How long ago the first delayed record was due; 0 where none is."),
    ("kompat_delayed_fired_total", COUNTER, "", "Delayed records that were delivered."),
    ("kompat_dead_letters_total", COUNTER, "", "Dead letters that this broker has written, or had written."),
    ("kompat_dead_letter_records", GAUGE, "topic", "Letters in the partitions of a dead-letter topic that this broker leads."),
    ("kompat_trace_events_total", COUNTER, "", "Events of traced records that were written."),
    ("kompat_trace_events_dropped_total", COUNTER, "", "Events that were not, for there were too many."),
    # storage
    ("kompat_sync_seconds", HISTOGRAM, "", "How long the disk took to have all that was written."),
    ("kompat_cache_bytes", GAUGE, "", "Bytes of recent batches that are kept in memory; `kompat.cache.bytes` limits them."),
    ("kompat_damaged_batches_total", COUNTER, "", "Stored batches that a read found not to be what was written."),
    ("kompat_repaired_batches_total", COUNTER, "", "Damaged batches that were replaced by another replica's."),
    ("kompat_refused_replica_batches_total", COUNTER, "", "Batches of another replica that did not come as it had written them, and were asked for again."),
    ("kompat_disk_free_bytes", GAUGE, "", "Free bytes of the file system that the data directory is on."),
    ("kompat_disk_size_bytes", GAUGE, "", "All bytes of it."),
    ("kompat_disk_refusing", GAUGE, "", "1 while writes are refused: the disk is full, or could not be synced."),
    ("kompat_rocksdb_memtable_bytes", GAUGE, "family", "Bytes in memory that are not in tables yet."),
    ("kompat_rocksdb_table_bytes", GAUGE, "family", "Bytes of all tables."),
    ("kompat_rocksdb_keys", GAUGE, "family", "Keys, estimated."),
    ("kompat_rocksdb_level0_files", GAUGE, "family", "Tables that are not sorted into levels yet; from 64 on writes are slowed down."),
    ("kompat_rocksdb_pending_compaction_bytes", GAUGE, "family", "Bytes that compaction has yet to write, estimated."),
    ("kompat_rocksdb_running_compactions", GAUGE, "", "Compactions under way."),
    ("kompat_rocksdb_running_flushes", GAUGE, "", "Flushes under way."),
    ("kompat_rocksdb_block_cache_bytes", GAUGE, "", "Bytes in the block cache."),
    ("kompat_rocksdb_write_stopped", GAUGE, "", "1 while RocksDB stops writes."),
    ("kompat_rocksdb_delayed_write_rate", GAUGE, "", "Bytes a second that RocksDB slows writes down to; 0: it does not."),
    # clients' own metrics (KIP-714)
    ("kompat_client_instances", GAUGE, "", "Clients that have pushed metrics lately."),
    ("kompat_client_pushes_total", COUNTER, "", "Pushes that were accepted."),
    ("kompat_client_pushes_refused_total", COUNTER, "error", "Pushes that were refused."),
    ("kompat_client_metric", GAUGE, "client_id client_instance_id metric attributes", "The newest value of a metric that a client has pushed: a gauge, or a sum."),
    # the process
    ("kompat_build_info", GAUGE, "version python node_id cluster_id", "1."),
    ("kompat_loop_lag_seconds", HISTOGRAM, "", "How late the event loop came to a timer, looked at four times a second."),
    ("kompat_gc_collections_total", COUNTER, "generation", "Runs of Python's garbage collector."),
    ("process_resident_memory_bytes", GAUGE, "", "Memory that the process has."),
    ("process_virtual_memory_bytes", GAUGE, "", "Addresses that the process has."),
    ("process_cpu_seconds_total", COUNTER, "", "CPU time of the process."),
    ("process_open_fds", GAUGE, "", "Open files and sockets."),
    ("process_max_fds", GAUGE, "", "The most of them that there may be."),
    ("process_start_time_seconds", GAUGE, "", "When the process began, by Unix time."),
    # this page
    ("kompat_metrics_seconds", GAUGE, "", "How long it took to gather the page before this one."),
    ("kompat_metrics_left_out", GAUGE, "metric", "Series that are not on this page, for there are too many of the kind."),
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
    return "\n".join(("| metric | kind | labels | what it tells |", "| --- | --- | --- | --- |", *rows))
