//! Who gets which partitions of a KIP-848 group: the assignors that the broker offers.
//!
//! Pure: no I/O, no clock, no randomness.

mod range;
mod uniform;

use std::collections::{BTreeMap, BTreeSet};

use protocol::types::TopicId;

use super::event::MemberId;
use super::record::Partitions;

/// A member, as an assignor sees it.
#[derive(Debug, Clone, Default)]
pub(super) struct MemberSpec {
    pub instance_id: Option<String>,
    /// What it wants, of the topics that exist.
    pub topics: BTreeSet<TopicId>,
    /// What it was to own up to now.
    pub target: Partitions,
}

/// A group, as an assignor sees it.
#[derive(Debug, Default)]
pub(super) struct GroupSpec {
    pub members: BTreeMap<MemberId, MemberSpec>,
    /// How many partitions each wanted topic has.
    pub partition_counts: BTreeMap<TopicId, i32>,
}

/// What everyone is to own.
pub(super) type GroupAssignment = BTreeMap<MemberId, Partitions>;

/// A built-in assignor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Assignor {
    Uniform,
    Range,
}

impl Assignor {
    /// The one of that name.
    pub(super) fn named(name: &str) -> Option<Assignor> {
        match name {
            "uniform" => Some(Assignor::Uniform),
            "range" => Some(Assignor::Range),
            _ => None,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Assignor::Uniform => "uniform",
            Assignor::Range => "range",
        }
    }

    /// Every partition of a wanted topic goes to exactly one member that wants it.
    pub(super) fn assign(self, group: &GroupSpec) -> GroupAssignment {
        match self {
            Assignor::Uniform => uniform::assign(group),
            Assignor::Range => range::assign(group),
        }
    }
}
