//! Groups of consumers, their offsets, share groups and streams groups.
//!
//! Pure: a table.

use super::reasons::{
    GROUP_PROTOCOLS, GROUP_WRITES, JVM, NO_PURGATORY, NO_SEGMENTS, NO_THREAD_POOLS, SHARE_GROUPS,
    STREAMS_GROUPS,
};
use super::{Definition, boolean, class, int, list, long, short, string};

/// The rows, by name.
pub(super) const ROWS: &[Definition] = &[
    boolean("errors.deadletterqueue.auto.create.topics.enable", Some("false"))
        .cluster_wide()
        .no_effect(SHARE_GROUPS)
        .doc("Whether topics for undeliverable records of share groups are made."),
    string("errors.deadletterqueue.topic.name.prefix", Some("dlq."))
        .cluster_wide()
        .no_effect(SHARE_GROUPS)
        .doc("How names of topics for undeliverable records begin."),
    int("group.consumer.assignment.interval.ms", Some("1000"))
        .at_least(0)
        .cluster_wide()
        .doc("Shortest time between two assignments of a consumer group."),
    list("group.consumer.assignors", Some("uniform,range"))
        .doc("Assignors that the broker offers to consumer groups, the default first."),
    int("group.consumer.heartbeat.interval.ms", Some("5000"))
        .at_least(1)
        .doc("How often members of a consumer group report."),
    int("group.consumer.max.assignment.interval.ms", Some("15000"))
        .at_least(0)
        .doc("Upper bound of a group's assignment interval."),
    int("group.consumer.max.heartbeat.interval.ms", Some("15000"))
        .at_least(1)
        .doc("Upper bound of a group's heartbeat interval."),
    int("group.consumer.max.session.timeout.ms", Some("60000"))
        .at_least(1)
        .doc("Upper bound of a group's session timeout."),
    int("group.consumer.max.size", Some("2147483647"))
        .at_least(1)
        .doc("Most members of a consumer group."),
    string("group.consumer.migration.policy", Some("bidirectional"))
        .one_of_any_case(&["DISABLED", "DOWNGRADE", "UPGRADE", "BIDIRECTIONAL"])
        .doc("Whether groups may change between the classic and the consumer protocol."),
    int("group.consumer.min.assignment.interval.ms", Some("0"))
        .at_least(0)
        .doc("Lower bound of a group's assignment interval."),
    int("group.consumer.min.heartbeat.interval.ms", Some("5000"))
        .at_least(1)
        .doc("Lower bound of a group's heartbeat interval."),
    int("group.consumer.min.session.timeout.ms", Some("45000"))
        .at_least(1)
        .doc("Lower bound of a group's session timeout."),
    int("group.consumer.session.timeout.ms", Some("45000"))
        .at_least(1)
        .doc("After how long without a report a member of a consumer group is removed."),
    int("group.coordinator.append.linger.ms", Some("-1"))
        .at_least(-1)
        .no_effect(GROUP_WRITES)
        .doc("How long the coordinator gathers records before it writes them."),
    int("group.coordinator.background.threads", Some("2"))
        .at_least(1)
        .no_effect(NO_THREAD_POOLS)
        .doc("Threads for the coordinator's work in the background."),
    int("group.coordinator.cached.buffer.max.bytes", Some("1048588"))
        .at_least(524288)
        .cluster_wide()
        .no_effect(GROUP_WRITES)
        .doc("Largest write buffer that the coordinator keeps for reuse."),
    list("group.coordinator.rebalance.protocols", Some("classic,consumer,streams"))
        .one_of(&["consumer", "classic", "share", "streams"])
        .no_effect(GROUP_PROTOCOLS)
        .doc("Group protocols that the broker speaks."),
    int("group.coordinator.threads", Some("4"))
        .at_least(1)
        .no_effect(NO_THREAD_POOLS)
        .doc("Threads of the coordinator."),
    int("group.initial.rebalance.delay.ms", Some("3000"))
        .doc("How long a new classic group waits for further members."),
    int("group.max.session.timeout.ms", Some("1800000"))
        .doc("Longest session timeout that a member of a classic group may ask for."),
    int("group.max.size", Some("2147483647")).at_least(1).doc("Most members of a classic group."),
    int("group.min.session.timeout.ms", Some("6000"))
        .doc("Shortest session timeout that a member of a classic group may ask for."),
    int("group.share.assignment.interval.ms", Some("1000"))
        .at_least(0)
        .cluster_wide()
        .no_effect(SHARE_GROUPS)
        .doc("Shortest time between two assignments of a share group."),
    list("group.share.assignors", Some("simple"))
        .no_effect(SHARE_GROUPS)
        .doc("Assignors that the broker offers to share groups."),
    int("group.share.delivery.count.limit", Some("5"))
        .between(2, 10)
        .no_effect(SHARE_GROUPS)
        .doc("How often a record is delivered to a share group."),
    int("group.share.heartbeat.interval.ms", Some("5000"))
        .at_least(1)
        .no_effect(SHARE_GROUPS)
        .doc("How often members of a share group report."),
    int("group.share.max.assignment.interval.ms", Some("15000"))
        .at_least(0)
        .no_effect(SHARE_GROUPS)
        .doc("Upper bound of a share group's assignment interval."),
    int("group.share.max.delivery.count.limit", Some("10"))
        .between(5, 25)
        .no_effect(SHARE_GROUPS)
        .doc("Upper bound of a share group's delivery count."),
    int("group.share.max.heartbeat.interval.ms", Some("15000"))
        .at_least(1)
        .no_effect(SHARE_GROUPS)
        .doc("Upper bound of a share group's heartbeat interval."),
    int("group.share.max.partition.max.record.locks", Some("4000"))
        .between(2000, 10000)
        .no_effect(SHARE_GROUPS)
        .doc("Upper bound of a share group's locked records of a partition."),
    int("group.share.max.record.lock.duration.ms", Some("60000"))
        .between(30000, 3600000)
        .no_effect(SHARE_GROUPS)
        .doc("Upper bound of a share group's lock duration."),
    int("group.share.max.session.timeout.ms", Some("60000"))
        .at_least(1)
        .no_effect(SHARE_GROUPS)
        .doc("Upper bound of a share group's session timeout."),
    int("group.share.max.share.sessions", Some("2000"))
        .at_least(1)
        .no_effect(SHARE_GROUPS)
        .doc("Share sessions that the broker remembers."),
    int("group.share.max.size", Some("200"))
        .between(1, 1000)
        .no_effect(SHARE_GROUPS)
        .doc("Most members of a share group."),
    int("group.share.min.assignment.interval.ms", Some("0"))
        .at_least(0)
        .no_effect(SHARE_GROUPS)
        .doc("Lower bound of a share group's assignment interval."),
    int("group.share.min.delivery.count.limit", Some("2"))
        .between(2, 5)
        .no_effect(SHARE_GROUPS)
        .doc("Lower bound of a share group's delivery count."),
    int("group.share.min.heartbeat.interval.ms", Some("5000"))
        .at_least(1)
        .no_effect(SHARE_GROUPS)
        .doc("Lower bound of a share group's heartbeat interval."),
    int("group.share.min.partition.max.record.locks", Some("100"))
        .between(100, 2000)
        .no_effect(SHARE_GROUPS)
        .doc("Lower bound of a share group's locked records of a partition."),
    int("group.share.min.record.lock.duration.ms", Some("15000"))
        .between(1000, 30000)
        .no_effect(SHARE_GROUPS)
        .doc("Lower bound of a share group's lock duration."),
    int("group.share.min.session.timeout.ms", Some("45000"))
        .at_least(1)
        .no_effect(SHARE_GROUPS)
        .doc("Lower bound of a share group's session timeout."),
    int("group.share.partition.max.record.locks", Some("2000"))
        .between(100, 10000)
        .no_effect(SHARE_GROUPS)
        .doc("Records of a partition that a share group may have locked."),
    int("group.share.record.lock.duration.ms", Some("30000"))
        .between(1000, 3600000)
        .no_effect(SHARE_GROUPS)
        .doc("How long a record stays locked for a member of a share group."),
    int("group.share.session.timeout.ms", Some("45000"))
        .at_least(1)
        .no_effect(SHARE_GROUPS)
        .doc("After how long without a report a member of a share group is removed."),
    int("group.streams.assignment.interval.ms", Some("1000"))
        .at_least(0)
        .cluster_wide()
        .no_effect(STREAMS_GROUPS)
        .doc("Shortest time between two assignments of a streams group."),
    list("group.streams.assignors", Some("sticky"))
        .no_effect(STREAMS_GROUPS)
        .doc("Assignors that the broker offers to streams groups."),
    int("group.streams.heartbeat.interval.ms", Some("5000"))
        .at_least(1)
        .no_effect(STREAMS_GROUPS)
        .doc("How often members of a streams group report."),
    int("group.streams.initial.rebalance.delay.ms", Some("3000"))
        .at_least(0)
        .no_effect(STREAMS_GROUPS)
        .doc("How long a new streams group waits for further members."),
    int("group.streams.max.assignment.interval.ms", Some("15000"))
        .at_least(0)
        .no_effect(STREAMS_GROUPS)
        .doc("Upper bound of a streams group's assignment interval."),
    int("group.streams.max.heartbeat.interval.ms", Some("15000"))
        .at_least(1)
        .no_effect(STREAMS_GROUPS)
        .doc("Upper bound of a streams group's heartbeat interval."),
    int("group.streams.max.session.timeout.ms", Some("60000"))
        .at_least(1)
        .no_effect(STREAMS_GROUPS)
        .doc("Upper bound of a streams group's session timeout."),
    int("group.streams.max.size", Some("2147483647"))
        .at_least(1)
        .no_effect(STREAMS_GROUPS)
        .doc("Most members of a streams group."),
    int("group.streams.max.standby.replicas", Some("2"))
        .at_least(0)
        .no_effect(STREAMS_GROUPS)
        .doc("Upper bound of a streams group's standby replicas."),
    int("group.streams.min.assignment.interval.ms", Some("0"))
        .at_least(0)
        .no_effect(STREAMS_GROUPS)
        .doc("Lower bound of a streams group's assignment interval."),
    int("group.streams.min.heartbeat.interval.ms", Some("5000"))
        .at_least(1)
        .no_effect(STREAMS_GROUPS)
        .doc("Lower bound of a streams group's heartbeat interval."),
    int("group.streams.min.session.timeout.ms", Some("45000"))
        .at_least(1)
        .no_effect(STREAMS_GROUPS)
        .doc("Lower bound of a streams group's session timeout."),
    int("group.streams.num.standby.replicas", Some("0"))
        .at_least(0)
        .no_effect(STREAMS_GROUPS)
        .doc("Standby replicas of each task of a streams group."),
    list("group.streams.rack.aware.assignment.tags", Some(""))
        .no_effect(STREAMS_GROUPS)
        .doc("Client tags by which standby replicas are spread."),
    int("group.streams.session.timeout.ms", Some("45000"))
        .at_least(1)
        .no_effect(STREAMS_GROUPS)
        .doc("After how long without a report a member of a streams group is removed."),
    class("group.streams.topology.description.plugin.class", None)
        .no_effect(JVM)
        .doc("Class that keeps descriptions of streams topologies."),
    int("offset.metadata.max.bytes", Some("4096"))
        .doc("Largest metadata that may be committed beside an offset."),
    int("offsets.commit.timeout.ms", Some("5000"))
        .at_least(1)
        .no_effect(GROUP_WRITES)
        .doc("How long a commit waits for its replicas."),
    int("offsets.load.buffer.size", Some("5242880"))
        .at_least(1)
        .no_effect(GROUP_WRITES)
        .doc("Bytes read at once when offsets are loaded."),
    long("offsets.retention.check.interval.ms", Some("600000"))
        .at_least(1)
        .doc("How often expired offsets are looked for."),
    int("offsets.retention.minutes", Some("10080"))
        .at_least(1)
        .doc("How long the offsets of an empty group are kept."),
    int("offsets.topic.compression.codec", Some("0"))
        .doc("Codec of __consumer_offsets, as its number."),
    int("offsets.topic.num.partitions", Some("50"))
        .at_least(1)
        .doc("Partitions of __consumer_offsets."),
    short("offsets.topic.replication.factor", Some("3"))
        .at_least(1)
        .doc("Replicas of __consumer_offsets; no more than there are brokers."),
    int("offsets.topic.segment.bytes", Some("104857600"))
        .at_least(1)
        .doc("segment.bytes of __consumer_offsets: its largest batch."),
    int("share.coordinator.append.linger.ms", Some("-1"))
        .at_least(-1)
        .no_effect(SHARE_GROUPS)
        .doc("How long the share coordinator gathers records before it writes them."),
    int("share.coordinator.cached.buffer.max.bytes", Some("1048588"))
        .at_least(524288)
        .cluster_wide()
        .no_effect(SHARE_GROUPS)
        .doc("Largest write buffer that the share coordinator keeps for reuse."),
    int("share.coordinator.load.buffer.size", Some("5242880"))
        .at_least(1)
        .no_effect(SHARE_GROUPS)
        .doc("Bytes read at once when share state is loaded."),
    int("share.coordinator.snapshot.update.records.per.snapshot", Some("500"))
        .between(0, 500)
        .no_effect(SHARE_GROUPS)
        .doc("Updates of share state between two snapshots."),
    int("share.coordinator.state.topic.compression.codec", Some("0"))
        .no_effect(SHARE_GROUPS)
        .doc("Codec of __share_group_state, as its number."),
    short("share.coordinator.state.topic.min.isr", Some("2"))
        .at_least(1)
        .no_effect(SHARE_GROUPS)
        .doc("In-sync replicas that __share_group_state needs."),
    int("share.coordinator.state.topic.num.partitions", Some("50"))
        .at_least(1)
        .doc("Partitions of __share_group_state."),
    short("share.coordinator.state.topic.replication.factor", Some("3"))
        .at_least(1)
        .doc("Replicas of __share_group_state; no more than there are brokers."),
    int("share.coordinator.state.topic.segment.bytes", Some("104857600"))
        .at_least(1)
        .no_effect(NO_SEGMENTS)
        .doc("Size of the segments of __share_group_state."),
    int("share.coordinator.threads", Some("1"))
        .at_least(1)
        .no_effect(NO_THREAD_POOLS)
        .doc("Threads of the share coordinator."),
    int("share.coordinator.write.timeout.ms", Some("5000"))
        .at_least(1)
        .no_effect(SHARE_GROUPS)
        .doc("How long the share coordinator waits for a write."),
    int("share.fetch.purgatory.purge.interval.requests", Some("1000"))
        .no_effect(NO_PURGATORY)
        .doc("After how many requests Kafka clears delayed share fetches."),
];
