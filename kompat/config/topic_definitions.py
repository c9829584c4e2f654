"""Kafka 4.3's topic settings: name, type, default, check, the broker settings that give its default, documentation."""

# fmt: off
TOPIC: tuple[tuple[str, str, str | None, str, str, str], ...] = (
    ("cleanup.policy", "list", "delete", "compact|delete", "log.cleanup.policy", "The cleanup policy for old records: `delete` deletes whole segments by age or size, `compact` keeps the latest record of each key; both may be given, and an empty list keeps all records."),
    ("compression.gzip.level", "int", "-1", "1..9 or -1", "compression.gzip.level", "The level at which the broker recompresses to gzip."),
    ("compression.lz4.level", "int", "9", "1..17", "compression.lz4.level", "The level at which the broker recompresses to lz4."),
    ("compression.type", "string", "producer", "uncompressed|zstd|lz4|snappy|gzip|producer", "compression.type", "The compression type of stored batches; `producer` keeps the producer's compression type."),
    ("compression.zstd.level", "int", "3", "-131072..22", "compression.zstd.level", "The level at which the broker recompresses to zstd."),
    ("delete.retention.ms", "long", "86400000", "0..", "log.cleaner.delete.retention.ms", "How long a compacted topic keeps a tombstone, so that a consumer that is behind still sees the deletion."),
    ("file.delete.delay.ms", "long", "60000", "0..", "log.segment.delete.delay.ms", "How long the files of removed segments stay on the disk."),
    ("flush.messages", "long", "9223372036854775807", "1..", "log.flush.interval.messages", "Flush the log to the disk after this many records; by default the operating system decides."),
    ("flush.ms", "long", "9223372036854775807", "0..", "log.flush.interval.ms log.flush.scheduler.interval.ms", "Flush the log to the disk when a record has waited this long; by default the operating system decides."),
    ("follower.replication.throttled.replicas", "list", "", "throttle", "", "Replicas whose fetching as followers is throttled, as partition:broker pairs, or `*` for all."),
    ("index.interval.bytes", "int", "4096", "0..", "log.index.interval.bytes", "About how many bytes of log lie between two entries of the time index."),
    ("internal.segment.bytes", "int", None, "", "", "Replaces `segment.bytes`, without its lower limit; for tests."),
    ("leader.replication.throttled.replicas", "list", "", "throttle", "", "Replicas whose serving as leaders is throttled, as partition:broker pairs, or `*` for all."),
    ("local.retention.bytes", "long", "-2", "-2..", "log.local.retention.bytes", "Size of the local log before segments count on the remote copy alone; -2 takes `retention.bytes`. It has no effect: kompat has no remote storage."),
    ("local.retention.ms", "long", "-2", "-2..", "log.local.retention.ms", "Age of local segments before they count on the remote copy alone; -2 takes `retention.ms`. It has no effect: kompat has no remote storage."),
    ("max.compaction.lag.ms", "long", "9223372036854775807", "1..", "log.cleaner.max.compaction.lag.ms", "The longest a record may stay without being considered for compaction."),
    ("max.message.bytes", "int", "1048588", "0..", "message.max.bytes", "The maximum size of a record batch, after compression."),
    ("message.timestamp.after.max.ms", "long", "3600000", "0..", "log.message.timestamp.after.max.ms", "How far a record's CreateTime may lie in the future of the broker's clock."),
    ("message.timestamp.before.max.ms", "long", "9223372036854775807", "0..", "log.message.timestamp.before.max.ms", "How far a record's CreateTime may lie in the past of the broker's clock."),
    ("message.timestamp.type", "string", "CreateTime", "CreateTime|LogAppendTime", "log.message.timestamp.type", "Whether records keep the producer's time (`CreateTime`) or get the broker's (`LogAppendTime`)."),
    ("min.cleanable.dirty.ratio", "double", "0.5", "0..1", "log.cleaner.min.cleanable.ratio", "The uncleaned ratio of a compacted log at which the cleaner starts."),
    ("min.compaction.lag.ms", "long", "0", "0..", "log.cleaner.min.compaction.lag.ms", "How long a record stays uncompacted at least."),
    ("min.insync.replicas", "int", "1", "1..", "min.insync.replicas", "The minimum number of in-sync replicas for acks=all."),
    ("preallocate", "bool", "false", "", "log.preallocate", "Reserve a segment's disk space when it is created. It has no effect in kompat."),
    ("remote.log.copy.disable", "bool", "false", "", "", "Stop copying segments to remote storage. It has no effect: kompat has none."),
    ("remote.log.delete.on.disable", "bool", "false", "", "", "Remove the remote copy when remote storage is turned off. It has no effect: kompat has none."),
    ("remote.storage.enable", "bool", "false", "", "", "Keep older segments in remote storage. kompat has none, so only `false` is accepted."),
    ("retention.bytes", "long", "-1", "", "log.retention.bytes", "The size a partition may grow to before its oldest segments are deleted; -1 sets no limit."),
    ("retention.ms", "long", "604800000", "-1..", "log.retention.ms log.retention.minutes log.retention.hours", "The age at which segments are deleted; -1 sets no limit."),
    ("segment.bytes", "int", "1073741824", "1048576..", "log.segment.bytes", "The size at which a new segment is rolled; retention and compaction work on whole segments."),
    ("segment.index.bytes", "int", "10485760", "4..", "log.index.size.max.bytes", "The size of a segment's index file in Kafka. It has no effect: kompat's index is part of its store."),
    ("segment.jitter.ms", "long", "0", "0..", "log.roll.jitter.ms log.roll.jitter.hours", "A random time taken off `segment.ms`, so that partitions do not all roll at once."),
    ("segment.ms", "long", "604800000", "1..", "log.roll.ms log.roll.hours", "The age at which a new segment is rolled even if the current one is not full."),
    ("unclean.leader.election.enable", "bool", "false", "", "unclean.leader.election.enable", "Allow a replica without all acknowledged records to become the leader if no other is left."),
)

# Settings that Kafka does not have.
OWN: tuple[tuple[str, str, str | None, str, str, str], ...] = (
    ("kompat.dedup.window.ms", "long", "120000", "0..", "kompat.dedup.window.ms", "How long a partition remembers a message id (`kompat-msg-id`): the broker drops records that repeat it in this time; 0 disables deduplication."),
    ("kompat.delay.max.ms", "long", "604800000", "0..", "kompat.delay.max.ms", "The maximum delay of a record; the broker rejects records with a longer delay."),
    ("kompat.delivery.order", "string", "offset", "offset|priority", "kompat.delivery.order", "The order in which consumers get records: by `offset`, or by `priority`. With `priority`, records wait in lanes until a consumer fetches, and are then delivered by their header `kompat-priority`."),
    ("kompat.extensions.enable", "bool", "true", "", "kompat.extensions.enable", "Enable the extensions that record headers request, such as `kompat-delay-ms`."),
    ("kompat.priority.aging.ms", "long", "30000", "0..", "kompat.priority.aging.ms", "A record that has waited longer than another one by this time counts as one priority class higher; 0 disables aging."),
    ("kompat.priority.release.max.records", "int", "500", "1..", "kompat.priority.release.max.records", "If `kompat.delivery.order` is `priority`: the maximum number of records that a fetch at the end of the log releases. Their order is final then."),
    ("kompat.priority.window", "int", "0", "0..", "kompat.priority.window", "If `kompat.delivery.order` is `priority`: the maximum number of released records that no group has committed; 0 sets no limit."),
    ("kompat.queue.lock.ms", "int", "30000", "1..", "", "For a queue topic: the duration of the acquisition lock; a record that is not acknowledged in time is redelivered."),
    ("kompat.queue.max.deliveries", "int", "5", "1..32767", "", "For a queue topic: the maximum number of deliveries of a record before it becomes a dead-letter record."),
    ("kompat.queue.max.in.flight", "int", "100", "1..10000", "", "For a queue topic: the maximum number of unacknowledged deliveries of a partition."),
    ("kompat.queue.source", "string", "", "", "", "The source topic of a queue topic, whose consumers acknowledge single records; it can be set only at creation."),
    ("kompat.trace.sample", "double", "0", "0..1", "kompat.trace.sample", "The ratio of the topic's records that are traced without the header, from 0 for none to 1 for all."),
)

# Accepted, but not listed among a topic's settings.
HIDDEN = frozenset({"internal.segment.bytes"})
