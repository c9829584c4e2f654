"""Kafka 4.3's topic settings: name, type, default, check, the broker settings that give its default, documentation."""

# fmt: off
TOPIC: tuple[tuple[str, str, str | None, str, str, str], ...] = (
    ("cleanup.policy", "list", "delete", "compact|delete", "log.cleanup.policy", "What happens to old records: `delete` drops whole segments by age or size, `compact` keeps the newest record per key; both may be given, and neither keeps everything."),
    ("compression.gzip.level", "int", "-1", "1..9 or -1", "compression.gzip.level", "The level at which the broker recompresses to gzip."),
    ("compression.lz4.level", "int", "9", "1..17", "compression.lz4.level", "The level at which the broker recompresses to lz4."),
    ("compression.type", "string", "producer", "uncompressed|zstd|lz4|snappy|gzip|producer", "compression.type", "The codec that batches are stored with; `producer` keeps what the producer chose."),
    ("compression.zstd.level", "int", "3", "-131072..22", "compression.zstd.level", "The level at which the broker recompresses to zstd."),
    ("delete.retention.ms", "long", "86400000", "0..", "log.cleaner.delete.retention.ms", "How long a compacted topic keeps a tombstone, so that a reader which is behind still sees the delete."),
    ("file.delete.delay.ms", "long", "60000", "0..", "log.segment.delete.delay.ms", "How long the files of removed segments stay on the disk."),
    ("flush.messages", "long", "9223372036854775807", "1..", "log.flush.interval.messages", "Force the log to disk after this many records; by default the operating system decides."),
    ("flush.ms", "long", "9223372036854775807", "0..", "log.flush.interval.ms log.flush.scheduler.interval.ms", "Force the log to disk when a record has waited this long; by default the operating system decides."),
    ("follower.replication.throttled.replicas", "list", "", "throttle", "", "Replicas whose fetching as followers is throttled, as partition:broker pairs, or `*` for all."),
    ("index.interval.bytes", "int", "4096", "0..", "log.index.interval.bytes", "About how many bytes of log lie between two entries of the time index."),
    ("internal.segment.bytes", "int", None, "", "", "Takes the place of `segment.bytes` without its lower limit; for tests."),
    ("leader.replication.throttled.replicas", "list", "", "throttle", "", "Replicas whose serving as leaders is throttled, as partition:broker pairs, or `*` for all."),
    ("local.retention.bytes", "long", "-2", "-2..", "log.local.retention.bytes", "Size of the local log before segments count on the remote copy alone; -2 takes `retention.bytes`. Without effect: kompat has no remote storage."),
    ("local.retention.ms", "long", "-2", "-2..", "log.local.retention.ms", "Age of local segments before they count on the remote copy alone; -2 takes `retention.ms`. Without effect: kompat has no remote storage."),
    ("max.compaction.lag.ms", "long", "9223372036854775807", "1..", "log.cleaner.max.compaction.lag.ms", "The longest a record may stay without being considered for compaction."),
    ("max.message.bytes", "int", "1048588", "0..", "message.max.bytes", "The largest record batch the topic takes, after compression."),
    ("message.timestamp.after.max.ms", "long", "3600000", "0..", "log.message.timestamp.after.max.ms", "How far a record's CreateTime may lie in the future of the broker's clock."),
    ("message.timestamp.before.max.ms", "long", "9223372036854775807", "0..", "log.message.timestamp.before.max.ms", "How far a record's CreateTime may lie in the past of the broker's clock."),
    ("message.timestamp.type", "string", "CreateTime", "CreateTime|LogAppendTime", "log.message.timestamp.type", "Whether records keep the producer's time (`CreateTime`) or get the broker's (`LogAppendTime`)."),
    ("min.cleanable.dirty.ratio", "double", "0.5", "0..1", "log.cleaner.min.cleanable.ratio", "The share of a compacted log that must be uncleaned before the cleaner looks at it."),
    ("min.compaction.lag.ms", "long", "0", "0..", "log.cleaner.min.compaction.lag.ms", "How long a record stays uncompacted at least."),
    ("min.insync.replicas", "int", "1", "1..", "min.insync.replicas", "How many replicas must have a write before acks=all is answered."),
    ("preallocate", "bool", "false", "", "log.preallocate", "Reserve a segment's disk space when it is created. Without effect in kompat."),
    ("remote.log.copy.disable", "bool", "false", "", "", "Stop copying segments to remote storage. Without effect: kompat has none."),
    ("remote.log.delete.on.disable", "bool", "false", "", "", "Remove the remote copy when remote storage is turned off. Without effect: kompat has none."),
    ("remote.storage.enable", "bool", "false", "", "", "Keep older segments in remote storage. kompat has none, so only `false` is taken."),
    ("retention.bytes", "long", "-1", "", "log.retention.bytes", "The size a partition may grow to before its oldest segments are deleted; -1 sets no limit."),
    ("retention.ms", "long", "604800000", "-1..", "log.retention.ms log.retention.minutes log.retention.hours", "The age at which segments are deleted; -1 sets no limit."),
    ("segment.bytes", "int", "1073741824", "1048576..", "log.segment.bytes", "The size at which a new segment is begun; retention and compaction work on whole segments."),
    ("segment.index.bytes", "int", "10485760", "4..", "log.index.size.max.bytes", "The size of a segment's index file in Kafka. Without effect: kompat's index is part of its store."),
    ("segment.jitter.ms", "long", "0", "0..", "log.roll.jitter.ms log.roll.jitter.hours", "A random time taken off `segment.ms`, so that partitions do not all roll at once."),
    ("segment.ms", "long", "604800000", "1..", "log.roll.ms log.roll.hours", "The age at which a new segment is begun even if the present one is not full."),
    ("unclean.leader.election.enable", "bool", "false", "", "unclean.leader.election.enable", "Let a replica that lacks acknowledged records become leader when no other is left."),
)

# What Kafka has no setting for.
OWN: tuple[tuple[str, str, str | None, str, str, str], ...] = (
    ("kompat.dedup.window.ms", "long", "120000", "0..", "kompat.dedup.window.ms", "How long a message id (`kompat-msg-id`) is remembered: a record that repeats it meanwhile is dropped; 0 for not at all."),
    ("kompat.delay.max.ms", "long", "604800000", "0..", "kompat.delay.max.ms", "The longest a record may ask to be delivered later; one that asks for more is refused."),
    ("kompat.delivery.order", "string", "offset", "offset|priority", "kompat.delivery.order", "In which order consumers get records: by `offset`, or by `priority`: then they wait in lanes until a consumer asks for more, and come by their header `kompat-priority`."),
    ("kompat.extensions.enable", "bool", "true", "", "kompat.extensions.enable", "Heed the headers by which records ask for more than Kafka gives, such as `kompat-delay-ms`."),
    ("kompat.priority.aging.ms", "long", "30000", "0..", "kompat.priority.aging.ms", "A record that has waited for so much longer than another counts as one class of priority higher; 0: classes are strict."),
    ("kompat.priority.release.max.records", "int", "500", "1..", "kompat.priority.release.max.records", "Where `kompat.delivery.order` is `priority`: how many records a consumer that has read all there is gets at a time. Their order is then decided."),
    ("kompat.priority.window", "int", "0", "0..", "kompat.priority.window", "Where `kompat.delivery.order` is `priority`: no more records are released while so many are that no group has committed; 0 for no limit."),
    ("kompat.queue.lock.ms", "int", "30000", "1..", "", "Of a queue topic: how long a delivered record is its consumer's; not acknowledged by then, it is delivered again."),
    ("kompat.queue.max.deliveries", "int", "5", "1..32767", "", "Of a queue topic: how often a record is delivered before it is given up, and becomes a dead letter."),
    ("kompat.queue.max.in.flight", "int", "100", "1..10000", "", "Of a queue topic: how many deliveries of one of its partitions may wait for their acknowledgements."),
    ("kompat.queue.source", "string", "", "", "", "Makes the topic a queue of another one's records, each of which is acknowledged by itself; only when it is created."),
    ("kompat.trace.sample", "double", "0", "0..1", "kompat.trace.sample", "The share of a topic's records that are traced without asking for it, from 0 for none to 1 for all."),
)

# Taken, but not listed among a topic's settings.
HIDDEN = frozenset({"internal.segment.bytes"})
