//! How fast a log grows, in records and in bytes, from looks at its end.
//!
//! Pure: no I/O, no clock, no randomness.
//!
//! Two looks are kept, half a minute or more apart; a rate is taken from the older one to now. So
//! it spans 30 to 60 seconds while someone looks, and the whole time since the last look where
//! nobody has, at the price of two numbers each.

use protocol::types::Offset;

use crate::coordinator::shard::Steady;

/// Looks this far apart are worth keeping both.
const DISTANCE_MS: i64 = 30_000;
/// A rate over less time than this is noise.
const SHORTEST_MS: i64 = 1_000;

/// A log's end at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    /// When.
    pub at: Steady,
    /// The offset that was next.
    pub end_offset: Offset,
    /// Bytes of records ever appended.
    pub end_position: u64,
}

/// What grew in a second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rates {
    /// Records, by their offsets.
    pub records: f64,
    /// Bytes.
    pub bytes: f64,
}

/// The looks that are kept.
#[derive(Debug, Clone, Copy, Default)]
pub struct Growth {
    older: Option<Look>,
    newer: Option<Look>,
}

impl Growth {
    /// Takes a look in.
    pub fn look(&mut self, look: Look) {
        let went_back = self.newer.is_some_and(|newer| look.end_offset < newer.end_offset);
        match self.newer {
            // A log that became shorter is another log: a topic of the same name, made anew.
            _ if went_back => (self.older, self.newer) = (Some(look), Some(look)),
            Some(newer) if look.at.0 - newer.at.0 < DISTANCE_MS => {}
            newer => (self.older, self.newer) = (newer.or(Some(look)), Some(look)),
        }
    }

    /// The rates up to `now`; `None` while the log was not watched for a second.
    #[must_use]
    pub fn rates(&self, now: Look) -> Option<Rates> {
        let older = self.older?;
        let elapsed_ms = now.at.0 - older.at.0;
        if elapsed_ms < SHORTEST_MS {
            return None;
        }
        let seconds = elapsed_ms as f64 / 1_000.0;
        let records = (now.end_offset.0 - older.end_offset.0).max(0);
        let bytes = now.end_position.saturating_sub(older.end_position);
        Some(Rates { records: records as f64 / seconds, bytes: bytes as f64 / seconds })
    }
}
