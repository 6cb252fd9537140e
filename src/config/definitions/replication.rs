//! Replicas, controllers and the metadata log, which here are Raft groups.
//!
//! Pure: a table.

use super::reasons::{METADATA_LOG, QUOTAS, RAFT_REPLICATES};
use super::{Definition, boolean, int, list, long, string};

/// The value of `replica.selector.class` by which consumers read in their own rack (KIP-392).
pub const RACK_AWARE_SELECTOR: &str = "org.apache.kafka.common.replica.RackAwareReplicaSelector";
const REPLICA_SELECTORS: &[&str] =
    &[RACK_AWARE_SELECTOR, "org.apache.kafka.common.replica.LeaderSelector"];

/// The rows, by name.
pub(super) const ROWS: &[Definition] = &[
    int("alter.log.dirs.replication.quota.window.num", Some("11"))
        .at_least(1)
        .no_effect(RAFT_REPLICATES)
        .doc("Samples kept for the quota on moves between log directories."),
    int("alter.log.dirs.replication.quota.window.size.seconds", Some("1"))
        .at_least(1)
        .no_effect(RAFT_REPLICATES)
        .doc("Length of one sample of the quota on moves between log directories."),
    boolean("auto.leader.rebalance.enable", Some("true"))
        .doc("Whether leadership goes back to preferred replicas by itself."),
    int("broker.heartbeat.interval.ms", Some("2000"))
        .doc("How often a broker reports to the controller, at the least."),
    int("broker.session.timeout.ms", Some("9000"))
        .doc("After how long without a report a broker is taken for dead."),
    boolean("controlled.shutdown.enable", Some("true"))
        .no_effect(RAFT_REPLICATES)
        .doc("Whether leadership is handed over before the broker stops."),
    int("controller.quorum.append.linger.ms", Some("25"))
        .at_least(0)
        .no_effect(METADATA_LOG)
        .doc("How long the controller gathers records before it writes them."),
    boolean("controller.quorum.auto.join.enable", Some("false"))
        .no_effect(METADATA_LOG)
        .doc("Whether a controller adds itself to the quorum."),
    list("controller.quorum.bootstrap.servers", Some(""))
        .doc("Where a broker that is no controller finds the voters."),
    int("controller.quorum.election.backoff.max.ms", Some("1000"))
        .at_least(0)
        .no_effect(METADATA_LOG)
        .doc("Longest pause between two elections of a controller."),
    int("controller.quorum.election.timeout.ms", Some("1000"))
        .at_least(0)
        .no_effect(METADATA_LOG)
        .doc("How long a candidate waits for votes."),
    int("controller.quorum.fetch.max.bytes", Some("1048576"))
        .at_least(1)
        .no_effect(METADATA_LOG)
        .doc("Most bytes of the metadata log in one fetch."),
    int("controller.quorum.fetch.snapshot.max.bytes", Some("1048576"))
        .at_least(1)
        .no_effect(METADATA_LOG)
        .doc("Most bytes of a metadata snapshot in one fetch."),
    int("controller.quorum.fetch.timeout.ms", Some("2000"))
        .at_least(0)
        .no_effect(METADATA_LOG)
        .doc("After how long without a fetch a controller looks for another leader."),
    int("controller.quorum.request.timeout.ms", Some("2000"))
        .at_least(0)
        .no_effect(METADATA_LOG)
        .doc("How long a controller waits for another's answer."),
    int("controller.quorum.retry.backoff.ms", Some("20"))
        .at_least(0)
        .no_effect(METADATA_LOG)
        .doc("Pause before a controller asks again."),
    list("controller.quorum.voters", Some(""))
        .doc("The controllers of the cluster, as id@host:port; one of one or none is alone."),
    int("controller.quota.window.num", Some("11"))
        .at_least(1)
        .no_effect(QUOTAS)
        .doc("Samples kept for the quota on topic changes."),
    int("controller.quota.window.size.seconds", Some("1"))
        .at_least(1)
        .no_effect(QUOTAS)
        .doc("Length of one sample of the quota on topic changes."),
    int("controller.socket.timeout.ms", Some("30000"))
        .no_effect(METADATA_LOG)
        .doc("Socket timeout between controller and brokers."),
    long("follower.replication.throttled.rate", Some("9223372036854775807"))
        .at_least(0)
        .cluster_wide()
        .doc("Bytes per second that throttled replicas are caught up with, when set dynamically."),
    long("leader.imbalance.check.interval.seconds", Some("300"))
        .at_least(1)
        .doc("How often leadership is compared with preferred replicas."),
    long("leader.replication.throttled.rate", Some("9223372036854775807"))
        .at_least(0)
        .cluster_wide()
        .doc("Bytes per second that throttled leaders catch up with, when set dynamically."),
    string("metadata.log.dir", None)
        .no_effect(METADATA_LOG)
        .doc("Directory of the metadata log; it is in log.dirs here."),
    long("metadata.log.max.record.bytes.between.snapshots", Some("20971520"))
        .at_least(1)
        .no_effect(METADATA_LOG)
        .doc("Bytes of metadata records after which a snapshot is taken."),
    long("metadata.log.max.snapshot.interval.ms", Some("3600000"))
        .at_least(0)
        .no_effect(METADATA_LOG)
        .doc("Time after which a snapshot of the metadata is taken."),
    int("metadata.log.segment.bytes", Some("1073741824"))
        .at_least(8388608)
        .no_effect(METADATA_LOG)
        .doc("Largest segment of the metadata log."),
    long("metadata.log.segment.ms", Some("604800000"))
        .no_effect(METADATA_LOG)
        .doc("Time after which the metadata log begins a new segment."),
    int("metadata.max.idle.interval.ms", Some("500"))
        .at_least(0)
        .no_effect(METADATA_LOG)
        .doc("How often an idle controller writes an empty record."),
    long("metadata.max.retention.bytes", Some("104857600"))
        .no_effect(METADATA_LOG)
        .doc("Bytes of metadata log and snapshots that are kept."),
    long("metadata.max.retention.ms", Some("604800000"))
        .no_effect(METADATA_LOG)
        .doc("How long metadata log and snapshots are kept."),
    int("num.replica.fetchers", Some("1"))
        .at_least(1)
        .cluster_wide()
        .no_effect(RAFT_REPLICATES)
        .doc("Threads that fetch from each other broker."),
    long("replica.alter.log.dirs.io.max.bytes.per.second", Some("9223372036854775807"))
        .at_least(0)
        .cluster_wide()
        .no_effect(RAFT_REPLICATES)
        .doc("Bytes per second for moves between log directories."),
    int("replica.fetch.backoff.ms", Some("1000"))
        .at_least(0)
        .no_effect(RAFT_REPLICATES)
        .doc("Pause of a replica's fetcher after an error."),
    int("replica.fetch.max.bytes", Some("1048576"))
        .at_least(0)
        .no_effect(RAFT_REPLICATES)
        .doc("Bytes of one partition in a replica's fetch."),
    int("replica.fetch.min.bytes", Some("1"))
        .no_effect(RAFT_REPLICATES)
        .doc("Bytes that a replica's fetch waits for."),
    int("replica.fetch.response.max.bytes", Some("10485760"))
        .at_least(0)
        .no_effect(RAFT_REPLICATES)
        .doc("Bytes of a whole answer to a replica's fetch."),
    int("replica.fetch.wait.max.ms", Some("500"))
        .no_effect(RAFT_REPLICATES)
        .doc("How long a replica's fetch waits."),
    long("replica.high.watermark.checkpoint.interval.ms", Some("5000"))
        .no_effect(RAFT_REPLICATES)
        .doc("How often high watermarks are written to disk."),
    long("replica.lag.time.max.ms", Some("30000"))
        .doc("How long a follower may lag before it leaves the in-sync replicas."),
    string("replica.selector.class", None).one_of(REPLICA_SELECTORS).doc(
        "Class that picks the replica a consumer reads from: with RackAwareReplicaSelector one of \
             the consumer's own rack, else the leader.",
    ),
    int("replica.socket.receive.buffer.bytes", Some("65536"))
        .no_effect(RAFT_REPLICATES)
        .doc("SO_RCVBUF of a replica's fetcher."),
    int("replica.socket.timeout.ms", Some("30000"))
        .no_effect(RAFT_REPLICATES)
        .doc("Socket timeout of a replica's fetcher."),
    int("replication.quota.window.num", Some("11"))
        .at_least(1)
        .no_effect(QUOTAS)
        .doc("Samples kept for replication quotas."),
    int("replication.quota.window.size.seconds", Some("1"))
        .at_least(1)
        .no_effect(QUOTAS)
        .doc("Length of one sample of replication quotas."),
    boolean("unclean.leader.election.enable", Some("false")).cluster_wide().doc(
        "Whether an ElectLeaders may have one replica go on where the majority is gone, which \
             loses what only the others have; it never happens by itself.",
    ),
];
