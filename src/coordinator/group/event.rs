//! What the group coordinator is asked and what it answers, in terms of its own: no wire messages,
//! no API versions (what depends on a version is a named flag).
//!
//! How whoever runs the machine gives it what is not in a client's request:
//! - [`GroupConfig`] and [`TopicsSnapshot`]: into the soft state that each load of a shard starts
//!   with, by [`super::GroupSoft::new`]; when they change later, to every loaded shard as
//!   [`GroupRequest::Configure`] and [`GroupRequest::TopicsChanged`] (answered by
//!   [`GroupReply::Done`]).
//! - A topic's deletion: to every loaded shard as [`GroupRequest::TopicsDeleted`], so that its
//!   offsets go.
//! - A fresh UUID as text in every request that may make a member (`new_member_id`).
//!
//! Pure: no I/O, no clock, no randomness.

mod consumer;
mod rewind;

use std::sync::Arc;

use bytes::Bytes;
use protocol::error_code::ErrorCode;
use protocol::types::{LeaderEpoch, Offset, PartitionId, TopicId};

pub use self::consumer::{
    ConsumerGroupHeartbeat, ConsumerGroupHeartbeatReply, DescribedConsumerGroup,
    DescribedConsumerMember, NamedPartitions, TopicIdPartitions,
};
pub use self::rewind::{
    Rewind, RewindOutcome, RewindPlace, RewindRefusal, RewindReply, RewindTarget, RewindTo, Rewound,
};
pub use super::config::{ConsumerGroupConfig, GroupConfig, MigrationPolicy};
pub use super::topics::{TopicShape, TopicsSnapshot};

/// A group's name.
pub type GroupId = Arc<str>;
/// A member's name, made by the coordinator (classic) or by the client (KIP-848).
pub type MemberId = Arc<str>;

/// Who asks, as the coordinator shows it to administrators.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Client {
    /// The client id of the request header; empty for none.
    pub client_id: String,
    /// The address as Kafka writes it: a slash, then the IP (`/127.0.0.1`).
    pub client_host: String,
}

/// A request to one shard; all but the last four concern one group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GroupRequest {
    /// Answered by [`GroupReply::JoinGroup`], perhaps much later.
    JoinGroup(JoinGroup),
    /// Answered by [`GroupReply::SyncGroup`], perhaps much later.
    SyncGroup(SyncGroup),
    /// Answered by [`GroupReply::Heartbeat`].
    Heartbeat(Heartbeat),
    /// Answered by [`GroupReply::LeaveGroup`].
    LeaveGroup(LeaveGroup),
    /// Answered by [`GroupReply::DescribeGroup`].
    DescribeGroup(DescribeGroup),
    /// Answered by [`GroupReply::DeleteGroup`].
    DeleteGroup(GroupId),
    /// Answered by [`GroupReply::OffsetCommit`].
    OffsetCommit(OffsetCommit),
    /// An administrator has the group begin elsewhere, whether or not it has members. Answered by
    /// [`GroupReply::Rewind`].
    Rewind(Rewind),
    /// Answered by [`GroupReply::OffsetFetch`].
    OffsetFetch(OffsetFetch),
    /// Answered by [`GroupReply::OffsetDelete`].
    OffsetDelete(OffsetDelete),
    /// Answered by [`GroupReply::ConsumerGroupHeartbeat`].
    ConsumerGroupHeartbeat(ConsumerGroupHeartbeat),
    /// Answered by [`GroupReply::ConsumerGroupDescribe`].
    ConsumerGroupDescribe(GroupId),
    /// All groups of this shard. Answered by [`GroupReply::ListGroups`].
    ListGroups(ListGroups),
    /// The configuration from now on. Answered by [`GroupReply::Done`].
    Configure(Arc<GroupConfig>),
    /// The topics from now on. Answered by [`GroupReply::Done`].
    TopicsChanged(Arc<TopicsSnapshot>),
    /// These topics no longer exist: their offsets go. Answered by [`GroupReply::Done`].
    TopicsDeleted(Vec<String>),
}

/// An answer; the variant is named as the request's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GroupReply {
    /// To [`GroupRequest::JoinGroup`].
    JoinGroup(JoinGroupReply),
    /// To [`GroupRequest::SyncGroup`].
    SyncGroup(SyncGroupReply),
    /// To [`GroupRequest::Heartbeat`].
    Heartbeat(ErrorCode),
    /// To [`GroupRequest::LeaveGroup`].
    LeaveGroup(LeaveGroupReply),
    /// To [`GroupRequest::DescribeGroup`].
    DescribeGroup(DescribedGroup),
    /// To [`GroupRequest::DeleteGroup`].
    DeleteGroup(ErrorCode),
    /// To [`GroupRequest::OffsetCommit`].
    OffsetCommit(OffsetCommitReply),
    /// To [`GroupRequest::Rewind`].
    Rewind(RewindReply),
    /// To [`GroupRequest::OffsetFetch`].
    OffsetFetch(OffsetFetchReply),
    /// To [`GroupRequest::OffsetDelete`].
    OffsetDelete(OffsetDeleteReply),
    /// To [`GroupRequest::ConsumerGroupHeartbeat`].
    ConsumerGroupHeartbeat(ConsumerGroupHeartbeatReply),
    /// To [`GroupRequest::ConsumerGroupDescribe`].
    ConsumerGroupDescribe(DescribedConsumerGroup),
    /// To [`GroupRequest::ListGroups`].
    ListGroups(Vec<ListedGroup>),
    /// To the requests of the broker itself.
    Done,
}

/// A group's state, under the names that Kafka's tools know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum GroupState {
    /// No members; offsets perhaps.
    Empty,
    /// Classic: members are asked to join again.
    PreparingRebalance,
    /// Classic: everyone joined, the leader's assignment is awaited.
    CompletingRebalance,
    /// Every member has its assignment.
    Stable,
    /// Does not exist (any more).
    Dead,
    /// KIP-848: the target assignment is older than the group.
    Assigning,
    /// KIP-848: members are on their way to the target assignment.
    Reconciling,
}

impl GroupState {
    /// As Kafka's tools write it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            GroupState::Empty => "Empty",
            GroupState::PreparingRebalance => "PreparingRebalance",
            GroupState::CompletingRebalance => "CompletingRebalance",
            GroupState::Stable => "Stable",
            GroupState::Dead => "Dead",
            GroupState::Assigning => "Assigning",
            GroupState::Reconciling => "Reconciling",
        }
    }
}

/// Which protocol a group speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum GroupType {
    /// JoinGroup and SyncGroup.
    Classic,
    /// KIP-848.
    Consumer,
}

impl GroupType {
    /// As Kafka's tools write it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            GroupType::Classic => "classic",
            GroupType::Consumer => "consumer",
        }
    }
}

/// A member joins, or rejoins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JoinGroup {
    /// The group.
    pub group_id: GroupId,
    /// Empty at a first join.
    pub member_id: MemberId,
    /// The static member's name (KIP-345).
    pub group_instance_id: Option<String>,
    /// Who asks.
    pub client: Client,
    /// A UUID as text, for a member without an id.
    pub new_member_id: String,
    /// After how long without a sign of life the member is gone.
    pub session_timeout_ms: i32,
    /// How long the member may take to rejoin; the session timeout for a v0 request.
    pub rebalance_timeout_ms: i32,
    /// `consumer`, or what Connect and others say.
    pub protocol_type: String,
    /// The member's assignors with its metadata for each, the preferred one first.
    pub protocols: Vec<JoinProtocol>,
    /// Why the member rejoins, for the log.
    pub reason: Option<String>,
    /// v4+: a first join is answered MEMBER_ID_REQUIRED (KIP-394).
    pub requires_known_member_id: bool,
    /// v9+: a returning static leader may be told to keep the assignment (KIP-814).
    pub supports_skipping_assignment: bool,
}

/// A protocol that a member offers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JoinProtocol {
    /// The assignor's name.
    pub name: String,
    /// The member's subscription for it, opaque but for `consumer` groups.
    pub metadata: Bytes,
}

/// What a member is told once everyone has joined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JoinGroupReply {
    /// What went wrong.
    pub error: ErrorCode,
    /// -1 on error.
    pub generation_id: i32,
    /// `None` on error.
    pub protocol_type: Option<String>,
    /// The chosen assignor; `None` on error (an empty string below v7).
    pub protocol_name: Option<String>,
    /// The leader's member id; empty on error.
    pub leader: MemberId,
    /// The leader keeps the assignment it made before (KIP-814).
    pub skip_assignment: bool,
    /// The member's id, to be used from now on (also with MEMBER_ID_REQUIRED).
    pub member_id: MemberId,
    /// Everyone, for the leader; empty for the others.
    pub members: Vec<JoinedMember>,
}

/// A member as the leader gets to know it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JoinedMember {
    /// Its id.
    pub member_id: MemberId,
    /// Its static name.
    pub group_instance_id: Option<String>,
    /// Its metadata for the chosen protocol.
    pub metadata: Bytes,
}

/// A member wants its assignment; the leader brings everyone's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyncGroup {
    /// The group.
    pub group_id: GroupId,
    /// The generation of the join.
    pub generation_id: i32,
    /// The member.
    pub member_id: MemberId,
    /// Its static name.
    pub group_instance_id: Option<String>,
    /// v5+: must be the group's.
    pub protocol_type: Option<String>,
    /// v5+: must be the chosen one.
    pub protocol_name: Option<String>,
    /// By member id; from the leader alone.
    pub assignments: Vec<(MemberId, Bytes)>,
}

/// The member's assignment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyncGroupReply {
    /// What went wrong.
    pub error: ErrorCode,
    /// `None` on error.
    pub protocol_type: Option<String>,
    /// `None` on error.
    pub protocol_name: Option<String>,
    /// Empty on error.
    pub assignment: Bytes,
}

/// A sign of life.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heartbeat {
    /// The group.
    pub group_id: GroupId,
    /// The member's generation.
    pub generation_id: i32,
    /// The member.
    pub member_id: MemberId,
    /// Its static name.
    pub group_instance_id: Option<String>,
}

/// Members leave, or an administrator removes them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaveGroup {
    /// The group.
    pub group_id: GroupId,
    /// One below v3.
    pub members: Vec<LeavingMember>,
}

/// One who leaves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeavingMember {
    /// Empty where an administrator names a static member only.
    pub member_id: MemberId,
    /// Its static name.
    pub group_instance_id: Option<String>,
    /// Why, for the log.
    pub reason: Option<String>,
}

/// Below v3 the handler answers the one member's error, or else the request's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaveGroupReply {
    /// What went wrong for all; `members` is empty then.
    pub error: ErrorCode,
    /// A row for each of the request, in its order.
    pub members: Vec<LeftMember>,
}

/// What became of one who leaves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftMember {
    /// As asked.
    pub member_id: MemberId,
    /// As asked.
    pub group_instance_id: Option<String>,
    /// What went wrong.
    pub error: ErrorCode,
}

/// Describes a classic group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DescribeGroup {
    /// The group.
    pub group_id: GroupId,
    /// v6+: a group that does not exist is an error, and not merely Dead.
    pub reports_unknown_group: bool,
}

/// A classic group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DescribedGroup {
    /// What went wrong.
    pub error: ErrorCode,
    /// In words.
    pub error_message: Option<String>,
    /// The group.
    pub group_id: GroupId,
    /// Its state.
    pub state: GroupState,
    /// Empty where unknown.
    pub protocol_type: String,
    /// The chosen protocol, of a stable group; else empty.
    pub protocol_data: String,
    /// Its members.
    pub members: Vec<DescribedMember>,
}

/// A member of a classic group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DescribedMember {
    /// Its id.
    pub member_id: MemberId,
    /// Its static name.
    pub group_instance_id: Option<String>,
    /// Who it is.
    pub client: Client,
    /// Its subscription for the chosen protocol; empty unless the group is stable.
    pub metadata: Bytes,
    /// Its assignment; empty unless the group is stable.
    pub assignment: Bytes,
}

/// Which groups to list.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ListGroups {
    /// Only those in these states, in any case; empty for all.
    pub states: Vec<String>,
    /// Only those of these types, in any case; empty for all.
    pub types: Vec<String>,
}

/// A group, in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedGroup {
    /// Its name.
    pub group_id: GroupId,
    /// Empty where unknown (a group that only holds offsets).
    pub protocol_type: String,
    /// Its state.
    pub state: GroupState,
    /// Its protocol.
    pub group_type: GroupType,
}

/// Offsets to remember. Topics that do not exist are the handler's to answer, and do not get here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OffsetCommit {
    /// The group.
    pub group_id: GroupId,
    /// The generation, the member epoch, or -1 outside of a group.
    pub generation_id_or_member_epoch: i32,
    /// Empty outside of a group.
    pub member_id: MemberId,
    /// Its static name.
    pub group_instance_id: Option<String>,
    /// v2–4: how long the offsets are kept; `None` for the broker's choice (-1).
    pub retention_time_ms: Option<i64>,
    /// v9+: the client knows member epochs (KIP-848).
    pub supports_member_epochs: bool,
    /// What to remember.
    pub topics: Vec<OffsetCommitTopic>,
}

/// Offsets of a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OffsetCommitTopic {
    /// Its name, which is what offsets are kept by; resolved by the handler from v10's id.
    pub topic: String,
    /// Its id; zero where unknown.
    pub topic_id: TopicId,
    /// Its partitions.
    pub partitions: Vec<OffsetCommitPartition>,
}

/// An offset to remember.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OffsetCommitPartition {
    /// The partition.
    pub partition: PartitionId,
    /// The next to be read.
    pub offset: Offset,
    /// The epoch of the last that was read, or -1.
    pub leader_epoch: LeaderEpoch,
    /// The client's own words.
    pub metadata: Option<String>,
}

/// Where `error` is none, a row for each of the request, in its order; else `topics` is empty and
/// the handler gives every row that error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OffsetCommitReply {
    /// What went wrong for all.
    pub error: ErrorCode,
    /// The rows.
    pub topics: Vec<TopicErrors>,
}

/// What became of a topic's partitions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicErrors {
    /// As asked.
    pub topic: String,
    /// As asked; zero where it was not.
    pub topic_id: TopicId,
    /// For each partition.
    pub partitions: Vec<(PartitionId, ErrorCode)>,
}

/// Reads remembered offsets of one group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OffsetFetch {
    /// The group.
    pub group_id: GroupId,
    /// v9+, a KIP-848 member.
    pub member_id: Option<MemberId>,
    /// v9+; -1 for none.
    pub member_epoch: i32,
    /// `None` for all that are known.
    pub topics: Option<Vec<OffsetFetchTopic>>,
    /// An offset that a transaction is about to change is an error (KIP-447).
    pub require_stable: bool,
}

/// Partitions of a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OffsetFetchTopic {
    /// Its name; resolved by the handler from v10's id.
    pub topic: String,
    /// Its id, handed back as it is.
    pub topic_id: TopicId,
    /// Its partitions.
    pub partitions: Vec<PartitionId>,
}

/// What is remembered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OffsetFetchReply {
    /// What went wrong for all; `topics` is empty then.
    pub error: ErrorCode,
    /// In the order asked, or by name where all were.
    pub topics: Vec<FetchedTopic>,
}

/// Offsets of a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchedTopic {
    /// Its name.
    pub topic: String,
    /// As asked; where all were asked, as known from the commit.
    pub topic_id: TopicId,
    /// Its partitions.
    pub partitions: Vec<FetchedOffset>,
}

/// A remembered offset; -1, -1 and an empty text where there is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchedOffset {
    /// The partition.
    pub partition: PartitionId,
    /// The next to be read.
    pub offset: Offset,
    /// The epoch of the last that was read.
    pub leader_epoch: LeaderEpoch,
    /// The client's own words.
    pub metadata: String,
    /// What went wrong.
    pub error: ErrorCode,
}

/// Forgets offsets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OffsetDelete {
    /// The group.
    pub group_id: GroupId,
    /// Which.
    pub topics: Vec<(String, Vec<PartitionId>)>,
}

/// Where `error` is none, a row for each of the request, in its order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OffsetDeleteReply {
    /// What went wrong for all; `topics` is empty then.
    pub error: ErrorCode,
    /// The rows; topic ids are zero.
    pub topics: Vec<TopicErrors>,
}
