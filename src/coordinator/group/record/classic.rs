//! A classic group (Kafka: `GroupMetadataValue`).
//!
//! Pure: no I/O, no clock, no randomness.

use bytes::Bytes;
use protocol::types::Timestamp;

use super::known_version;
use crate::coordinator::group::codec::{DecodeResult, Reader, Writer};
use crate::coordinator::group::event::{Client, MemberId};

const VERSION: i16 = 3;
const FIRST_FLEXIBLE: i16 = 4;
const LATEST: i16 = 4;

/// A classic group as of its last generation.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClassicMetadata {
    /// `consumer`, or what Connect and others say; empty where unknown.
    pub protocol_type: String,
    /// The generation.
    pub generation_id: i32,
    /// The chosen assignor.
    pub protocol_name: Option<String>,
    /// The leader.
    pub leader: Option<MemberId>,
    /// Since when the group has been in its state; `None` in old records.
    pub state_timestamp: Option<Timestamp>,
    /// The members.
    pub members: Vec<ClassicMetadataMember>,
}

/// A member of a classic group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClassicMetadataMember {
    /// Its id.
    pub member_id: MemberId,
    /// Its static name.
    pub group_instance_id: Option<String>,
    /// Who it is.
    pub client: Client,
    /// How long it may take to rejoin.
    pub rebalance_timeout_ms: i32,
    /// After how long without a sign of life it is gone.
    pub session_timeout_ms: i32,
    /// What it wants, for the chosen assignor.
    pub subscription: Bytes,
    /// What it got.
    pub assignment: Bytes,
}

impl ClassicMetadata {
    /// Roughly the bytes that it takes in the log.
    pub(crate) fn size_bytes(&self) -> usize {
        let text = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        let members = self.members.iter().map(|member| {
            let names = member.member_id.len() + text(&member.group_instance_id);
            let client = member.client.client_id.len() + member.client.client_host.len();
            names + client + member.subscription.len() + member.assignment.len() + 32
        });
        members.sum()
    }

    pub(super) fn encode(&self) -> Bytes {
        let mut out = Writer::plain(VERSION);
        out.string(&self.protocol_type);
        out.i32(self.generation_id);
        out.nullable_string(self.protocol_name.as_deref());
        out.nullable_string(self.leader.as_deref());
        out.i64(self.state_timestamp.unwrap_or(Timestamp::UNKNOWN).0);
        out.vec(self.members.iter(), |out, member| {
            out.string(&member.member_id);
            out.nullable_string(member.group_instance_id.as_deref());
            out.string(&member.client.client_id);
            out.string(&member.client.client_host);
            out.i32(member.rebalance_timeout_ms);
            out.i32(member.session_timeout_ms);
            out.bytes(&member.subscription);
            out.bytes(&member.assignment);
        });
        out.finish()
    }

    pub(super) fn decode(version: i16, value: &mut Reader<'_>) -> DecodeResult<Self> {
        known_version(version, LATEST)?;
        value.set_flexible(version >= FIRST_FLEXIBLE);
        let decoded = ClassicMetadata {
            protocol_type: value.string()?,
            generation_id: value.i32()?,
            protocol_name: value.nullable_string()?,
            leader: value.nullable_string()?.map(MemberId::from),
            state_timestamp: match version {
                ..2 => None,
                _ => Some(Timestamp(value.i64()?)).filter(|&at| at != Timestamp::UNKNOWN),
            },
            members: value.vec(|value| ClassicMetadataMember::decode(version, value))?,
        };
        value.no_tagged()?;
        Ok(decoded)
    }
}

impl ClassicMetadataMember {
    fn decode(version: i16, value: &mut Reader<'_>) -> DecodeResult<Self> {
        let member_id = value.name()?;
        let group_instance_id = if version >= 3 { value.nullable_string()? } else { None };
        let client = Client { client_id: value.string()?, client_host: value.string()? };
        let rebalance_timeout_ms = if version >= 1 { value.i32()? } else { -1 };
        let session_timeout_ms = value.i32()?;
        let (subscription, assignment) = (value.bytes()?, value.bytes()?);
        value.no_tagged()?;
        Ok(ClassicMetadataMember {
            member_id,
            group_instance_id,
            client,
            rebalance_timeout_ms: match rebalance_timeout_ms {
                -1 => session_timeout_ms,
                timeout => timeout,
            },
            session_timeout_ms,
            subscription,
            assignment,
        })
    }
}
