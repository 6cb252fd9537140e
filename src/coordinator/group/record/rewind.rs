//! Where a group stood on a partition before it was rewound: what undoing takes it back to.
//!
//! One record for each partition, as for the offsets themselves, so that none outgrows a batch, and
//! each stands in one batch with the offset that it was written for.
//!
//! Pure: no I/O, no clock, no randomness.

use bytes::Bytes;
use protocol::types::{LeaderEpoch, Offset, Timestamp};

use super::known_version;
use crate::coordinator::group::codec::{DecodeResult, Reader, Writer};

const VERSION: i16 = 0;
/// No offset was remembered.
const NONE: Offset = Offset(-1);

/// What was remembered of a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BeforeRewind {
    /// The next to be read; `None` where none was remembered.
    pub offset: Option<Offset>,
    /// The epoch of the last that was read, or -1.
    pub leader_epoch: LeaderEpoch,
    /// The client's own words.
    pub metadata: String,
    /// When it was rewound.
    pub rewind_timestamp: Timestamp,
}

impl BeforeRewind {
    pub(super) fn encode(&self) -> Bytes {
        let mut out = Writer::plain(VERSION);
        out.i64(self.offset.unwrap_or(NONE).0);
        out.i32(self.leader_epoch.0);
        out.string(&self.metadata);
        out.i64(self.rewind_timestamp.0);
        out.finish()
    }

    pub(super) fn decode(version: i16, value: &mut Reader<'_>) -> DecodeResult<Self> {
        known_version(version, VERSION)?;
        Ok(BeforeRewind {
            offset: Some(Offset(value.i64()?)).filter(|offset| *offset != NONE),
            leader_epoch: LeaderEpoch(value.i32()?),
            metadata: value.string()?,
            rewind_timestamp: Timestamp(value.i64()?),
        })
    }
}
