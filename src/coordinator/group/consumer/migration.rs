//! Groups that change their protocol while members are there: classic to KIP-848 with the first
//! member that speaks it, and back once the last of those is gone.
//!
//! Pure: no I/O, no clock, no randomness.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use protocol::consumer_protocol::{Assignment, Subscription, TopicPartitions};
use protocol::error_code::ErrorCode;
use protocol::types::{PartitionId, Timestamp};

use super::leave::forget;
use super::subscription::metadata_hash;
use super::{Draft, Refusal, schedule_session};
use crate::coordinator::group::classic::{
    self, ClassicGroup, Member, join_error, prepare_rebalance, sync_error,
};
use crate::coordinator::group::event::{
    GroupConfig, GroupId, MemberId, MigrationPolicy, TopicIdPartitions, TopicsSnapshot,
};
use crate::coordinator::group::hard::HardConsumerGroup;
use crate::coordinator::group::record::{
    AssignmentMetadata, AssignmentState, ClassicProtocols, ConsumerMember, ConsumerMetadata,
    CurrentAssignment, GroupRecord, Partitions,
};
use crate::coordinator::group::soft::{Decision, GroupSoft, GroupTimer};

fn refused(group_id: &GroupId, why: &str) -> Refusal {
    let message =
        format!("Cannot upgrade classic group {group_id} to consumer group because {why}.");
    Refusal::new(ErrorCode::GroupIdNotFound, message)
}

/// Makes a KIP-848 group of a classic one: its members keep what they have, and its generation
/// becomes the epoch.
pub(super) fn upgrade(
    draft: &mut Draft<'_>,
    config: &GroupConfig,
    topics: &TopicsSnapshot,
    classic: &ClassicGroup,
) -> Result<(), Refusal> {
    let group_id = &classic.group_id;
    let policy = config.consumer_migration_policy;
    if !matches!(policy, MigrationPolicy::Upgrade | MigrationPolicy::Bidirectional) {
        return Err(refused(group_id, "online upgrade is disabled"));
    }
    if !classic.uses_consumer_protocol() {
        return Err(refused(group_id, "the group does not use the consumer embedded protocol"));
    }
    if classic.members().len() > config.consumer_max_size {
        let why = "the group size exceeds the consumer group maximum size";
        return Err(refused(group_id, why));
    }
    let epoch = classic.generation_id;
    let mut targets = BTreeMap::new();
    for (member_id, member) in classic.members() {
        let (converted, owned) = convert(classic, member, topics)?;
        draft.set_member(member_id, Some(converted));
        targets.insert(member_id.clone(), owned);
    }
    let metadata_hash = metadata_hash(&draft.group, topics);
    let metadata = ConsumerMetadata { epoch, metadata_hash };
    draft.apply(GroupRecord::Consumer(group_id.clone(), Some(metadata)));
    for (member_id, owned) in &targets {
        draft.set_target(member_id, Some(owned.clone()));
    }
    let metadata = AssignmentMetadata { epoch, timestamp: Timestamp(0) };
    draft.apply(GroupRecord::TargetMetadata(group_id.clone(), Some(metadata)));
    for (member_id, owned) in targets {
        let topics = owned.into_iter().map(|(topic_id, partitions)| {
            (topic_id, partitions.into_iter().map(|partition| (partition, epoch)).collect())
        });
        let current = CurrentAssignment {
            member_epoch: epoch,
            previous_member_epoch: epoch,
            state: AssignmentState::Stable,
            assigned: topics.collect(),
            pending_revocation: BTreeMap::new(),
        };
        draft.set_current(&member_id, Some(current));
    }
    Ok(())
}

/// A classic member as a member of a KIP-848 group, and what it owns.
fn convert(
    classic: &ClassicGroup,
    member: &Member,
    topics: &TopicsSnapshot,
) -> Result<(ConsumerMember, Partitions), Refusal> {
    let malformed = || refused(&classic.group_id, "the embedded consumer protocol is malformed");
    let owned = match member.assignment.is_empty() {
        true => Partitions::new(),
        false => {
            let assignment = Assignment::decode(&member.assignment).map_err(|_| malformed())?;
            if assignment.user_data.is_some_and(|data| !data.is_empty()) {
                let why = "an unsupported custom assignor is in use. Please refer to the \
                           documentation or switch to a default assignor before re-attempting \
                           the upgrade";
                return Err(refused(&classic.group_id, why));
            }
            partitions(&assignment.assigned_partitions, topics)
        }
    };
    // Before its first generation a group has no protocol yet; any that the member offers says what
    // it subscribes to.
    let offered = member.protocols.first().map(|protocol| protocol.name.as_str());
    let metadata = member.metadata(classic.protocol_name.as_deref().or(offered));
    let subscription = Subscription::decode(&metadata).map_err(|_| malformed())?;
    let names: BTreeSet<String> = subscription.topics.into_iter().collect();
    let converted = ConsumerMember {
        instance_id: member.group_instance_id.clone(),
        rack_id: subscription.rack_id.filter(|rack_id| !rack_id.is_empty()),
        client: member.client.clone(),
        subscribed_topic_names: names.into_iter().collect(),
        subscribed_topic_regex: None,
        rebalance_timeout_ms: member.rebalance_timeout_ms,
        server_assignor: None,
        classic: Some(ClassicProtocols {
            session_timeout_ms: member.session_timeout_ms,
            protocols: member.protocols.clone(),
        }),
    };
    Ok((converted, owned))
}

/// The partitions by topic id; those of topics that do not exist are left out.
fn partitions(named: &[TopicPartitions], topics: &TopicsSnapshot) -> Partitions {
    let mut partitions = Partitions::new();
    for of in named.iter().filter(|of| !of.partitions.is_empty()) {
        if let Some(topic) = topics.get(&of.topic) {
            let numbers = of.partitions.iter().copied().map(PartitionId);
            partitions.entry(topic.topic_id).or_default().extend(numbers);
        }
    }
    partitions
}

/// What a classic member says it owns.
pub(super) fn owned_partitions(
    named: &[TopicPartitions],
    topics: &TopicsSnapshot,
) -> Vec<TopicIdPartitions> {
    let owned = partitions(named, topics).into_iter();
    owned
        .map(|(topic_id, partitions)| TopicIdPartitions {
            topic_id,
            partitions: partitions.into_iter().collect(),
        })
        .collect()
}

/// Partitions in the bytes of the embedded protocol, of the version that the member speaks.
pub(super) fn assignment_bytes<'a>(
    owned: impl Iterator<Item = (&'a protocol::types::TopicId, Vec<i32>)>,
    member: &ConsumerMember,
    topics: &TopicsSnapshot,
) -> Bytes {
    let named = owned.filter_map(|(&topic_id, partitions)| {
        let (name, _) = topics.by_id(topic_id)?;
        Some(TopicPartitions { topic: name.to_string(), partitions })
    });
    let first = member.classic.as_ref().and_then(|classic| classic.protocols.first());
    let version = first.and_then(|protocol| Subscription::decode(&protocol.metadata).ok());
    let version = version.map_or(0, |subscription| subscription.version);
    Assignment { version, assigned_partitions: named.collect(), user_data: None }.encode()
}

/// What the classic group still owes: answers, and timers that mean nothing any more.
pub(super) fn leave_classic(
    cx: &mut Decision<'_>,
    group: &HardConsumerGroup,
    classic: &ClassicGroup,
) {
    let group_id = &classic.group_id;
    for (member_id, member) in classic.members() {
        if let Some(token) = member.awaiting_join() {
            cx.reply(token, join_error(member_id.clone(), ErrorCode::RebalanceInProgress));
        }
        if let Some(token) = member.awaiting_sync {
            cx.reply(token, sync_error(ErrorCode::RebalanceInProgress));
        }
        cx.cancel_timer(GroupTimer::ClassicSession(group_id.clone(), member_id.clone()));
        if group.members.contains_key(member_id) {
            schedule_session(cx, group, group_id, member_id);
        }
    }
    for member_id in classic.pending_join() {
        cx.cancel_timer(GroupTimer::ClassicSession(group_id.clone(), member_id.clone()));
    }
    cx.cancel_timer(GroupTimer::ClassicJoin(group_id.clone()));
    cx.cancel_timer(GroupTimer::ClassicSync(group_id.clone()));
}

/// Whether the group was one of both protocols and is one of classic members only.
pub(super) fn can_downgrade(
    config: &GroupConfig,
    before: &HardConsumerGroup,
    after: &HardConsumerGroup,
) -> bool {
    let policy = config.consumer_migration_policy;
    matches!(policy, MigrationPolicy::Downgrade | MigrationPolicy::Bidirectional)
        && before.members.values().any(|member| member.classic.is_none())
        && !after.members.is_empty()
        && after.members.len() <= config.max_size
        && after.members.values().all(|member| member.classic.is_some())
}

/// Makes a classic group of a KIP-848 one whose members all speak the classic protocol. They keep
/// what they are to own, and rebalance if that is about to change.
pub(super) fn downgrade(
    cx: &mut Decision<'_>,
    soft: &mut GroupSoft,
    mut draft: Draft<'_>,
    rebalances: bool,
) {
    let group_id = draft.group_id.clone();
    let mut members = Vec::new();
    for (member_id, member) in &draft.group.members {
        let Some(classic) = &member.classic else { continue };
        let timeouts_ms = (member.rebalance_timeout_ms, classic.session_timeout_ms);
        let instance_id = member.instance_id.clone();
        let client = member.client.clone();
        let mut converted = Member::new(instance_id, client, timeouts_ms, &classic.protocols);
        let target = draft.group.targets.get(member_id).into_iter().flatten();
        let target = target.map(|(id, partitions)| (id, partitions.iter().map(|p| p.0).collect()));
        converted.assignment = assignment_bytes(target, member, &soft.topics);
        members.push((member_id.clone(), converted));
        super::cancel_timers(cx, &group_id, member_id);
        soft.to_rejoin.remove(&(group_id.clone(), member_id.clone()));
    }
    let epoch = draft.group.epoch();
    forget(&mut draft);
    let mut group = ClassicGroup::of_consumers(group_id.clone(), epoch, members, cx.now.wall);
    draft.records.push(GroupRecord::Classic(group_id.clone(), Some(group.to_metadata())));
    cx.append(draft.records);
    let member_ids: Vec<MemberId> = group.members().keys().cloned().collect();
    for member_id in &member_ids {
        classic::schedule_session(cx, &group, member_id);
    }
    if rebalances {
        prepare_rebalance(cx, &mut group);
    }
    soft.checked_topics.remove(&group_id);
    soft.put_back(Box::new(group));
}
