//! The entries of the group coordinator's log, in Kafka's own key and value schemas (those of
//! `__consumer_offsets`), so that kafka-dump-log and Burrow read them.
//!
//! The first two bytes of a key say which schema key and value have; the first two of a value, its
//! version. All versions that Kafka 4.4 reads are read; written is what it writes, and one schema
//! of our own beside it.
//!
//! Pure: no I/O, no clock, no randomness.

mod classic;
mod consumer;
mod offset;
mod rewind;

use bytes::Bytes;
use protocol::types::PartitionId;

pub use self::classic::{ClassicMetadata, ClassicMetadataMember};
pub use self::consumer::{
    AssignmentMetadata, AssignmentState, ClassicProtocols, ConsumerMember, ConsumerMetadata,
    CurrentAssignment, OwnedPartitions, Partitions, ResolvedRegex,
};
pub use self::offset::CommittedOffset;
pub use self::rewind::BeforeRewind;
use super::codec::{DecodeResult, Reader, Writer};
use super::event::{GroupId, MemberId};
use crate::coordinator::shard::KeyValue;

/// An offset of a group, in the first schema (read only).
const LEGACY_OFFSET_COMMIT: i16 = 0;
/// An offset of a group.
const OFFSET_COMMIT: i16 = 1;
/// A classic group.
const GROUP_METADATA: i16 = 2;
/// The epoch of a KIP-848 group.
const CONSUMER_GROUP_METADATA: i16 = 3;
/// A member of it.
const CONSUMER_GROUP_MEMBER_METADATA: i16 = 5;
/// The epoch of its target assignment.
const CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA: i16 = 6;
/// What a member shall own.
const CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER: i16 = 7;
/// What a member owns.
const CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT: i16 = 8;
/// The topics that a regular expression stands for.
const CONSUMER_GROUP_REGULAR_EXPRESSION: i16 = 16;
/// Where a group stood before it was rewound: our own ("HW"), far from the numbers that Kafka gives
/// out one after the other. Whoever reads this log knows a record by the number in its key, and
/// leaves out those that it does not know: Kafka's coordinator, kafka-dump-log and Burrow say so in
/// a line and go on.
const BEFORE_REWIND: i16 = 0x4857;

/// One entry of the log; no value is a tombstone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GroupRecord {
    /// An offset of a group.
    Offset {
        /// The group.
        group_id: GroupId,
        /// The topic's name.
        topic: String,
        /// The partition.
        partition: PartitionId,
        /// What is remembered.
        value: Option<CommittedOffset>,
    },
    /// Where the group stood on a partition before the last rewind.
    BeforeRewind {
        /// The group.
        group_id: GroupId,
        /// The topic's name.
        topic: String,
        /// The partition.
        partition: PartitionId,
        /// What was remembered.
        value: Option<BeforeRewind>,
    },
    /// A classic group.
    Classic(GroupId, Option<ClassicMetadata>),
    /// The epoch of a KIP-848 group.
    Consumer(GroupId, Option<ConsumerMetadata>),
    /// A member of it.
    ConsumerMember(GroupId, MemberId, Option<ConsumerMember>),
    /// The epoch of its target assignment.
    TargetMetadata(GroupId, Option<AssignmentMetadata>),
    /// What a member shall own.
    Target(GroupId, MemberId, Option<Partitions>),
    /// What a member owns.
    Current(GroupId, MemberId, Option<CurrentAssignment>),
    /// The topics that a regular expression of the group stands for.
    Regex(GroupId, String, Option<ResolvedRegex>),
}

/// The record in Kafka's bytes.
pub(super) fn encode(record: &GroupRecord) -> KeyValue {
    let (key, value) = match record {
        GroupRecord::Offset { group_id, topic, partition, value } => {
            let key = key_of_place(OFFSET_COMMIT, group_id, topic, *partition);
            (key, value.as_ref().map(CommittedOffset::encode))
        }
        GroupRecord::BeforeRewind { group_id, topic, partition, value } => {
            let key = key_of_place(BEFORE_REWIND, group_id, topic, *partition);
            (key, value.as_ref().map(BeforeRewind::encode))
        }
        GroupRecord::Classic(group_id, value) => {
            (key_of_group(GROUP_METADATA, group_id), value.as_ref().map(ClassicMetadata::encode))
        }
        GroupRecord::Consumer(group_id, value) => {
            let key = key_of_group(CONSUMER_GROUP_METADATA, group_id);
            (key, value.as_ref().map(ConsumerMetadata::encode))
        }
        GroupRecord::ConsumerMember(group_id, member_id, value) => {
            let key = key_of_member(CONSUMER_GROUP_MEMBER_METADATA, group_id, member_id);
            (key, value.as_ref().map(ConsumerMember::encode))
        }
        GroupRecord::TargetMetadata(group_id, value) => {
            let key = key_of_group(CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA, group_id);
            (key, value.as_ref().map(AssignmentMetadata::encode))
        }
        GroupRecord::Target(group_id, member_id, value) => {
            let schema = CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER;
            let key = key_of_member(schema, group_id, member_id);
            (key, value.as_ref().map(consumer::encode_target))
        }
        GroupRecord::Current(group_id, member_id, value) => {
            let schema = CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT;
            let key = key_of_member(schema, group_id, member_id);
            (key, value.as_ref().map(CurrentAssignment::encode))
        }
        GroupRecord::Regex(group_id, regex, value) => {
            let key = key_of_member(CONSUMER_GROUP_REGULAR_EXPRESSION, group_id, regex);
            (key, value.as_ref().map(ResolvedRegex::encode))
        }
    };
    KeyValue { key: key.finish(), value }
}

fn key_of_group(schema: i16, group_id: &str) -> Writer {
    let mut key = Writer::plain(schema);
    key.string(group_id);
    key
}

fn key_of_place(schema: i16, group_id: &str, topic: &str, partition: PartitionId) -> Writer {
    let mut key = key_of_group(schema, group_id);
    key.string(topic);
    key.i32(partition.0);
    key
}

fn key_of_member(schema: i16, group_id: &str, member_id: &str) -> Writer {
    let mut key = key_of_group(schema, group_id);
    key.string(member_id);
    key
}

/// The record behind Kafka's bytes; `None` for the kinds of other group types and later versions.
pub(super) fn decode(record: &KeyValue) -> DecodeResult<Option<GroupRecord>> {
    let key = &mut Reader::plain(&record.key);
    let value = record.value.as_ref();
    let schema = key.i16()?;
    let decoded = match schema {
        LEGACY_OFFSET_COMMIT | OFFSET_COMMIT => GroupRecord::Offset {
            group_id: key.name()?,
            topic: key.string()?,
            partition: PartitionId(key.i32()?),
            value: decoded(value, CommittedOffset::decode)?,
        },
        BEFORE_REWIND => GroupRecord::BeforeRewind {
            group_id: key.name()?,
            topic: key.string()?,
            partition: PartitionId(key.i32()?),
            value: decoded(value, BeforeRewind::decode)?,
        },
        GROUP_METADATA => {
            GroupRecord::Classic(key.name()?, decoded(value, ClassicMetadata::decode)?)
        }
        CONSUMER_GROUP_METADATA => {
            GroupRecord::Consumer(key.name()?, decoded(value, ConsumerMetadata::decode)?)
        }
        CONSUMER_GROUP_MEMBER_METADATA => GroupRecord::ConsumerMember(
            key.name()?,
            key.name()?,
            decoded(value, ConsumerMember::decode)?,
        ),
        CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA => {
            GroupRecord::TargetMetadata(key.name()?, decoded(value, AssignmentMetadata::decode)?)
        }
        CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER => {
            let value = decoded(value, consumer::decode_target)?;
            GroupRecord::Target(key.name()?, key.name()?, value)
        }
        CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT => {
            let value = decoded(value, CurrentAssignment::decode)?;
            GroupRecord::Current(key.name()?, key.name()?, value)
        }
        CONSUMER_GROUP_REGULAR_EXPRESSION => {
            let value = decoded(value, ResolvedRegex::decode)?;
            GroupRecord::Regex(key.name()?, key.string()?, value)
        }
        _ => return Ok(None),
    };
    Ok(Some(decoded))
}

/// A value behind its version.
fn decoded<T>(
    value: Option<&Bytes>,
    decode: impl Fn(i16, &mut Reader<'_>) -> DecodeResult<T>,
) -> DecodeResult<Option<T>> {
    let Some(value) = value else { return Ok(None) };
    let mut reader = Reader::plain(value);
    let version = reader.i16()?;
    decode(version, &mut reader).map(Some)
}

/// Refuses a version that no Kafka up to ours has written.
fn known_version(version: i16, latest: i16) -> DecodeResult<()> {
    match (0..=latest).contains(&version) {
        true => Ok(()),
        false => Err(format!("version {version} of a value, {latest} is the latest known")),
    }
}
