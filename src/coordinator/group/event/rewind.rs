//! What administrators ask to have a group begin elsewhere, also one that is at work.
//!
//! Pure: no I/O, no clock, no randomness.

use protocol::types::{Offset, PartitionId, TopicId};

use super::{GroupId, GroupType};

/// A group is to begin elsewhere: its members are made to begin there, and what they commit of
/// before is not taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rewind {
    /// The group.
    pub group_id: GroupId,
    /// Where to.
    pub to: RewindTo,
    /// Nothing is changed: what would be is all that is asked.
    pub is_dry_run: bool,
}

/// Where a group is to begin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RewindTo {
    /// On each of these partitions, there.
    Places(Vec<RewindPlace>),
    /// Where it stood before the last rewind.
    Before,
}

/// Where a group is to begin on a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RewindPlace {
    /// The topic's name.
    pub topic: String,
    /// Its id.
    pub topic_id: TopicId,
    /// The partition.
    pub partition: PartitionId,
    /// Where to.
    pub target: RewindTarget,
    /// The first offset of the partition: no target is before it.
    pub log_start_offset: Offset,
    /// The high watermark: no target is behind it.
    pub end_offset: Offset,
}

/// An offset, or a way from the one that is committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RewindTarget {
    /// There.
    Offset(Offset),
    /// So much further on, or back.
    Shift(i64),
}

/// What became of the request, or would.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RewindReply {
    /// Why nothing was done.
    pub refusal: Option<RewindRefusal>,
    /// Which protocol the group speaks.
    pub group_type: GroupType,
    /// The generation of a classic group, the epoch of a KIP-848 one: as of the rewind.
    pub epoch: i32,
    /// A row for each partition, in the order of the request; by topic and number for
    /// [`RewindTo::Before`].
    pub rows: Vec<Rewound>,
}

/// Why a group is not rewound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RewindRefusal {
    /// There is no such group.
    UnknownGroup,
    /// It was never rewound, or all of that was undone.
    NothingToUndo,
}

/// What became of a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rewound {
    /// The topic's name.
    pub topic: String,
    /// The partition.
    pub partition: PartitionId,
    /// What was committed; `None` for nothing.
    pub before: Option<Offset>,
    /// What is committed now; `None` for nothing.
    pub after: Option<Offset>,
    /// How that came.
    pub outcome: RewindOutcome,
}

/// What became of a partition's offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RewindOutcome {
    /// It is what was asked for.
    Taken,
    /// What was asked for is not in the log: it is the nearest offset that is.
    Clamped,
    /// There was none before the rewind that is undone, and there is none again.
    Forgotten,
    /// It cannot be shifted, because there is none. Nothing was changed.
    NothingToShift,
}
