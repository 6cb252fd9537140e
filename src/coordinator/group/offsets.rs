//! Remembered offsets: OffsetCommit, OffsetFetch, OffsetDelete, and their end (Kafka:
//! `OffsetMetadataManager`).
//!
//! Pure: no I/O, no clock, no randomness.

use std::collections::{BTreeMap, BTreeSet};

use protocol::error_code::ErrorCode;
use protocol::types::{LeaderEpoch, Offset, PartitionId, Timestamp, TopicId};

use super::classic::{ClassicGroup, schedule_session};
use super::consumer::{self, CommitRule};
use super::event::{
    FetchedOffset, FetchedTopic, GroupId, GroupReply, GroupState, OffsetCommit,
    OffsetCommitPartition, OffsetCommitReply, OffsetDelete, OffsetDeleteReply, OffsetFetch,
    OffsetFetchReply, TopicErrors,
};
use super::hard::{GroupHard, HardGroup, OffsetsByTopic};
use super::limits;
use super::record::{CommittedOffset, GroupRecord};
use super::soft::{Decision, GroupSoft};
use crate::coordinator::shard::RequestToken;

/// OffsetCommit: what the client told us to remember, once its membership is checked.
pub(super) fn on_commit(
    cx: &mut Decision<'_>,
    hard: &GroupHard,
    soft: &GroupSoft,
    token: RequestToken,
    request: &OffsetCommit,
) {
    let consumer = hard.group(&request.group_id).and_then(|group| group.consumer.as_deref());
    let checked = match consumer {
        _ if request.group_id.len() > limits::NAME_BYTES => Err(ErrorCode::InvalidGroupId),
        Some(group) => consumer::validate_commit(group, request),
        None => validate_classic(hard, soft, request).map(|()| CommitRule::All),
    };
    let rule = match checked {
        Ok(rule) => rule,
        Err(error) => {
            let reply = OffsetCommitReply { error, topics: Vec::new() };
            return cx.reply(token, GroupReply::OffsetCommit(reply));
        }
    };
    if let Some(group) = soft.classic.get(&request.group_id) {
        // A commit is a sign of life.
        if matches!(group.state(), GroupState::Stable | GroupState::PreparingRebalance) {
            schedule_session(cx, group, &request.member_id);
        }
    }
    commit(cx, soft, token, request, &rule);
}

fn validate_classic(
    hard: &GroupHard,
    soft: &GroupSoft,
    request: &OffsetCommit,
) -> Result<(), ErrorCode> {
    let checked = soft.look(hard, &request.group_id, |group| validate_commit(group, request));
    // Of a group that does not exist, -1 is an administrator, or a consumer outside of any group.
    let unknown = match (request.generation_id_or_member_epoch, request.supports_member_epochs) {
        (..0, _) => Ok(()),
        (_, true) => Err(ErrorCode::GroupIdNotFound),
        (_, false) => Err(ErrorCode::IllegalGeneration),
    };
    checked.unwrap_or(unknown)
}

/// Whether the group takes commits of this member (Kafka: `ClassicGroup.validateOffsetCommit`).
fn validate_commit(group: &ClassicGroup, request: &OffsetCommit) -> Result<(), ErrorCode> {
    let generation_id = request.generation_id_or_member_epoch;
    let instance_id = request.group_instance_id.as_deref();
    if generation_id < 0 && group.is_in(GroupState::Empty) {
        return Ok(());
    }
    if generation_id < 0 && request.member_id.is_empty() && instance_id.is_none() {
        return match group.is_in(GroupState::Empty) {
            true => Ok(()),
            false => Err(ErrorCode::UnknownMemberId),
        };
    }
    group.validate_member(&request.member_id, instance_id)?;
    if generation_id != group.generation_id {
        Err(ErrorCode::IllegalGeneration)
    } else if group.is_in(GroupState::CompletingRebalance) {
        // The member knows the generation from its JoinGroup, and has no partitions in it yet.
        Err(ErrorCode::RebalanceInProgress)
    } else {
        Ok(())
    }
}

/// Writes what is to be remembered.
fn commit(
    cx: &mut Decision<'_>,
    soft: &GroupSoft,
    token: RequestToken,
    request: &OffsetCommit,
    rule: &CommitRule<'_>,
) {
    let now = cx.now.wall;
    let expire_timestamp = request.retention_time_ms.map(|ms| Timestamp(now.0.saturating_add(ms)));
    let mut records = Vec::new();
    let mut topics = Vec::with_capacity(request.topics.len());
    for topic in &request.topics {
        let mut partitions = Vec::with_capacity(topic.partitions.len());
        // Offsets go by name; which topic that is now decides who may commit to it.
        let known = soft.topics.get(&topic.topic).map(|topic| topic.topic_id);
        let topic_id = known.filter(|_| topic.topic_id == TopicId::default());
        let topic_id = topic_id.unwrap_or(topic.topic_id);
        for row in &topic.partitions {
            if topic.topic.len() > limits::NAME_BYTES {
                partitions.push((row.partition, ErrorCode::InvalidTopicException));
                continue;
            }
            if let Err(error) = rule.check(topic_id, row.partition) {
                partitions.push((row.partition, error));
                continue;
            }
            if !is_metadata_short(row, cx.config.offset_metadata_max_bytes) {
                partitions.push((row.partition, ErrorCode::OffsetMetadataTooLarge));
                continue;
            }
            partitions.push((row.partition, ErrorCode::None));
            records.push(GroupRecord::Offset {
                group_id: request.group_id.clone(),
                topic: topic.topic.clone(),
                partition: row.partition,
                value: Some(CommittedOffset {
                    offset: row.offset,
                    leader_epoch: row.leader_epoch,
                    metadata: row.metadata.clone().unwrap_or_default(),
                    commit_timestamp: now,
                    expire_timestamp,
                }),
            });
        }
        let (name, topic_id) = (topic.topic.clone(), topic.topic_id);
        topics.push(TopicErrors { topic: name, topic_id, partitions });
    }
    append_in_parts(cx, records);
    let reply = OffsetCommitReply { error: ErrorCode::None, topics };
    cx.reply_durable(token, GroupReply::OffsetCommit(reply));
}

/// Kafka counts UTF-16 units; the schema cannot carry more than its own limit.
fn is_metadata_short(row: &OffsetCommitPartition, limit: usize) -> bool {
    let Some(metadata) = &row.metadata else { return true };
    let is_short = metadata.len() <= limit || metadata.encode_utf16().count() <= limit;
    is_short && metadata.len() <= limits::NAME_BYTES
}

/// OffsetFetch. What is not known is -1, also of a group that does not exist.
pub(super) fn on_fetch(
    cx: &mut Decision<'_>,
    hard: &GroupHard,
    token: RequestToken,
    request: &OffsetFetch,
) {
    let group = hard.group(&request.group_id);
    let consumer = group.and_then(|group| group.consumer.as_deref());
    if let Some(Err(error)) = consumer.map(|group| consumer::validate_fetch(group, request)) {
        let reply = OffsetFetchReply { error, topics: Vec::new() };
        return cx.reply(token, GroupReply::OffsetFetch(reply));
    }
    let topics = match &request.topics {
        None => group.map(|group| fetch_all(&group.offsets)).unwrap_or_default(),
        Some(topics) => {
            let fetched = topics.iter().map(|asked| FetchedTopic {
                topic: asked.topic.clone(),
                topic_id: asked.topic_id,
                partitions: asked
                    .partitions
                    .iter()
                    .map(|&p| fetched(p, group.and_then(|group| group.offset(&asked.topic, p))))
                    .collect(),
            });
            fetched.collect()
        }
    };
    let reply = OffsetFetchReply { error: ErrorCode::None, topics };
    cx.reply_durable(token, GroupReply::OffsetFetch(reply));
}

fn fetch_all(offsets: &OffsetsByTopic) -> Vec<FetchedTopic> {
    let topics = offsets.iter().map(|(topic, partitions)| FetchedTopic {
        topic: topic.clone(),
        topic_id: TopicId::default(),
        partitions: partitions.iter().map(|(&p, offset)| fetched(p, Some(offset))).collect(),
    });
    topics.collect()
}

fn fetched(partition: PartitionId, committed: Option<&CommittedOffset>) -> FetchedOffset {
    FetchedOffset {
        partition,
        offset: committed.map_or(Offset(-1), |committed| committed.offset),
        leader_epoch: committed.map_or(LeaderEpoch::UNKNOWN, |committed| committed.leader_epoch),
        metadata: committed.map(|committed| committed.metadata.clone()).unwrap_or_default(),
        error: ErrorCode::None,
    }
}

/// Records that forget the offset of a partition, and where it was before a rewind.
pub(super) fn forget(
    group_id: &GroupId,
    group: &HardGroup,
    topic: &str,
    partition: PartitionId,
) -> Vec<GroupRecord> {
    let mut records = vec![GroupRecord::Offset {
        group_id: group_id.clone(),
        topic: topic.to_owned(),
        partition,
        value: None,
    }];
    if group.before_rewind(topic, partition).is_some() {
        records.push(GroupRecord::BeforeRewind {
            group_id: group_id.clone(),
            topic: topic.to_owned(),
            partition,
            value: None,
        });
    }
    records
}

/// Records that forget all of a group's offsets in a topic.
fn forget_topic(group_id: &GroupId, group: &HardGroup, topic: &str) -> Vec<GroupRecord> {
    let committed = group.offsets.get(topic).into_iter().flat_map(BTreeMap::keys);
    let rewound = group.before_rewind.get(topic).into_iter().flat_map(BTreeMap::keys);
    let partitions: BTreeSet<PartitionId> = committed.chain(rewound).copied().collect();
    partitions.into_iter().flat_map(|p| forget(group_id, group, topic, p)).collect()
}

/// OffsetDelete: forgets offsets of topics that nobody in the group consumes.
pub(super) fn on_delete(
    cx: &mut Decision<'_>,
    hard: &GroupHard,
    soft: &GroupSoft,
    token: RequestToken,
    request: &OffsetDelete,
) {
    let topics = request.topics.iter().map(|(topic, _)| topic.as_str());
    let consumer = hard.group(&request.group_id).and_then(|group| group.consumer.as_deref());
    let allowed = match consumer {
        Some(group) => {
            Some(Ok(topics.filter(|topic| group.is_subscribed_to(topic)).collect::<BTreeSet<_>>()))
        }
        None => soft.look(hard, &request.group_id, |group| {
            if !group.is_in(GroupState::Empty) && !group.uses_consumer_protocol() {
                return Err(ErrorCode::NonEmptyGroup);
            }
            Ok(topics.filter(|topic| group.is_subscribed_to(topic)).collect())
        }),
    };
    let subscribed = match allowed.unwrap_or(Err(ErrorCode::GroupIdNotFound)) {
        Ok(subscribed) => subscribed,
        Err(error) => {
            let reply = OffsetDeleteReply { error, topics: Vec::new() };
            return cx.reply(token, GroupReply::OffsetDelete(reply));
        }
    };
    delete(cx, hard, token, request, &subscribed);
}

/// Forgets the offsets of all but the subscribed topics.
fn delete(
    cx: &mut Decision<'_>,
    hard: &GroupHard,
    token: RequestToken,
    request: &OffsetDelete,
    subscribed: &BTreeSet<&str>,
) {
    let group = hard.group(&request.group_id);
    let mut records = Vec::new();
    let mut topics = Vec::with_capacity(request.topics.len());
    for (topic, asked) in &request.topics {
        let error = match subscribed.contains(topic.as_str()) {
            true => ErrorCode::GroupSubscribedToTopic,
            false => ErrorCode::None,
        };
        let partitions = asked.iter().map(|&partition| (partition, error)).collect();
        let (name, topic_id) = (topic.clone(), TopicId::default());
        topics.push(TopicErrors { topic: name, topic_id, partitions });
        let is_known = |p: &&PartitionId| group.is_some_and(|g| g.offset(topic, **p).is_some());
        if let Some(group) = group.filter(|_| error.is_none()) {
            let known = asked.iter().filter(is_known);
            records.extend(known.flat_map(|&p| forget(&request.group_id, group, topic, p)));
        }
    }
    append_in_parts(cx, records);
    let reply = OffsetDeleteReply { error: ErrorCode::None, topics };
    cx.reply_durable(token, GroupReply::OffsetDelete(reply));
}

/// Records that need not stand or fall together, in batches of bounded size.
pub(super) fn append_in_parts(cx: &mut Decision<'_>, mut records: Vec<GroupRecord>) {
    while records.len() > limits::RECORDS_OF_AN_APPEND {
        let rest = records.split_off(limits::RECORDS_OF_AN_APPEND);
        cx.append(std::mem::replace(&mut records, rest));
    }
    cx.append(records);
}

/// Records that forget all of a group's offsets.
pub(super) fn forget_all(group_id: &GroupId, group: &HardGroup) -> Vec<GroupRecord> {
    let topics: BTreeSet<&String> =
        group.offsets.keys().chain(group.before_rewind.keys()).collect();
    topics.into_iter().flat_map(|topic| forget_topic(group_id, group, topic)).collect()
}

/// The topics are gone, and with them the offsets in them.
pub(super) fn on_topics_deleted(cx: &mut Decision<'_>, hard: &GroupHard, deleted: &[String]) {
    let mut records = Vec::new();
    for (group_id, group) in hard.groups() {
        records.extend(deleted.iter().flat_map(|topic| forget_topic(group_id, group, topic)));
    }
    append_in_parts(cx, records);
}

/// When a group's offsets expire.
enum Expiry {
    /// Not now: members are there, and what they consume is not known.
    Never,
    /// That long after they were committed.
    FromCommit,
    /// That long after the group became empty.
    From(Timestamp),
}

/// Kafka's `offsetExpirationCondition` of a classic group.
fn expiry(group: &ClassicGroup) -> Expiry {
    match (group.protocol_type.is_some(), group.state()) {
        (false, _) => Expiry::FromCommit,
        (true, GroupState::Empty) => group.state_since().map_or(Expiry::FromCommit, Expiry::From),
        (true, GroupState::Stable)
            if group.uses_consumer_protocol() && group.subscribed_topics.is_some() =>
        {
            Expiry::FromCommit
        }
        (true, _) => Expiry::Never,
    }
}

/// Forgets the offsets that have been kept long enough, and groups that nothing is left of.
pub(super) fn expire(cx: &mut Decision<'_>, hard: &GroupHard, soft: &mut GroupSoft) {
    let mut records = Vec::new();
    for (group_id, durable) in hard.groups() {
        if let Some(consumer) = &durable.consumer {
            let is_subscribed = |topic: &str| consumer.is_subscribed_to(topic);
            let expired = expired(cx, durable, &Expiry::FromCommit, is_subscribed);
            let is_all = expired.len() == durable.offset_count();
            records.extend(forget_expired(group_id, durable, &expired));
            if is_all && consumer.members.is_empty() {
                records.extend(consumer::tombstones(group_id, consumer));
                soft.checked_topics.remove(group_id);
            }
            continue;
        }
        let Some(group) = soft.take(hard, group_id) else { continue };
        let is_subscribed = |topic: &str| group.is_subscribed_to(topic);
        let expired = expired(cx, durable, &expiry(&group), is_subscribed);
        let is_all = expired.len() == durable.offset_count();
        records.extend(forget_expired(group_id, durable, &expired));
        if is_all && group.is_unloadable() && durable.classic.is_some() {
            records.push(GroupRecord::Classic(group_id.clone(), None));
        }
        soft.put_back(group);
    }
    append_in_parts(cx, records);
}

/// Tombstones for what has expired of a group. Of one that has no offset left, nothing is kept.
fn forget_expired(
    group_id: &GroupId,
    group: &HardGroup,
    expired: &[(&str, PartitionId)],
) -> Vec<GroupRecord> {
    if expired.len() == group.offset_count() {
        return forget_all(group_id, group);
    }
    expired.iter().flat_map(|&(topic, p)| forget(group_id, group, topic, p)).collect()
}

/// What has expired of a group's offsets.
fn expired<'a>(
    cx: &Decision<'_>,
    group: &'a HardGroup,
    expiry: &Expiry,
    is_subscribed: impl Fn(&str) -> bool,
) -> Vec<(&'a str, PartitionId)> {
    let (now, retention_ms) = (cx.now.wall.0, cx.config.offsets_retention_ms);
    let is_expired = |committed: &CommittedOffset| match (committed.expire_timestamp, expiry) {
        (_, Expiry::Never) => false,
        (Some(at), _) => now >= at.0,
        (None, Expiry::FromCommit) => now - committed.commit_timestamp.0 >= retention_ms,
        (None, Expiry::From(since)) => now - since.0 >= retention_ms,
    };
    let mut expired = Vec::new();
    for (topic, partitions) in group.offsets.iter().filter(|(topic, _)| !is_subscribed(topic)) {
        let of_topic = partitions.iter().filter(|(_, committed)| is_expired(committed));
        expired.extend(of_topic.map(|(&partition, _)| (topic.as_str(), partition)));
    }
    expired
}
