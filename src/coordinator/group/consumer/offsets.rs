//! Who may commit and fetch offsets of a KIP-848 group.
//!
//! Pure: no I/O, no clock, no randomness.

use protocol::error_code::ErrorCode;
use protocol::types::{PartitionId, TopicId};

use crate::coordinator::group::event::{OffsetCommit, OffsetFetch};
use crate::coordinator::group::hard::HardConsumerGroup;
use crate::coordinator::group::record::CurrentAssignment;

/// What of a member's commit is taken.
#[derive(Debug)]
pub(crate) enum CommitRule<'a> {
    /// Everything.
    All,
    /// The member is told a later epoch by now: only partitions that it has had all along.
    OwnedSince { epoch: i32, current: &'a CurrentAssignment, otherwise: ErrorCode },
}

impl CommitRule<'_> {
    /// Whether the member's commit of the partition is taken.
    pub(crate) fn check(&self, topic_id: TopicId, partition: PartitionId) -> Result<(), ErrorCode> {
        let CommitRule::OwnedSince { epoch, current, otherwise } = self else { return Ok(()) };
        let of = |owned: &super::super::record::OwnedPartitions| {
            owned.get(&topic_id).and_then(|partitions| partitions.get(&partition)).copied()
        };
        match of(&current.assigned).or_else(|| of(&current.pending_revocation)) {
            Some(since) if since <= *epoch => Ok(()),
            _ => Err(*otherwise),
        }
    }
}

/// Kafka's `ConsumerGroup.validateOffsetCommit`.
pub(crate) fn validate_commit<'a>(
    group: &'a HardConsumerGroup,
    request: &OffsetCommit,
) -> Result<CommitRule<'a>, ErrorCode> {
    let epoch = request.generation_id_or_member_epoch;
    if epoch < 0 && group.members.is_empty() {
        return Ok(CommitRule::All);
    }
    let member = group.members.get(&request.member_id).ok_or(ErrorCode::UnknownMemberId)?;
    let otherwise = match member.classic {
        Some(_) => ErrorCode::IllegalGeneration,
        None if !request.supports_member_epochs => return Err(ErrorCode::UnsupportedVersion),
        None => ErrorCode::StaleMemberEpoch,
    };
    let known = group.member_epoch(&request.member_id);
    if epoch == known {
        return Ok(CommitRule::All);
    }
    match group.current.get(&request.member_id) {
        Some(current) if epoch < known => Ok(CommitRule::OwnedSince { epoch, current, otherwise }),
        _ => Err(otherwise),
    }
}

/// Kafka's `ConsumerGroup.validateOffsetFetch`.
pub(crate) fn validate_fetch(
    group: &HardConsumerGroup,
    request: &OffsetFetch,
) -> Result<(), ErrorCode> {
    let Some(member_id) = &request.member_id else {
        return match request.member_epoch < 0 {
            true => Ok(()),
            false => Err(ErrorCode::UnknownMemberId),
        };
    };
    let member = group.members.get(member_id).ok_or(ErrorCode::UnknownMemberId)?;
    match (request.member_epoch == group.member_epoch(member_id), &member.classic) {
        (true, _) => Ok(()),
        (false, Some(_)) => Err(ErrorCode::IllegalGeneration),
        (false, None) => Err(ErrorCode::StaleMemberEpoch),
    }
}
