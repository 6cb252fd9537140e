//! What can be set on a group (Kafka's `GroupConfig`).
//!
//! Pure: a table.

use super::reasons::{SHARE_GROUPS, STREAMS_GROUPS};
use super::{Definition, boolean, int, list, string};

/// The rows, by name.
pub(super) const ROWS: &[Definition] = &[
    int("consumer.assignment.interval.ms", Some("1000"))
        .at_least(0)
        .synonyms(&["group.consumer.assignment.interval.ms"])
        .doc("Shortest time between two assignments of the consumer group."),
    int("consumer.heartbeat.interval.ms", Some("5000"))
        .at_least(1)
        .synonyms(&["group.consumer.heartbeat.interval.ms"])
        .doc("How often members of the consumer group report."),
    int("consumer.session.timeout.ms", Some("45000"))
        .at_least(1)
        .synonyms(&["group.consumer.session.timeout.ms"])
        .doc("After how long without a report a member of the consumer group is removed."),
    boolean("errors.deadletterqueue.copy.record.enable", Some("false"))
        .no_effect(SHARE_GROUPS)
        .doc("Whether undeliverable records are copied whole."),
    string("errors.deadletterqueue.topic.name", Some(""))
        .no_effect(SHARE_GROUPS)
        .doc("The topic for undeliverable records; none where it is empty."),
    int("share.assignment.interval.ms", Some("1000"))
        .at_least(0)
        .synonyms(&["group.share.assignment.interval.ms"])
        .no_effect(SHARE_GROUPS)
        .doc("Shortest time between two assignments of the share group."),
    string("share.auto.offset.reset", Some("latest"))
        .offset_reset()
        .no_effect(SHARE_GROUPS)
        .doc("Where a share group begins that has no offset."),
    int("share.delivery.count.limit", Some("5"))
        .at_least(2)
        .synonyms(&["group.share.delivery.count.limit"])
        .no_effect(SHARE_GROUPS)
        .doc("How often a record is delivered to the share group."),
    int("share.heartbeat.interval.ms", Some("5000"))
        .at_least(1)
        .synonyms(&["group.share.heartbeat.interval.ms"])
        .no_effect(SHARE_GROUPS)
        .doc("How often members of the share group report."),
    string("share.isolation.level", Some("read_uncommitted"))
        .one_of(&["read_committed", "read_uncommitted"])
        .no_effect(SHARE_GROUPS)
        .doc("Which records of transactions the share group is given."),
    int("share.partition.max.record.locks", Some("2000"))
        .at_least(100)
        .synonyms(&["group.share.partition.max.record.locks"])
        .no_effect(SHARE_GROUPS)
        .doc("Records of a partition that the share group may have locked."),
    int("share.record.lock.duration.ms", Some("30000"))
        .at_least(1000)
        .synonyms(&["group.share.record.lock.duration.ms"])
        .no_effect(SHARE_GROUPS)
        .doc("How long a record stays locked for a member of the share group."),
    boolean("share.renew.acknowledge.enable", Some("true"))
        .no_effect(SHARE_GROUPS)
        .doc("Whether members of the share group may lock a record for longer."),
    int("share.session.timeout.ms", Some("45000"))
        .at_least(1)
        .synonyms(&["group.share.session.timeout.ms"])
        .no_effect(SHARE_GROUPS)
        .doc("After how long without a report a member of the share group is removed."),
    int("streams.assignment.interval.ms", Some("1000"))
        .at_least(0)
        .synonyms(&["group.streams.assignment.interval.ms"])
        .no_effect(STREAMS_GROUPS)
        .doc("Shortest time between two assignments of the streams group."),
    string("streams.assignor.name", Some("sticky"))
        .synonyms(&["group.streams.assignors"])
        .no_effect(STREAMS_GROUPS)
        .doc("The streams group's assignor."),
    int("streams.heartbeat.interval.ms", Some("5000"))
        .at_least(1)
        .synonyms(&["group.streams.heartbeat.interval.ms"])
        .no_effect(STREAMS_GROUPS)
        .doc("How often members of the streams group report."),
    int("streams.initial.rebalance.delay.ms", Some("3000"))
        .at_least(0)
        .synonyms(&["group.streams.initial.rebalance.delay.ms"])
        .no_effect(STREAMS_GROUPS)
        .doc("How long the streams group waits for further members at first."),
    int("streams.num.standby.replicas", Some("0"))
        .at_least(0)
        .synonyms(&["group.streams.num.standby.replicas"])
        .no_effect(STREAMS_GROUPS)
        .doc("Standby replicas of each task of the streams group."),
    list("streams.rack.aware.assignment.tags", Some(""))
        .synonyms(&["group.streams.rack.aware.assignment.tags"])
        .no_effect(STREAMS_GROUPS)
        .doc("Client tags by which standby replicas are spread."),
    int("streams.session.timeout.ms", Some("45000"))
        .at_least(1)
        .synonyms(&["group.streams.session.timeout.ms"])
        .no_effect(STREAMS_GROUPS)
        .doc("After how long without a report a member of the streams group is removed."),
];
