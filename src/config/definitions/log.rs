//! Logs: where they lie, how long records stay, what is accepted into them.
//!
//! Pure: a table.

use super::reasons::{COMPACTION, DURABILITY, LEVELS, NO_SEGMENTS};
use super::{Definition, boolean, double, int, list, long, string};

/// The rows, by name.
pub(super) const ROWS: &[Definition] = &[
    int("compression.gzip.level", Some("-1"))
        .between_or(1, 9, -1)
        .cluster_wide()
        .no_effect(LEVELS)
        .doc("Level for topics that are compressed with gzip by the broker."),
    int("compression.lz4.level", Some("9"))
        .between(1, 17)
        .cluster_wide()
        .no_effect(LEVELS)
        .doc("Level for topics that are compressed with lz4 by the broker."),
    string("compression.type", Some("producer"))
        .one_of(&["uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"])
        .cluster_wide()
        .doc("Codec that batches are stored in; producer keeps what the producer chose."),
    int("compression.zstd.level", Some("3"))
        .between(-131072, 22)
        .cluster_wide()
        .no_effect(LEVELS)
        .doc("Level for topics that are compressed with zstd by the broker."),
    list("cordoned.log.dirs", Some(""))
        .per_broker()
        .no_effect(NO_SEGMENTS)
        .doc("Log directories that get no new partitions."),
    string("highwater.durability", Some("fsync"))
        .one_of(&["fsync", "os"])
        .cluster_wide()
        .doc("Whether acks=all waits for the disk (fsync) or the operating system (os)."),
    long("log.cleaner.backoff.ms", Some("15000"))
        .at_least(0)
        .cluster_wide()
        .no_effect(COMPACTION)
        .doc("Pause of the cleaner when there was nothing to compact."),
    long("log.cleaner.dedupe.buffer.size", Some("134217728"))
        .cluster_wide()
        .no_effect(COMPACTION)
        .doc("Memory for the cleaner's key table."),
    long("log.cleaner.delete.retention.ms", Some("86400000"))
        .at_least(0)
        .cluster_wide()
        .no_effect(COMPACTION)
        .doc("How long a tombstone stays in a compacted topic."),
    boolean("log.cleaner.enable", Some("true"))
        .no_effect(COMPACTION)
        .doc("Whether the cleaner runs."),
    double("log.cleaner.io.buffer.load.factor", Some("0.9"))
        .cluster_wide()
        .no_effect(COMPACTION)
        .doc("How full the cleaner's key table may be."),
    int("log.cleaner.io.buffer.size", Some("524288"))
        .at_least(0)
        .cluster_wide()
        .no_effect(COMPACTION)
        .doc("Memory for the cleaner's reads and writes."),
    double("log.cleaner.io.max.bytes.per.second", Some("1.7976931348623157E308"))
        .cluster_wide()
        .no_effect(COMPACTION)
        .doc("Bytes per second the cleaner may read and write."),
    long("log.cleaner.max.compaction.lag.ms", Some("9223372036854775807"))
        .at_least(1)
        .cluster_wide()
        .no_effect(COMPACTION)
        .doc("Longest time a record may stay uncompacted."),
    double("log.cleaner.min.cleanable.ratio", Some("0.5"))
        .between(0, 1)
        .cluster_wide()
        .no_effect(COMPACTION)
        .doc("Share of uncompacted bytes from which on a log is compacted."),
    long("log.cleaner.min.compaction.lag.ms", Some("0"))
        .at_least(0)
        .cluster_wide()
        .no_effect(COMPACTION)
        .doc("Shortest time a record stays uncompacted."),
    int("log.cleaner.threads", Some("1"))
        .at_least(0)
        .cluster_wide()
        .no_effect(COMPACTION)
        .doc("Threads that compact."),
    list("log.cleanup.policy", Some("delete"))
        .one_of(&["compact", "delete"])
        .cluster_wide()
        .doc("What happens to old records: delete by age and size, compact by key, or both."),
    list("log.dir", Some("./data")).doc("Directory of the data, where log.dirs is not given."),
    long("log.dir.failure.timeout.ms", Some("30000"))
        .at_least(1)
        .no_effect(NO_SEGMENTS)
        .doc("How long a broker goes on when it cannot report a failed directory."),
    list("log.dirs", None).doc("Directories of the data; the first one is used."),
    long("log.flush.interval.messages", Some("9223372036854775807"))
        .at_least(1)
        .cluster_wide()
        .no_effect(DURABILITY)
        .doc("Records after which Kafka forces a sync; here highwater.durability decides."),
    long("log.flush.interval.ms", None)
        .cluster_wide()
        .no_effect(DURABILITY)
        .doc("Time after which Kafka forces a sync; here highwater.durability decides."),
    int("log.flush.offset.checkpoint.interval.ms", Some("60000"))
        .at_least(0)
        .no_effect(NO_SEGMENTS)
        .doc("How often Kafka writes its recovery point."),
    long("log.flush.scheduler.interval.ms", Some("9223372036854775807"))
        .no_effect(DURABILITY)
        .doc("How often Kafka looks for logs to sync."),
    int("log.flush.start.offset.checkpoint.interval.ms", Some("60000"))
        .at_least(0)
        .no_effect(NO_SEGMENTS)
        .doc("How often Kafka writes its log start offsets."),
    int("log.index.interval.bytes", Some("4096"))
        .at_least(0)
        .cluster_wide()
        .no_effect(NO_SEGMENTS)
        .doc("Bytes between two entries of Kafka's offset index; every batch is indexed here."),
    int("log.index.size.max.bytes", Some("10485760"))
        .at_least(4)
        .cluster_wide()
        .no_effect(NO_SEGMENTS)
        .doc("Largest offset index file."),
    long("log.message.timestamp.after.max.ms", Some("3600000"))
        .at_least(0)
        .cluster_wide()
        .doc("How far ahead of the broker's clock a record's timestamp may be."),
    long("log.message.timestamp.before.max.ms", Some("9223372036854775807"))
        .at_least(0)
        .cluster_wide()
        .doc("How far behind the broker's clock a record's timestamp may be."),
    string("log.message.timestamp.type", Some("CreateTime"))
        .one_of(&["CreateTime", "LogAppendTime"])
        .cluster_wide()
        .doc("Whether records keep the producer's time or get the time of their append."),
    boolean("log.preallocate", Some("false"))
        .cluster_wide()
        .no_effect(NO_SEGMENTS)
        .doc("Whether segment files are allocated whole when they are made."),
    long("log.retention.bytes", Some("-1"))
        .cluster_wide()
        .doc("Bytes of a partition beyond which its oldest records are deleted; -1 is no limit."),
    long("log.retention.check.interval.ms", Some("300000"))
        .at_least(1)
        .doc("How often retention is enforced."),
    int("log.retention.hours", Some("168"))
        .doc("Hours after which records are deleted, where neither ms nor minutes are given."),
    int("log.retention.minutes", None)
        .doc("Minutes after which records are deleted, where ms are not given."),
    long("log.retention.ms", None)
        .cluster_wide()
        .doc("Milliseconds after which records are deleted; -1 is no limit."),
    int("log.roll.hours", Some("168"))
        .at_least(1)
        .no_effect(NO_SEGMENTS)
        .doc("Hours after which a new segment begins, where ms are not given."),
    int("log.roll.jitter.hours", Some("0"))
        .at_least(0)
        .no_effect(NO_SEGMENTS)
        .doc("Random hours taken off log.roll.hours."),
    long("log.roll.jitter.ms", None)
        .cluster_wide()
        .no_effect(NO_SEGMENTS)
        .doc("Random milliseconds taken off log.roll.ms."),
    long("log.roll.ms", None)
        .cluster_wide()
        .no_effect(NO_SEGMENTS)
        .doc("Milliseconds after which a new segment begins."),
    int("log.segment.bytes", Some("1073741824"))
        .at_least(1048576)
        .cluster_wide()
        .doc("Largest batch, whatever message.max.bytes says; there are no segments here."),
    long("log.segment.delete.delay.ms", Some("60000"))
        .at_least(0)
        .cluster_wide()
        .no_effect(NO_SEGMENTS)
        .doc("How long the files of a deleted segment stay."),
    int("max.decompressed.message.bytes", Some("2147483639"))
        .between(1, 2147483639)
        .cluster_wide()
        .doc("Largest size of a batch's records once decompressed."),
    int("message.max.bytes", Some("1048588"))
        .at_least(0)
        .cluster_wide()
        .doc("Largest record batch, as it stands on the wire after compression."),
    int("min.insync.replicas", Some("1"))
        .at_least(1)
        .cluster_wide()
        .doc("Replicas that must have a batch before acks=all is answered."),
    int("producer.id.expiration.ms", Some("86400000"))
        .at_least(1)
        .doc("How long the state of an idempotent producer is kept after its last batch."),
];
