//! What groups commit, and what they are told that they have: the same for both kinds of groups.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use compat_tests::requests::{text, topic_name};
use kafka_protocol::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use kafka_protocol::messages::offset_fetch_request::OffsetFetchRequestTopic;
use kafka_protocol::messages::{
    FindCoordinatorRequest, GroupId, OffsetCommitRequest, OffsetFetchRequest,
};
use kafka_protocol::protocol::StrBytes;

use crate::client::{BACKOFF, Client, Failure, Shared};
use crate::consumer::Reading;
use crate::history::{Mark, MarkKind, Partition};

/// How often a member reports and commits.
pub const HEARTBEAT_EVERY: Duration = Duration::from_millis(500);
/// How long it rests when there is nothing new.
pub const REST: Duration = Duration::from_millis(30);

const COORDINATOR_VERSION: i16 = 2;
/// Knows members by their epoch.
const COMMIT_VERSION: i16 = 9;
const OFFSETS_VERSION: i16 = 7;

/// The name of a group.
pub fn name(group: u16) -> String {
    format!("chaos-group-{group}")
}

/// The same, as requests have it.
pub fn group_id(group: u16) -> GroupId {
    GroupId(text(&name(group)))
}

/// Who commits.
#[derive(Debug, Clone)]
pub struct Membership {
    /// The group.
    pub group: u16,
    /// The member.
    pub member_id: StrBytes,
    /// Its epoch, or the group's generation.
    pub epoch: i32,
}

/// Where readings are.
pub fn positions(readings: &[Reading]) -> BTreeMap<Partition, i64> {
    readings.iter().map(|r| (r.session.partition, r.position)).collect()
}

/// The coordinator of a group, as some broker says.
///
/// # Errors
/// The broker does not say.
pub fn find_coordinator(client: &mut Client<'_>, group: u16) -> Result<i32, Failure> {
    let request = FindCoordinatorRequest::default().with_key(text(&name(group)));
    let broker = client.anyone();
    let answer = client.call(broker, COORDINATOR_VERSION, &request)?;
    ok(answer.error_code)?;
    Ok(answer.node_id.0)
}

/// Commits; what is acknowledged is noted in the client's history.
///
/// # Errors
/// Something was refused, or not answered.
pub fn commit(
    client: &mut Client<'_>,
    member: &Membership,
    coordinator: i32,
    positions: &BTreeMap<Partition, i64>,
) -> Result<(), Failure> {
    let (shared, group) = (client.shared, member.group);
    let topics = by_topic(shared, positions.keys().copied()).map(|(topic, partitions)| {
        let rows = partitions.into_iter().map(|(partition, index)| {
            OffsetCommitRequestPartition::default()
                .with_partition_index(index)
                .with_committed_offset(positions[&partition])
        });
        OffsetCommitRequestTopic::default()
            .with_name(topic_name(topic))
            .with_partitions(rows.collect())
    });
    let request = OffsetCommitRequest::default()
        .with_group_id(group_id(group))
        .with_generation_id_or_member_epoch(member.epoch)
        .with_member_id(member.member_id.clone())
        .with_topics(topics.collect());
    let invoked = shared.now();
    let answer = client.call(coordinator, COMMIT_VERSION, &request)?;
    let completed = shared.now();
    let mut result = Ok(());
    for topic in &answer.topics {
        for row in &topic.partitions {
            let partition = shared.partition(&topic.name, row.partition_index);
            let Some(partition) = partition else { continue };
            if row.error_code != 0 {
                result = Err(Failure::Answered(row.error_code));
            } else if let Some(offset) = positions.get(&partition).copied() {
                let kind = MarkKind::Committed;
                let mark = Mark { group, partition, offset, invoked, completed, kind };
                client.history.marks.push(mark);
            }
        }
    }
    result
}

/// What a group has committed, as its coordinator says; noted in the client's history.
///
/// # Errors
/// It does not say.
pub fn committed(
    client: &mut Client<'_>,
    group: u16,
    coordinator: i32,
    partitions: &[Partition],
) -> Result<BTreeMap<Partition, i64>, Failure> {
    let shared = client.shared;
    let topics = by_topic(shared, partitions.iter().copied()).map(|(topic, partitions)| {
        OffsetFetchRequestTopic::default()
            .with_name(topic_name(topic))
            .with_partition_indexes(partitions.into_iter().map(|(_, index)| index).collect())
    });
    let request = OffsetFetchRequest::default()
        .with_group_id(group_id(group))
        .with_topics(Some(topics.collect()))
        .with_require_stable(true);
    let invoked = shared.now();
    let answer = client.call(coordinator, OFFSETS_VERSION, &request)?;
    ok(answer.error_code)?;
    let completed = shared.now();
    let mut offsets = BTreeMap::new();
    for topic in &answer.topics {
        for row in &topic.partitions {
            ok(row.error_code)?;
            let Some(partition) = shared.partition(&topic.name, row.partition_index) else {
                continue;
            };
            let offset = row.committed_offset.max(0);
            let kind = MarkKind::Fetched;
            let mark = Mark { group, partition, offset, invoked, completed, kind };
            client.history.marks.push(mark);
            offsets.insert(partition, offset);
        }
    }
    Ok(offsets)
}

/// What a group has committed, whoever its coordinator is.
pub fn committed_of_group(client: &mut Client<'_>, group: u16, within: Duration) -> bool {
    let deadline = Instant::now() + within;
    let partitions: Vec<Partition> = client.shared.partitions().collect();
    while Instant::now() < deadline {
        if let Ok(coordinator) = find_coordinator(client, group)
            && committed(client, group, coordinator, &partitions).is_ok()
        {
            return true;
        }
        thread::sleep(BACKOFF);
    }
    false
}

/// Partitions by their topics.
pub fn by_topic(
    shared: &Shared,
    partitions: impl Iterator<Item = Partition>,
) -> impl Iterator<Item = (&str, Vec<(Partition, i32)>)> {
    let mut topics: BTreeMap<&str, Vec<(Partition, i32)>> = BTreeMap::new();
    for partition in partitions {
        let (topic, index) = shared.place(partition);
        topics.entry(topic).or_default().push((partition, index));
    }
    topics.into_iter()
}

/// No error, or which.
///
/// # Errors
/// Any but 0.
pub fn ok(code: i16) -> Result<(), Failure> {
    if code == 0 { Ok(()) } else { Err(Failure::Answered(code)) }
}
