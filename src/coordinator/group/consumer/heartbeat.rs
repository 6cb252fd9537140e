//! ConsumerGroupHeartbeat.
//!
//! Pure: no I/O, no clock, no randomness.

use protocol::error_code::ErrorCode;

use super::reconcile::Step;
use super::subscription::{compile, metadata_hash, refresh_regexes, wanted_topics};
use super::target::{assignor, update_target};
use super::{
    Draft, JOINS, LEAVES, LEFT_FOR_A_WHILE, Refusal, cancel_timers, leave, migration,
    schedule_rebalance, schedule_session,
};
use crate::coordinator::group::assignor::Assignor;
use crate::coordinator::group::event::{
    ConsumerGroupHeartbeat, ConsumerGroupHeartbeatReply, GroupConfig, GroupId, GroupReply,
    GroupState, MemberId, TopicIdPartitions,
};
use crate::coordinator::group::hard::{GroupHard, HardConsumerGroup};
use crate::coordinator::group::limits;
use crate::coordinator::group::record::{
    ConsumerMember, ConsumerMetadata, CurrentAssignment, GroupRecord, OwnedPartitions,
};
use crate::coordinator::group::soft::{Decision, GroupSoft};
use crate::coordinator::shard::RequestToken;

/// A member joins, reports, or leaves.
pub(crate) fn on_heartbeat(
    cx: &mut Decision<'_>,
    hard: &GroupHard,
    soft: &mut GroupSoft,
    token: RequestToken,
    request: &ConsumerGroupHeartbeat,
) {
    let decided = validate(&cx.config, request).and_then(|()| match request.member_epoch {
        LEAVES | LEFT_FOR_A_WHILE => leave::leave(cx, hard, soft, request),
        _ => report(cx, hard, soft, request),
    });
    match decided {
        Ok(reply) => cx.reply_durable(token, GroupReply::ConsumerGroupHeartbeat(reply)),
        Err(Refusal { error, message }) => {
            let reply = ConsumerGroupHeartbeatReply {
                error,
                error_message: Some(message),
                member_id: None,
                member_epoch: 0,
                heartbeat_interval_ms: 0,
                assignment: None,
            };
            cx.reply(token, GroupReply::ConsumerGroupHeartbeat(reply));
        }
    }
}

fn validate(config: &GroupConfig, request: &ConsumerGroupHeartbeat) -> Result<(), Refusal> {
    let invalid = |message: &str| Err(Refusal::new(ErrorCode::InvalidRequest, message));
    let epoch = request.member_epoch;
    let needs_id = request.requires_own_member_id || epoch > JOINS || epoch == LEAVES;
    if needs_id && request.member_id.is_empty() {
        return invalid("MemberId can't be empty.");
    }
    if request.group_id.is_empty() {
        return invalid("GroupId can't be empty.");
    }
    let regex_len = request.subscribed_topic_regex.as_ref().map_or(0, String::len);
    if request.group_id.len().max(request.member_id.len()).max(regex_len) > limits::NAME_BYTES {
        return invalid("GroupId, MemberId or SubscribedTopicRegex is too long.");
    }
    if request.instance_id.as_deref() == Some("") {
        return invalid("InstanceId can't be empty.");
    }
    if request.rack_id.as_deref() == Some("") {
        return invalid("RackId can't be empty.");
    }
    if epoch == JOINS {
        if request.rebalance_timeout_ms == -1 {
            return invalid("RebalanceTimeoutMs must be provided in first request.");
        }
        if request.topic_partitions.as_ref().is_none_or(|owned| !owned.is_empty()) {
            return invalid("TopicPartitions must be empty when (re-)joining.");
        }
        if request.subscribed_topic_names.is_none() && request.subscribed_topic_regex.is_none() {
            return invalid(
                "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when \
                 (re-)joining.",
            );
        }
    } else if epoch == LEFT_FOR_A_WHILE && request.instance_id.is_none() {
        return invalid("InstanceId can't be null.");
    } else if epoch < LEFT_FOR_A_WHILE {
        return invalid("MemberEpoch is invalid.");
    }
    let offered = &config.consumer_assignors;
    match &request.server_assignor {
        Some(name) if !offered.contains(name) || Assignor::named(name).is_none() => {
            let supported = offered.join(", ");
            let message = format!(
                "ServerAssignor {name} is not supported. Supported assignors: {supported}."
            );
            Err(Refusal::new(ErrorCode::UnsupportedAssignor, message))
        }
        _ => Ok(()),
    }
}

/// The group, as far as it exists; a member that joins makes it, also out of an empty classic one.
fn open<'a>(
    config: &GroupConfig,
    hard: &'a GroupHard,
    soft: &GroupSoft,
    request: &ConsumerGroupHeartbeat,
) -> Result<Draft<'a>, Refusal> {
    let group_id = &request.group_id;
    let joins = request.member_epoch == JOINS;
    let durable = hard.group(group_id);
    if let Some(consumer) = durable.and_then(|group| group.consumer.as_deref()) {
        return Ok(Draft::new(group_id, Some(consumer)));
    }
    let unknown = |message: String| Err(Refusal::new(ErrorCode::GroupIdNotFound, message));
    let looked = soft.look(hard, group_id, |group| {
        if !joins {
            return unknown(format!("Group {group_id} is not a consumer group."));
        }
        let mut draft = Draft::new(group_id, None);
        if durable.is_some_and(|group| group.classic.is_some()) {
            draft.records.push(GroupRecord::Classic(group_id.clone(), None));
        }
        if !group.is_in(GroupState::Empty) {
            migration::upgrade(&mut draft, config, &soft.topics, group)?;
        }
        Ok(draft)
    });
    match looked {
        Some(opened) => opened,
        None if joins => Ok(Draft::new(group_id, None)),
        None => unknown(format!("Consumer group {group_id} not found.")),
    }
}

/// A member joins or reports.
fn report(
    cx: &mut Decision<'_>,
    hard: &GroupHard,
    soft: &mut GroupSoft,
    request: &ConsumerGroupHeartbeat,
) -> Result<ConsumerGroupHeartbeatReply, Refusal> {
    let mut draft = open(&cx.config, hard, soft, request)?;
    let member_id = identify(cx, &mut draft, request)?;
    let before = draft.group.current(&member_id);
    let update = |before: &ConsumerMember| updated(before, request);
    let has_changed = update_member(cx, soft, &mut draft, &member_id, update)?;
    update_target(&mut draft, &cx.config, &soft.topics, cx.now.wall);
    let owned = request.topic_partitions.as_deref();
    let after = reconcile(&mut draft, soft, &member_id, has_changed, owned)?;
    if before != after {
        schedule_rebalance(cx, &draft.group, &request.group_id, &member_id);
    }
    if let Some(upgraded) = soft.classic.remove(&request.group_id) {
        migration::leave_classic(cx, &draft.group, &upgraded);
    }
    schedule_session(cx, &draft.group, &request.group_id, &member_id);
    soft.checked_topics.insert(request.group_id.clone(), soft.topics_version);
    cx.append(draft.records);
    let is_full = request.rebalance_timeout_ms != -1
        && (request.subscribed_topic_names.is_some() || request.subscribed_topic_regex.is_some())
        && request.topic_partitions.is_some();
    let is_told = request.member_epoch == JOINS || is_full || before.assigned != after.assigned;
    Ok(ConsumerGroupHeartbeatReply {
        error: ErrorCode::None,
        error_message: None,
        member_id: Some(member_id),
        member_epoch: after.member_epoch,
        heartbeat_interval_ms: cx.config.heartbeat_interval_ms_of(&request.group_id),
        assignment: is_told.then(|| told(&after.assigned)),
    })
}

fn told(assigned: &OwnedPartitions) -> Vec<TopicIdPartitions> {
    let topics = assigned.iter().map(|(&topic_id, partitions)| TopicIdPartitions {
        topic_id,
        partitions: partitions.keys().copied().collect(),
    });
    topics.collect()
}

/// Which member this is; one that joins may be new, or take a static member's place.
fn identify(
    cx: &mut Decision<'_>,
    draft: &mut Draft<'_>,
    request: &ConsumerGroupHeartbeat,
) -> Result<MemberId, Refusal> {
    let joins = request.member_epoch == JOINS;
    let instance_id = request.instance_id.as_deref();
    check_size(&cx.config, &draft.group, &request.member_id, instance_id)?;
    let existing = instance_id.and_then(|id| draft.group.static_member_id(id)).cloned();
    let is_member = draft.group.members.contains_key(&request.member_id);
    let member_id = match request.member_id.is_empty() {
        true => MemberId::from(request.new_member_id.as_str()),
        false => request.member_id.clone(),
    };
    match (&request.instance_id, existing) {
        (None, _) if is_member => check_epoch(&draft.group, &member_id, request)?,
        (None, _) | (Some(_), None) if joins => {}
        (None, _) => return Err(unknown_member(&draft.group_id, &member_id)),
        (Some(instance_id), None) => {
            let message = format!("Instance id {instance_id} is unknown.");
            return Err(Refusal::new(ErrorCode::UnknownMemberId, message));
        }
        (Some(instance_id), Some(existing)) if joins => {
            if !draft.group.has_left_for_a_while(&existing)
                && draft.group.members[&existing].classic.is_none()
            {
                let message = format!(
                    "Static member {member_id} with instance id {instance_id} cannot join the \
                     group because the instance id is owned by {existing} member."
                );
                return Err(Refusal::new(ErrorCode::UnreleasedInstanceId, message));
            }
            replace(cx, draft, &existing, &member_id);
        }
        (Some(instance_id), Some(existing)) => {
            leave::check_not_fenced(instance_id, &existing, &member_id)?;
            check_epoch(&draft.group, &member_id, request)?;
        }
    }
    Ok(member_id)
}

/// Whether the group has room for one more, if this is one more.
pub(super) fn check_size(
    config: &GroupConfig,
    group: &HardConsumerGroup,
    member_id: &str,
    instance_id: Option<&str>,
) -> Result<(), Refusal> {
    let max_size = config.consumer_max_size;
    let is_one_more = instance_id.is_none_or(|id| group.static_member_id(id).is_none())
        && !group.members.contains_key(member_id);
    if !is_one_more || group.members.len() < max_size {
        return Ok(());
    }
    let message =
        format!("The consumer group has reached its maximum capacity of {max_size} members.");
    Err(Refusal::new(ErrorCode::GroupMaxSizeReached, message))
}

pub(super) fn unknown_member(group_id: &GroupId, member_id: &MemberId) -> Refusal {
    let message = format!("Member {member_id} is not a member of group {group_id}.");
    Refusal::new(ErrorCode::UnknownMemberId, message)
}

/// The member's epoch must be the one that it was told, or the one before if that answer was lost.
fn check_epoch(
    group: &HardConsumerGroup,
    member_id: &MemberId,
    request: &ConsumerGroupHeartbeat,
) -> Result<(), Refusal> {
    let current = group.current(member_id);
    let (epoch, known) = (request.member_epoch, current.member_epoch);
    let fenced = |which: &str| {
        let message = format!(
            "The consumer group member has a {which} member epoch ({epoch}) than the one known by \
             the group coordinator ({known}). The member must abandon all its partitions and \
             rejoin."
        );
        Err(Refusal::new(ErrorCode::FencedMemberEpoch, message))
    };
    if epoch == JOINS || epoch == known {
        Ok(())
    } else if epoch > known {
        fenced("greater")
    } else if epoch == current.previous_member_epoch && owns_no_more(request, &current) {
        Ok(())
    } else {
        fenced("smaller")
    }
}

fn owns_no_more(request: &ConsumerGroupHeartbeat, current: &CurrentAssignment) -> bool {
    request.topic_partitions.as_ref().is_some_and(|owned| {
        owned.iter().all(|topic| {
            let assigned = current.assigned.get(&topic.topic_id);
            assigned.is_some_and(|assigned| {
                topic.partitions.iter().all(|partition| assigned.contains_key(partition))
            })
        })
    })
}

/// A static member comes back under another id, and takes over what it had.
pub(super) fn replace(
    cx: &mut Decision<'_>,
    draft: &mut Draft<'_>,
    old_id: &MemberId,
    new_id: &MemberId,
) {
    let member = draft.group.members.get(old_id).cloned().unwrap_or_default();
    let target = draft.group.targets.get(old_id).cloned().unwrap_or_default();
    let mut current = draft.group.current(old_id);
    (current.member_epoch, current.previous_member_epoch) = (0, 0);
    draft.remove_member(old_id);
    draft.set_member(new_id, Some(member));
    draft.set_target(new_id, Some(target));
    draft.set_current(new_id, Some(current));
    cancel_timers(cx, &draft.group_id, old_id);
}

/// Takes in what the member says of itself, and what has become of its topics: either may begin a
/// new epoch. Whether the member wants something else than before.
pub(super) fn update_member(
    cx: &Decision<'_>,
    soft: &GroupSoft,
    draft: &mut Draft<'_>,
    member_id: &MemberId,
    update: impl FnOnce(&ConsumerMember) -> Result<ConsumerMember, Refusal>,
) -> Result<bool, Refusal> {
    let is_new = !draft.group.members.contains_key(member_id);
    let before = draft.group.members.get(member_id).cloned().unwrap_or_else(new_member);
    let after = update(&before)?;
    let assignor_before = assignor(&cx.config, &draft.group);
    if is_new || before != after {
        draft.set_member(member_id, Some(after.clone()));
    }
    let has_regex_changed = before.subscribed_topic_regex != after.subscribed_topic_regex;
    let has_changed =
        has_regex_changed || before.subscribed_topic_names != after.subscribed_topic_names;
    let has_assignor_changed = assignor_before != assignor(&cx.config, &draft.group);
    let is_checked = soft.checked_topics.get(&draft.group_id) == Some(&soft.topics_version);
    if !has_changed && !has_assignor_changed && is_checked {
        return Ok(false);
    }
    let (topics, version) = (&soft.topics, soft.topics_version);
    let mut is_another = has_changed || has_assignor_changed;
    if has_regex_changed || !is_checked {
        is_another |= refresh_regexes(draft, topics, version, cx.now.wall);
    }
    let metadata_hash = metadata_hash(&draft.group, topics);
    let known_hash = draft.group.metadata.as_ref().map_or(0, |metadata| metadata.metadata_hash);
    if is_another || metadata_hash != known_hash {
        let epoch = draft.group.epoch() + 1;
        let metadata = ConsumerMetadata { epoch, metadata_hash };
        draft.apply(GroupRecord::Consumer(draft.group_id.clone(), Some(metadata)));
    }
    Ok(has_changed)
}

fn new_member() -> ConsumerMember {
    ConsumerMember { rebalance_timeout_ms: -1, ..ConsumerMember::default() }
}

/// The member with what the request says of it.
fn updated(
    before: &ConsumerMember,
    request: &ConsumerGroupHeartbeat,
) -> Result<ConsumerMember, Refusal> {
    let mut member = before.clone();
    member.client = request.client.clone();
    member.classic = None;
    if request.instance_id.is_some() {
        member.instance_id.clone_from(&request.instance_id);
    }
    if request.rack_id.is_some() {
        member.rack_id.clone_from(&request.rack_id);
    }
    if request.rebalance_timeout_ms != -1 {
        member.rebalance_timeout_ms = request.rebalance_timeout_ms;
    }
    if request.server_assignor.is_some() {
        member.server_assignor.clone_from(&request.server_assignor);
    }
    if let Some(names) = &request.subscribed_topic_names {
        member.subscribed_topic_names.clone_from(names);
        member.subscribed_topic_names.sort_unstable();
        member.subscribed_topic_names.dedup();
    }
    if let Some(expression) = &request.subscribed_topic_regex {
        let is_another = before.subscribed_topic_regex.as_ref() != Some(expression);
        if is_another && !expression.is_empty() {
            compile(expression)?;
        }
        member.subscribed_topic_regex = Some(expression.clone()).filter(|text| !text.is_empty());
    }
    Ok(member)
}

/// The member's next step towards its target.
pub(super) fn reconcile(
    draft: &mut Draft<'_>,
    soft: &GroupSoft,
    member_id: &MemberId,
    has_subscription_changed: bool,
    owned: Option<&[TopicIdPartitions]>,
) -> Result<CurrentAssignment, Refusal> {
    let group = &draft.group;
    let current = group.current(member_id);
    if group.is_reconciled(member_id) && !has_subscription_changed {
        return Ok(current);
    }
    let member = &group.members[member_id];
    let step = Step {
        current: &current,
        target_epoch: group.target_epoch(),
        target: &group.targets.get(member_id).cloned().unwrap_or_default(),
        subscribed: &wanted_topics(group, member, &soft.topics),
        has_subscription_changed,
        owned,
        taken: &group.owned_by_others(member_id),
    };
    let next = step.next().map_err(|_| {
        let message = "The consumer group member is in a unknown state. The member must abandon \
                       all its partitions and rejoin.";
        Refusal::new(ErrorCode::FencedMemberEpoch, message)
    })?;
    if next != current || !group.current.contains_key(member_id) {
        draft.set_current(member_id, Some(next.clone()));
    }
    Ok(next)
}
