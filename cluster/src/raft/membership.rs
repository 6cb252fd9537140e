//! A group's memberships as small durable values: each with the entry that set it, because a
//! snapshot needs the membership as of an entry long past.

use std::collections::BTreeSet;

use openraft::alias::StoredMembershipOf;
use serde::{Deserialize, Serialize};
use storage::log_store::EntryId;

use super::type_config::{LogId, Membership, StoredMembership, TypeConfig, entry_id, log_id};

/// A membership in our own words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct MembershipRecord {
    configs: Vec<BTreeSet<u64>>,
    nodes: BTreeSet<u64>,
}

/// A membership, and the entry that set it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct StoredMembershipRecord {
    id: Option<IdRecord>,
    membership: MembershipRecord,
}

/// An entry's identity in our own words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct IdRecord {
    term: u64,
    index: u64,
}

impl IdRecord {
    pub(super) fn from_log_id(id: &LogId) -> Self {
        let EntryId { term, index } = entry_id(id);
        IdRecord { term, index }
    }

    pub(super) fn to_log_id(self) -> LogId {
        log_id(EntryId { term: self.term, index: self.index })
    }
}

impl MembershipRecord {
    pub(super) fn from_raft(membership: &Membership) -> Self {
        MembershipRecord {
            configs: membership.get_joint_config().clone(),
            nodes: membership.nodes().map(|(id, ())| *id).collect(),
        }
    }

    /// Whether there is one voter.
    pub(super) fn is_of_one(&self) -> bool {
        self.configs.iter().flatten().collect::<BTreeSet<_>>().len() == 1
    }

    /// Whether a node is the only voter.
    pub(super) fn votes_alone(&self, node_id: u64) -> bool {
        self.configs.iter().flatten().all(|id| *id == node_id)
    }

    pub(super) fn to_raft(&self) -> Membership {
        Membership::new_with_defaults(self.configs.clone(), self.nodes.iter().copied())
    }
}

impl StoredMembershipRecord {
    pub(super) fn from_raft(stored: &StoredMembership) -> Self {
        StoredMembershipRecord {
            id: stored.log_id().as_ref().map(IdRecord::from_log_id),
            membership: MembershipRecord::from_raft(stored.membership()),
        }
    }

    pub(super) fn to_raft(&self) -> StoredMembership {
        StoredMembershipOf::<TypeConfig>::new(
            self.id.map(IdRecord::to_log_id),
            self.membership.to_raft(),
        )
    }
}
