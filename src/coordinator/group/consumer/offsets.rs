//! Who may commit and fetch offsets of a KIP-848 group.
//!
//! Pure: no I/O, no clock, no randomness.

use protocol::error_code::ErrorCode;
use protocol::types::{PartitionId, TopicId};

use crate::coordinator::group::event::{MemberId, OffsetCommit, OffsetFetch};
use crate::coordinator::group::hard::HardConsumerGroup;
use crate::coordinator::group::record::CurrentAssignment;

/// What of a member's commit is taken.
#[derive(Debug)]
pub(crate) enum CommitRule<'a> {
    /// Everything.
    All,
    /// Everything but what another member has. Kafka takes that too: there a commit that was under
    /// way when its member gave a partition up goes over those of the next owner, as long as the
    /// member has more to give up and its epoch therefore stays.
    NotOfOthers { group: &'a HardConsumerGroup, member_id: &'a MemberId, otherwise: ErrorCode },
    /// The member is told a later epoch by now: only partitions that it has had all along.
    OwnedSince { epoch: i32, current: &'a CurrentAssignment, otherwise: ErrorCode },
}

impl CommitRule<'_> {
    /// Whether the member's commit of the partition is taken.
    pub(crate) fn check(&self, topic_id: TopicId, partition: PartitionId) -> Result<(), ErrorCode> {
        let owned_since = |current: &CurrentAssignment| {
            [&current.assigned, &current.pending_revocation]
                .into_iter()
                .find_map(|owned| owned.get(&topic_id)?.get(&partition).copied())
        };
        match *self {
            CommitRule::All => Ok(()),
            CommitRule::OwnedSince { epoch, current, otherwise } => match owned_since(current) {
                Some(since) if since <= epoch => Ok(()),
                _ => Err(otherwise),
            },
            CommitRule::NotOfOthers { group, member_id, otherwise } => {
                let is_own = group.current.get(member_id).and_then(owned_since).is_some();
                let has_owner = || group.current.values().any(|c| owned_since(c).is_some());
                if !is_own && has_owner() { Err(otherwise) } else { Ok(()) }
            }
        }
    }
}

/// Kafka's `ConsumerGroup.validateOffsetCommit`.
pub(crate) fn validate_commit<'a>(
    group: &'a HardConsumerGroup,
    request: &'a OffsetCommit,
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
        let member_id = &request.member_id;
        return Ok(CommitRule::NotOfOthers { group, member_id, otherwise });
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
