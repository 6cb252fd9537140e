//! What KIP-848 groups are asked and what they answer.
//!
//! Pure: no I/O, no clock, no randomness.

use protocol::error_code::ErrorCode;
use protocol::types::{PartitionId, TopicId};

use super::{Client, GroupId, GroupState, MemberId};

/// A KIP-848 member joins, reports, or leaves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsumerGroupHeartbeat {
    /// The group.
    pub group_id: GroupId,
    /// Empty at a first v0 join.
    pub member_id: MemberId,
    /// A UUID as text, for a member without an id.
    pub new_member_id: String,
    /// 0 joins, -1 leaves, -2 leaves for a while (static members).
    pub member_epoch: i32,
    /// Its static name.
    pub instance_id: Option<String>,
    /// Where it runs.
    pub rack_id: Option<String>,
    /// -1 where unchanged.
    pub rebalance_timeout_ms: i32,
    /// `None` where unchanged.
    pub subscribed_topic_names: Option<Vec<String>>,
    /// v1+; `None` where unchanged, empty to unset.
    pub subscribed_topic_regex: Option<String>,
    /// `None` where unchanged.
    pub server_assignor: Option<String>,
    /// What it owns; `None` where unchanged.
    pub topic_partitions: Option<Vec<TopicIdPartitions>>,
    /// Who asks.
    pub client: Client,
    /// v1+: the client makes the member id itself.
    pub requires_own_member_id: bool,
}

/// Partitions of a topic, by its id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicIdPartitions {
    /// The topic.
    pub topic_id: TopicId,
    /// Its partitions, ascending in what the coordinator answers.
    pub partitions: Vec<PartitionId>,
}

/// What the member is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsumerGroupHeartbeatReply {
    /// What went wrong.
    pub error: ErrorCode,
    /// In words.
    pub error_message: Option<String>,
    /// `None` on error.
    pub member_id: Option<MemberId>,
    /// 0 on error.
    pub member_epoch: i32,
    /// When to report next; 0 on error or for one who left.
    pub heartbeat_interval_ms: i32,
    /// What to own; `None` where unchanged.
    pub assignment: Option<Vec<TopicIdPartitions>>,
}

/// A KIP-848 group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DescribedConsumerGroup {
    /// What went wrong.
    pub error: ErrorCode,
    /// In words.
    pub error_message: Option<String>,
    /// The group.
    pub group_id: GroupId,
    /// Its state.
    pub state: GroupState,
    /// Its epoch.
    pub group_epoch: i32,
    /// That of the target assignment.
    pub assignment_epoch: i32,
    /// Who assigns.
    pub assignor_name: String,
    /// Its members.
    pub members: Vec<DescribedConsumerMember>,
}

/// A member of a KIP-848 group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DescribedConsumerMember {
    /// Its id.
    pub member_id: MemberId,
    /// Its static name.
    pub instance_id: Option<String>,
    /// Where it runs.
    pub rack_id: Option<String>,
    /// Its epoch.
    pub member_epoch: i32,
    /// Who it is.
    pub client: Client,
    /// What it wants, by name.
    pub subscribed_topic_names: Vec<String>,
    /// What it wants, by pattern; empty for none.
    pub subscribed_topic_regex: String,
    /// What it owns.
    pub assignment: Vec<NamedPartitions>,
    /// What it shall own.
    pub target_assignment: Vec<NamedPartitions>,
    /// v1+: it speaks the classic protocol.
    pub is_classic: bool,
}

/// Partitions of a topic, by id and name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedPartitions {
    /// The topic.
    pub topic_id: TopicId,
    /// Its name.
    pub topic: String,
    /// Its partitions.
    pub partitions: Vec<PartitionId>,
}
