//! A remembered offset (Kafka: `OffsetCommitValue`).
//!
//! Pure: no I/O, no clock, no randomness.

use bytes::Bytes;
use protocol::types::{LeaderEpoch, Offset, Timestamp, TopicId};

use super::known_version;
use crate::coordinator::group::codec::{DecodeResult, Reader, Writer};

/// The version that is written, and the one that has an expiry.
const VERSION: i16 = 3;
const VERSION_WITH_EXPIRY: i16 = 1;
const FIRST_FLEXIBLE: i16 = 4;
const LATEST: i16 = 4;

/// A remembered offset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommittedOffset {
    /// The next to be read.
    pub offset: Offset,
    /// The epoch of the last that was read, or -1.
    pub leader_epoch: LeaderEpoch,
    /// The client's own words.
    pub metadata: String,
    /// When it was committed.
    pub commit_timestamp: Timestamp,
    /// When it goes, where the client said so (OffsetCommit v2–4).
    pub expire_timestamp: Option<Timestamp>,
}

impl CommittedOffset {
    pub(super) fn encode(&self) -> Bytes {
        let version = match self.expire_timestamp {
            Some(_) => VERSION_WITH_EXPIRY,
            None => VERSION,
        };
        let mut out = Writer::plain(version);
        out.i64(self.offset.0);
        if version >= 3 {
            out.i32(self.leader_epoch.0);
        }
        out.string(&self.metadata);
        out.i64(self.commit_timestamp.0);
        if let Some(timestamp) = self.expire_timestamp {
            out.i64(timestamp.0);
        }
        out.finish()
    }

    pub(super) fn decode(version: i16, value: &mut Reader<'_>) -> DecodeResult<Self> {
        known_version(version, LATEST)?;
        value.set_flexible(version >= FIRST_FLEXIBLE);
        let decoded = CommittedOffset {
            offset: Offset(value.i64()?),
            leader_epoch: LeaderEpoch(if version >= 3 { value.i32()? } else { -1 }),
            metadata: value.string()?,
            commit_timestamp: Timestamp(value.i64()?),
            expire_timestamp: match version {
                1 => Some(Timestamp(value.i64()?)).filter(|&at| at != Timestamp::UNKNOWN),
                _ => None,
            },
        };
        // The topic's id is there from Kafka 4.1 on; offsets go by name.
        value.tagged(|tag, field| match tag {
            0 => field.uuid().map(TopicId).map(drop),
            _ => Ok(()),
        })?;
        Ok(decoded)
    }
}
