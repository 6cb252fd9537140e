//! Topics' own keys.
//!
//! Pure: a table.

use super::reasons::{COMPACTION, DURABILITY, LEVELS, NO_SEGMENTS, SHARE_GROUPS, TIERED_STORAGE};
use super::{Definition, boolean, double, int, list, long, string};

/// The rows, by name.
pub(super) const ROWS: &[Definition] = &[
    list("cleanup.policy", Some("delete"))
        .one_of(&["compact", "delete"])
        .synonyms(&["log.cleanup.policy"])
        .doc("What happens to old records: delete by age and size, compact by key, or both."),
    int("compression.gzip.level", Some("-1"))
        .between_or(1, 9, -1)
        .synonyms(&["compression.gzip.level"])
        .no_effect(LEVELS)
        .doc("Level where the broker compresses with gzip."),
    int("compression.lz4.level", Some("9"))
        .between(1, 17)
        .synonyms(&["compression.lz4.level"])
        .no_effect(LEVELS)
        .doc("Level where the broker compresses with lz4."),
    string("compression.type", Some("producer"))
        .one_of(&["uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"])
        .synonyms(&["compression.type"])
        .doc("Codec that batches are stored in; producer keeps what the producer chose."),
    int("compression.zstd.level", Some("3"))
        .between(-131072, 22)
        .synonyms(&["compression.zstd.level"])
        .no_effect(LEVELS)
        .doc("Level where the broker compresses with zstd."),
    long("delete.retention.ms", Some("86400000"))
        .at_least(0)
        .synonyms(&["log.cleaner.delete.retention.ms"])
        .no_effect(COMPACTION)
        .doc("How long a tombstone stays in the compacted topic."),
    boolean("errors.deadletterqueue.group.enable", Some("false"))
        .no_effect(SHARE_GROUPS)
        .doc("Whether share groups may put undeliverable records into this topic."),
    long("file.delete.delay.ms", Some("60000"))
        .at_least(0)
        .synonyms(&["log.segment.delete.delay.ms"])
        .no_effect(NO_SEGMENTS)
        .doc("How long the files of a deleted segment stay."),
    long("flush.messages", Some("9223372036854775807"))
        .at_least(1)
        .synonyms(&["log.flush.interval.messages"])
        .no_effect(DURABILITY)
        .doc("Records after which Kafka forces a sync; here highwater.durability decides."),
    long("flush.ms", Some("9223372036854775807"))
        .at_least(0)
        .synonyms(&["log.flush.interval.ms", "log.flush.scheduler.interval.ms"])
        .no_effect(DURABILITY)
        .doc("Time after which Kafka forces a sync; here highwater.durability decides."),
    list("follower.replication.throttled.replicas", Some("")).replicas().doc(
        "Replicas that are caught up no faster than their broker's \
             follower.replication.throttled.rate, as partition:broker pairs, or * for all of them.",
    ),
    string("highwater.durability", Some("fsync"))
        .one_of(&["fsync", "os"])
        .synonyms(&["highwater.durability"])
        .doc("Whether acks=all waits for the disk (fsync) or the operating system (os)."),
    int("index.interval.bytes", Some("4096"))
        .at_least(0)
        .synonyms(&["log.index.interval.bytes"])
        .no_effect(NO_SEGMENTS)
        .doc("Bytes between two entries of Kafka's offset index; every batch is indexed here."),
    list("leader.replication.throttled.replicas", Some("")).replicas().doc(
        "Leaders that catch others up no faster than their broker's \
             leader.replication.throttled.rate, as partition:broker pairs, or * for all of them.",
    ),
    long("local.retention.bytes", Some("-2"))
        .at_least(-2)
        .synonyms(&["log.local.retention.bytes"])
        .no_effect(TIERED_STORAGE)
        .doc("Bytes of a partition that stay local; -2 is the whole retention."),
    long("local.retention.ms", Some("-2"))
        .at_least(-2)
        .synonyms(&["log.local.retention.ms"])
        .no_effect(TIERED_STORAGE)
        .doc("How long records stay local; -2 is the whole retention."),
    long("max.compaction.lag.ms", Some("9223372036854775807"))
        .at_least(1)
        .synonyms(&["log.cleaner.max.compaction.lag.ms"])
        .no_effect(COMPACTION)
        .doc("Longest time a record may stay uncompacted."),
    int("max.decompressed.message.bytes", Some("2147483639"))
        .between(1, 2147483639)
        .synonyms(&["max.decompressed.message.bytes"])
        .doc("Largest size of a batch's records once decompressed."),
    int("max.message.bytes", Some("1048588"))
        .at_least(0)
        .synonyms(&["message.max.bytes"])
        .doc("Largest record batch, as it stands on the wire after compression."),
    long("message.timestamp.after.max.ms", Some("3600000"))
        .at_least(0)
        .synonyms(&["log.message.timestamp.after.max.ms"])
        .doc("How far ahead of the broker's clock a record's timestamp may be."),
    long("message.timestamp.before.max.ms", Some("9223372036854775807"))
        .at_least(0)
        .synonyms(&["log.message.timestamp.before.max.ms"])
        .doc("How far behind the broker's clock a record's timestamp may be."),
    string("message.timestamp.type", Some("CreateTime"))
        .one_of(&["CreateTime", "LogAppendTime"])
        .synonyms(&["log.message.timestamp.type"])
        .doc("Whether records keep the producer's time or get the time of their append."),
    double("min.cleanable.dirty.ratio", Some("0.5"))
        .between(0, 1)
        .synonyms(&["log.cleaner.min.cleanable.ratio"])
        .no_effect(COMPACTION)
        .doc("Share of uncompacted bytes from which on the log is compacted."),
    long("min.compaction.lag.ms", Some("0"))
        .at_least(0)
        .synonyms(&["log.cleaner.min.compaction.lag.ms"])
        .no_effect(COMPACTION)
        .doc("Shortest time a record stays uncompacted."),
    int("min.insync.replicas", Some("1"))
        .at_least(1)
        .synonyms(&["min.insync.replicas"])
        .doc("Replicas that must have a batch before acks=all is answered."),
    boolean("preallocate", Some("false"))
        .synonyms(&["log.preallocate"])
        .no_effect(NO_SEGMENTS)
        .doc("Whether segment files are allocated whole when they are made."),
    long("remote.copy.lag.bytes", Some("-1"))
        .at_least(-1)
        .synonyms(&["log.remote.copy.lag.bytes"])
        .no_effect(TIERED_STORAGE)
        .doc("Bytes that are not copied to the remote tier yet."),
    long("remote.copy.lag.ms", Some("0"))
        .at_least(-1)
        .synonyms(&["log.remote.copy.lag.ms"])
        .no_effect(TIERED_STORAGE)
        .doc("Age before which records are not copied to the remote tier."),
    boolean("remote.log.copy.disable", Some("false"))
        .no_effect(TIERED_STORAGE)
        .doc("Whether a tiered topic is no longer copied."),
    boolean("remote.log.delete.on.disable", Some("false"))
        .no_effect(TIERED_STORAGE)
        .doc("Whether remote segments are deleted when tiering ends."),
    boolean("remote.storage.enable", Some("false"))
        .no_effect(TIERED_STORAGE)
        .doc("Whether the topic is tiered."),
    long("retention.bytes", Some("-1"))
        .synonyms(&["log.retention.bytes"])
        .doc("Bytes of a partition beyond which its oldest records are deleted; -1 is no limit."),
    long("retention.ms", Some("604800000"))
        .at_least(-1)
        .synonyms(&["log.retention.ms", "log.retention.minutes", "log.retention.hours"])
        .doc("Milliseconds after which records are deleted; -1 is no limit."),
    int("segment.bytes", Some("1073741824"))
        .at_least(1048576)
        .synonyms(&["log.segment.bytes"])
        .doc("Largest batch, whatever max.message.bytes says; there are no segments here."),
    int("segment.index.bytes", Some("10485760"))
        .at_least(4)
        .synonyms(&["log.index.size.max.bytes"])
        .no_effect(NO_SEGMENTS)
        .doc("Largest offset index file."),
    long("segment.jitter.ms", Some("0"))
        .at_least(0)
        .synonyms(&["log.roll.jitter.ms", "log.roll.jitter.hours"])
        .no_effect(NO_SEGMENTS)
        .doc("Random milliseconds taken off segment.ms."),
    long("segment.ms", Some("604800000"))
        .at_least(1)
        .synonyms(&["log.roll.ms", "log.roll.hours"])
        .no_effect(NO_SEGMENTS)
        .doc("Milliseconds after which a new segment begins."),
    boolean("unclean.leader.election.enable", Some("false"))
        .synonyms(&["unclean.leader.election.enable"])
        .doc(
            "Whether an ElectLeaders may have one replica go on where the majority is gone, which \
             loses what only the others have; it never happens by itself.",
        ),
];
