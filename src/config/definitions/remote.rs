//! Tiered storage.
//!
//! Pure: a table.

use super::reasons::TIERED_STORAGE;
use super::{Definition, boolean, int, long, string};

const METADATA_MANAGER: &str =
    "org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager";

/// The rows, by name.
pub(super) const ROWS: &[Definition] = &[
    boolean("follower.fetch.last.tiered.offset.enable", Some("false"))
        .cluster_wide()
        .no_effect(TIERED_STORAGE)
        .doc("Whether a new follower begins behind what is in the remote tier."),
    long("log.local.retention.bytes", Some("-2"))
        .at_least(-2)
        .cluster_wide()
        .no_effect(TIERED_STORAGE)
        .doc("Bytes of a partition that stay local; -2 is the whole retention."),
    long("log.local.retention.ms", Some("-2"))
        .at_least(-2)
        .cluster_wide()
        .no_effect(TIERED_STORAGE)
        .doc("How long records stay local; -2 is the whole retention."),
    long("log.remote.copy.lag.bytes", Some("-1"))
        .at_least(-1)
        .cluster_wide()
        .no_effect(TIERED_STORAGE)
        .doc("Bytes that are not copied to the remote tier yet."),
    long("log.remote.copy.lag.ms", Some("0"))
        .at_least(-1)
        .cluster_wide()
        .no_effect(TIERED_STORAGE)
        .doc("Age before which records are not copied to the remote tier."),
    int("remote.fetch.max.wait.ms", Some("500"))
        .at_least(1)
        .cluster_wide()
        .no_effect(TIERED_STORAGE)
        .doc("How long a fetch waits for the remote tier."),
    long("remote.list.offsets.request.timeout.ms", Some("30000"))
        .at_least(1)
        .cluster_wide()
        .no_effect(TIERED_STORAGE)
        .doc("How long ListOffsets waits for the remote tier."),
    long("remote.log.index.file.cache.total.size.bytes", Some("1073741824"))
        .at_least(1)
        .cluster_wide()
        .no_effect(TIERED_STORAGE)
        .doc("Bytes of remote indexes that are kept locally."),
    int("remote.log.manager.copier.thread.pool.size", Some("10"))
        .at_least(1)
        .cluster_wide()
        .no_effect(TIERED_STORAGE)
        .doc("Threads that copy to the remote tier."),
    long("remote.log.manager.copy.max.bytes.per.second", Some("9223372036854775807"))
        .at_least(1)
        .cluster_wide()
        .no_effect(TIERED_STORAGE)
        .doc("Bytes per second that are copied to the remote tier."),
    int("remote.log.manager.copy.quota.window.num", Some("11"))
        .at_least(1)
        .no_effect(TIERED_STORAGE)
        .doc("Samples kept for the quota on copies to the remote tier."),
    int("remote.log.manager.copy.quota.window.size.seconds", Some("1"))
        .at_least(1)
        .no_effect(TIERED_STORAGE)
        .doc("Length of one sample of the quota on copies to the remote tier."),
    int("remote.log.manager.expiration.thread.pool.size", Some("10"))
        .at_least(1)
        .cluster_wide()
        .no_effect(TIERED_STORAGE)
        .doc("Threads that delete from the remote tier."),
    long("remote.log.manager.fetch.max.bytes.per.second", Some("9223372036854775807"))
        .at_least(1)
        .cluster_wide()
        .no_effect(TIERED_STORAGE)
        .doc("Bytes per second that are fetched from the remote tier."),
    int("remote.log.manager.fetch.quota.window.num", Some("11"))
        .at_least(1)
        .no_effect(TIERED_STORAGE)
        .doc("Samples kept for the quota on fetches from the remote tier."),
    int("remote.log.manager.fetch.quota.window.size.seconds", Some("1"))
        .at_least(1)
        .no_effect(TIERED_STORAGE)
        .doc("Length of one sample of the quota on fetches from the remote tier."),
    int("remote.log.manager.follower.thread.pool.size", Some("2"))
        .at_least(1)
        .cluster_wide()
        .no_effect(TIERED_STORAGE)
        .doc("Threads that look after followers of tiered partitions."),
    long("remote.log.manager.task.interval.ms", Some("30000"))
        .at_least(1)
        .no_effect(TIERED_STORAGE)
        .doc("How often tiered partitions are looked at."),
    int("remote.log.manager.thread.pool.size", Some("2"))
        .at_least(1)
        .no_effect(TIERED_STORAGE)
        .doc("Threads that schedule work on the remote tier."),
    int("remote.log.metadata.custom.metadata.max.bytes", Some("128"))
        .at_least(0)
        .no_effect(TIERED_STORAGE)
        .doc("Largest custom metadata of a remote segment."),
    string("remote.log.metadata.manager.class.name", Some(METADATA_MANAGER))
        .no_effect(TIERED_STORAGE)
        .doc("Class that keeps metadata of remote segments."),
    string("remote.log.metadata.manager.class.path", None)
        .no_effect(TIERED_STORAGE)
        .doc("Where the class for metadata of remote segments is found."),
    string("remote.log.metadata.manager.impl.prefix", Some("rlmm.config."))
        .no_effect(TIERED_STORAGE)
        .doc("How keys for the manager of remote metadata begin."),
    string("remote.log.metadata.manager.listener.name", None)
        .no_effect(TIERED_STORAGE)
        .doc("Listener that the manager of remote metadata uses."),
    int("remote.log.reader.max.pending.tasks", Some("100"))
        .at_least(1)
        .no_effect(TIERED_STORAGE)
        .doc("Reads of the remote tier that may wait."),
    int("remote.log.reader.threads", Some("10"))
        .at_least(1)
        .cluster_wide()
        .no_effect(TIERED_STORAGE)
        .doc("Threads that read the remote tier."),
    string("remote.log.storage.manager.class.name", None)
        .no_effect(TIERED_STORAGE)
        .doc("Class that stores remote segments."),
    string("remote.log.storage.manager.class.path", None)
        .no_effect(TIERED_STORAGE)
        .doc("Where the class that stores remote segments is found."),
    string("remote.log.storage.manager.impl.prefix", Some("rsm.config."))
        .no_effect(TIERED_STORAGE)
        .doc("How keys for the manager of remote segments begin."),
    boolean("remote.log.storage.system.enable", Some("false"))
        .no_effect(TIERED_STORAGE)
        .doc("Whether tiered storage is on."),
];
