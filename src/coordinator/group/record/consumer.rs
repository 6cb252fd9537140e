//! What the log says about a KIP-848 group (Kafka: the `ConsumerGroup…Value` schemas).
//!
//! Pure: no I/O, no clock, no randomness.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use protocol::types::{PartitionId, Timestamp, TopicId};

use super::known_version;
use crate::coordinator::group::codec::{DecodeResult, Reader, Writer};
use crate::coordinator::group::event::{Client, JoinProtocol};

const VERSION: i16 = 0;

/// Partitions by topic; no topic without partitions.
pub type Partitions = BTreeMap<TopicId, BTreeSet<PartitionId>>;

/// Partitions that a member owns, each with the epoch in which it got it (KIP-1251): what was read
/// in an earlier one is not taken any more.
pub type OwnedPartitions = BTreeMap<TopicId, BTreeMap<PartitionId, i32>>;

/// The epoch of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsumerMetadata {
    /// Raised by every change of members, subscriptions and topics.
    pub epoch: i32,
    /// Of the subscribed topics at that epoch; 0 where unknown.
    pub metadata_hash: i64,
}

/// A member, as it describes itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ConsumerMember {
    /// Its static name.
    pub instance_id: Option<String>,
    /// Where it runs.
    pub rack_id: Option<String>,
    /// Who it is.
    pub client: Client,
    /// What it wants, by name.
    pub subscribed_topic_names: Vec<String>,
    /// What it wants, by pattern.
    pub subscribed_topic_regex: Option<String>,
    /// How long it may take to revoke.
    pub rebalance_timeout_ms: i32,
    /// The assignor it prefers.
    pub server_assignor: Option<String>,
    /// The classic protocol that it speaks, if it does.
    pub classic: Option<ClassicProtocols>,
}

/// What a member that speaks the classic protocol said as it joined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClassicProtocols {
    /// After how long without a sign of life it is gone.
    pub session_timeout_ms: i32,
    /// Its assignors with its metadata.
    pub protocols: Vec<JoinProtocol>,
}

/// The epoch of a target assignment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AssignmentMetadata {
    /// The group's epoch that it was made for.
    pub epoch: i32,
    /// When it was made; 0 where unknown.
    pub timestamp: Timestamp,
}

/// Where a member is on its way to its target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AssignmentState {
    /// It owns its target, or is to take what was assigned.
    #[default]
    Stable,
    /// It has to give up partitions first.
    UnrevokedPartitions,
    /// It waits for partitions that others have to give up.
    UnreleasedPartitions,
    /// A state of a later Kafka, kept as it is.
    Unknown(i8),
}

/// What a member owns.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CurrentAssignment {
    /// Its epoch.
    pub member_epoch: i32,
    /// The one before, for a member that did not get the last answer.
    pub previous_member_epoch: i32,
    /// Where it is on its way.
    pub state: AssignmentState,
    /// What it may own.
    pub assigned: OwnedPartitions,
    /// What it has to give up, and still owns.
    pub pending_revocation: OwnedPartitions,
}

/// The topics that a regular expression stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResolvedRegex {
    /// Their names.
    pub topics: BTreeSet<String>,
    /// The version of the metadata that they were looked up in.
    pub version: i64,
    /// When that was.
    pub timestamp: Timestamp,
}

impl ConsumerMetadata {
    pub(super) fn encode(&self) -> Bytes {
        let mut out = Writer::flexible(VERSION);
        out.i32(self.epoch);
        match self.metadata_hash {
            0 => out.no_tagged(),
            hash => out.tagged(|field| field.i64(hash)),
        }
        out.finish()
    }

    pub(super) fn decode(version: i16, value: &mut Reader<'_>) -> DecodeResult<Self> {
        flexible(version, value)?;
        let epoch = value.i32()?;
        let metadata_hash = tagged_i64(value)?;
        Ok(ConsumerMetadata { epoch, metadata_hash })
    }
}

impl ConsumerMember {
    pub(super) fn encode(&self) -> Bytes {
        let mut out = Writer::flexible(VERSION);
        out.nullable_string(self.instance_id.as_deref());
        out.nullable_string(self.rack_id.as_deref());
        out.string(&self.client.client_id);
        out.string(&self.client.client_host);
        out.vec(self.subscribed_topic_names.iter(), |out, name| out.string(name));
        out.nullable_string(self.subscribed_topic_regex.as_deref());
        out.i32(self.rebalance_timeout_ms);
        out.nullable_string(self.server_assignor.as_deref());
        match &self.classic {
            None => out.no_tagged(),
            Some(classic) => out.tagged(|field| {
                // A nullable structure is led by a byte that says whether it is there.
                field.i8(1);
                field.i32(classic.session_timeout_ms);
                field.vec(classic.protocols.iter(), |field, protocol| {
                    field.string(&protocol.name);
                    field.bytes(&protocol.metadata);
                    field.no_tagged();
                });
                field.no_tagged();
            }),
        }
        out.finish()
    }

    pub(super) fn decode(version: i16, value: &mut Reader<'_>) -> DecodeResult<Self> {
        flexible(version, value)?;
        let mut member = ConsumerMember {
            instance_id: value.nullable_string()?,
            rack_id: value.nullable_string()?,
            client: Client { client_id: value.string()?, client_host: value.string()? },
            subscribed_topic_names: value.vec(Reader::string)?,
            subscribed_topic_regex: value.nullable_string()?,
            rebalance_timeout_ms: value.i32()?,
            server_assignor: value.nullable_string()?,
            classic: None,
        };
        value.tagged(|tag, field| {
            if tag == 0 && field.i8()? >= 0 {
                member.classic = Some(ClassicProtocols::decode(field)?);
            }
            Ok(())
        })?;
        Ok(member)
    }
}

impl ClassicProtocols {
    fn decode(value: &mut Reader<'_>) -> DecodeResult<Self> {
        let session_timeout_ms = value.i32()?;
        let protocols = value.vec(|value| {
            let protocol = JoinProtocol { name: value.string()?, metadata: value.bytes()? };
            value.no_tagged()?;
            Ok(protocol)
        })?;
        value.no_tagged()?;
        Ok(ClassicProtocols { session_timeout_ms, protocols })
    }
}

impl AssignmentMetadata {
    pub(super) fn encode(&self) -> Bytes {
        let mut out = Writer::flexible(VERSION);
        out.i32(self.epoch);
        match self.timestamp.0 {
            0 => out.no_tagged(),
            timestamp => out.tagged(|field| field.i64(timestamp)),
        }
        out.finish()
    }

    pub(super) fn decode(version: i16, value: &mut Reader<'_>) -> DecodeResult<Self> {
        flexible(version, value)?;
        let epoch = value.i32()?;
        let timestamp = Timestamp(tagged_i64(value)?);
        Ok(AssignmentMetadata { epoch, timestamp })
    }
}

impl AssignmentState {
    fn code(self) -> i8 {
        match self {
            AssignmentState::Stable => 0,
            AssignmentState::UnrevokedPartitions => 1,
            AssignmentState::UnreleasedPartitions => 2,
            AssignmentState::Unknown(code) => code,
        }
    }

    fn from_code(code: i8) -> Self {
        match code {
            0 => AssignmentState::Stable,
            1 => AssignmentState::UnrevokedPartitions,
            2 => AssignmentState::UnreleasedPartitions,
            code => AssignmentState::Unknown(code),
        }
    }
}

impl CurrentAssignment {
    pub(super) fn encode(&self) -> Bytes {
        let mut out = Writer::flexible(VERSION);
        out.i32(self.member_epoch);
        out.i32(self.previous_member_epoch);
        out.i8(self.state.code());
        put_owned(&mut out, &self.assigned);
        put_owned(&mut out, &self.pending_revocation);
        out.no_tagged();
        out.finish()
    }

    pub(super) fn decode(version: i16, value: &mut Reader<'_>) -> DecodeResult<Self> {
        flexible(version, value)?;
        let member_epoch = value.i32()?;
        let decoded = CurrentAssignment {
            member_epoch,
            previous_member_epoch: value.i32()?,
            state: AssignmentState::from_code(value.i8()?),
            assigned: owned(value, member_epoch)?,
            pending_revocation: owned(value, member_epoch)?,
        };
        value.no_tagged()?;
        Ok(decoded)
    }
}

impl ResolvedRegex {
    pub(super) fn encode(&self) -> Bytes {
        let mut out = Writer::flexible(VERSION);
        out.vec(self.topics.iter(), |out, topic| out.string(topic));
        out.i64(self.version);
        out.i64(self.timestamp.0);
        out.no_tagged();
        out.finish()
    }

    pub(super) fn decode(version: i16, value: &mut Reader<'_>) -> DecodeResult<Self> {
        flexible(version, value)?;
        let decoded = ResolvedRegex {
            topics: value.vec(Reader::string)?.into_iter().collect(),
            version: value.i64()?,
            timestamp: Timestamp(value.i64()?),
        };
        value.no_tagged()?;
        Ok(decoded)
    }
}

/// What a member shall own (Kafka: `ConsumerGroupTargetAssignmentMemberValue`).
pub(super) fn encode_target(target: &Partitions) -> Bytes {
    let mut out = Writer::flexible(VERSION);
    put_partitions(&mut out, target);
    out.no_tagged();
    out.finish()
}

pub(super) fn decode_target(version: i16, value: &mut Reader<'_>) -> DecodeResult<Partitions> {
    flexible(version, value)?;
    let target = partitions(value)?;
    value.no_tagged()?;
    Ok(target)
}

fn flexible(version: i16, value: &mut Reader<'_>) -> DecodeResult<()> {
    known_version(version, VERSION)?;
    value.set_flexible(true);
    Ok(())
}

fn tagged_i64(value: &mut Reader<'_>) -> DecodeResult<i64> {
    let mut read = 0;
    value.tagged(|tag, field| {
        if tag == 0 {
            read = field.i64()?;
        }
        Ok(())
    })?;
    Ok(read)
}

fn put_partitions(out: &mut Writer, partitions: &Partitions) {
    out.vec(partitions.iter(), |out, (topic_id, partitions)| {
        out.uuid(topic_id.0);
        out.vec(partitions.iter(), |out, partition| out.i32(partition.0));
        out.no_tagged();
    });
}

fn partitions(value: &mut Reader<'_>) -> DecodeResult<Partitions> {
    let topics = value.vec(|value| {
        let topic_id = TopicId(value.uuid()?);
        let partitions = value.vec(|value| value.i32().map(PartitionId))?;
        value.no_tagged()?;
        Ok((topic_id, BTreeSet::from_iter(partitions)))
    })?;
    Ok(topics.into_iter().filter(|(_, partitions)| !partitions.is_empty()).collect())
}

fn put_owned(out: &mut Writer, owned: &OwnedPartitions) {
    out.vec(owned.iter(), |out, (topic_id, partitions)| {
        out.uuid(topic_id.0);
        out.vec(partitions.keys(), |out, partition| out.i32(partition.0));
        out.tagged(|field| field.vec(partitions.values(), |field, &epoch| field.i32(epoch)));
    });
}

/// Records of before Kafka 4.3 have no epochs: the member's own stands for all.
fn owned(value: &mut Reader<'_>, member_epoch: i32) -> DecodeResult<OwnedPartitions> {
    let topics = value.vec(|value| {
        let topic_id = TopicId(value.uuid()?);
        let partitions = value.vec(|value| value.i32().map(PartitionId))?;
        let mut epochs = None;
        value.tagged(|tag, field| {
            if tag == 0 {
                epochs = field.nullable_vec(Reader::i32)?;
            }
            Ok(())
        })?;
        let epochs = epochs.filter(|epochs| epochs.len() == partitions.len());
        let epochs = epochs.unwrap_or_else(|| vec![member_epoch.max(0); partitions.len()]);
        Ok((topic_id, partitions.into_iter().zip(epochs).collect::<BTreeMap<_, _>>()))
    })?;
    Ok(topics.into_iter().filter(|(_, partitions)| !partitions.is_empty()).collect())
}
