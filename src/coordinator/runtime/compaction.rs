//! Compaction of a shard's own log: its state is appended again, and the log then begins there.
//!
//! The state is written in pieces, so that requests are decided in between. What is written between
//! two pieces must not be overruled by an older value that a later piece holds. So from the moment
//! that the snapshot is taken, the key of every record that the shard appends is remembered, and
//! pieces leave these keys out: what they stand for, a tombstone too, is said by the newer record,
//! which lies behind the snapshot's beginning and therefore stays.
//!
//! That makes every log that a crash can leave behind right:
//! - Before the log start has moved, the whole old log is there. Of each key the last record is
//!   either one appended since, or the piece's copy of the last one before, or that one itself.
//! - Once it has moved (only when all pieces are committed), of each key there is the piece's copy
//!   or a newer record, and nothing else of the old log counted.
//!
//! The log begins with the first append since the snapshot was taken, whether that is a piece or
//! not. This is right for a machine whose state is what the last record of each key says: the same
//! that Kafka's own cleaner asks of the records of these topics.

use std::collections::HashSet;
use std::future::pending;

use bytes::Bytes;
use cluster::AppendError;
use futures::future::BoxFuture;
use protocol::types::Offset;

use super::batch::size_bytes;
use crate::coordinator::shard::{KeyValue, Shard};

/// When a log is compacted, and how.
#[derive(Debug, Clone, Copy)]
pub(super) struct CompactionLimits {
    /// A smaller log is left as it is.
    pub(super) min_log_bytes: u64,
    /// The log is compacted when it is more than this many times as large as the live state.
    pub(super) growth: u64,
    /// Bytes of the records of one piece.
    pub(super) piece_bytes: usize,
}

/// Where the compaction of a shard's log stands.
pub(super) struct Compaction<S: Shard> {
    limits: CompactionLimits,
    /// Bytes of the log since it was compacted last.
    log_bytes: u64,
    /// Bytes of the state when it was compacted last.
    live_bytes: u64,
    state: State<S>,
}

enum State<S: Shard> {
    Idle,
    Writing(Writing<S>),
    /// The log start is on its way to the snapshot's beginning.
    Moving(BoxFuture<'static, Result<(), AppendError>>),
}

struct Writing<S: Shard> {
    left: std::vec::IntoIter<S::Record>,
    /// Keys of records that were appended since the snapshot was taken.
    overruled: HashSet<Bytes>,
    /// Number of the first append since the snapshot was taken, and its offset once it is known.
    first_append: u64,
    first_offset: Option<Offset>,
    /// Number of the piece that is not yet committed.
    awaited: Option<u64>,
    /// Bytes appended since the snapshot was taken.
    log_bytes: u64,
    live_bytes: u64,
}

impl<S: Shard> Compaction<S> {
    pub(super) fn new(limits: CompactionLimits, log_bytes: u64, live_bytes: u64) -> Self {
        Compaction { limits, log_bytes, live_bytes, state: State::Idle }
    }

    /// Whether it is time to take a snapshot.
    pub(super) fn is_due(&self) -> bool {
        matches!(self.state, State::Idle)
            && self.log_bytes > self.limits.min_log_bytes
            && self.log_bytes > self.live_bytes.saturating_mul(self.limits.growth)
    }

    /// Begins, with the state as it is now; `next_append` is the number of the next append.
    pub(super) fn begin(&mut self, snapshot: Vec<S::Record>, next_append: u64) {
        self.state = State::Writing(Writing {
            left: snapshot.into_iter(),
            overruled: HashSet::new(),
            first_append: next_append,
            first_offset: None,
            awaited: None,
            log_bytes: 0,
            live_bytes: 0,
        });
    }

    /// The records of the next piece, if it is time for one.
    pub(super) fn next_piece(&mut self) -> Option<Vec<KeyValue>> {
        let State::Writing(writing) = &mut self.state else { return None };
        if writing.awaited.is_some() {
            return None;
        }
        let mut piece = Vec::new();
        let mut piece_bytes = 0;
        while piece_bytes < self.limits.piece_bytes {
            let Some(record) = writing.left.next() else { break };
            let record = S::encode(&record);
            let record_bytes = size_bytes(&record);
            writing.live_bytes += record_bytes as u64;
            if !writing.overruled.contains(&record.key) {
                piece_bytes += record_bytes;
                piece.push(record);
            }
        }
        (!piece.is_empty()).then_some(piece)
    }

    /// A batch of the machine's own was appended.
    pub(super) fn on_append(&mut self, records: &[KeyValue], batch_bytes: usize) {
        self.log_bytes += batch_bytes as u64;
        if let State::Writing(writing) = &mut self.state {
            writing.log_bytes += batch_bytes as u64;
            writing.overruled.extend(records.iter().map(|record| record.key.clone()));
        }
    }

    /// A piece was appended.
    pub(super) fn on_piece(&mut self, number: u64, batch_bytes: usize) {
        self.log_bytes += batch_bytes as u64;
        if let State::Writing(writing) = &mut self.state {
            writing.log_bytes += batch_bytes as u64;
            writing.awaited = Some(number);
        }
    }

    /// An append is committed.
    pub(super) fn on_committed(&mut self, number: u64, base_offset: Offset) {
        let State::Writing(writing) = &mut self.state else { return };
        if number == writing.first_append {
            writing.first_offset = Some(base_offset);
        }
        writing.awaited.take_if(|awaited| *awaited == number);
    }

    /// Where the log shall begin, once all of the snapshot is committed.
    pub(super) fn new_log_start(&self) -> Option<Offset> {
        let State::Writing(writing) = &self.state else { return None };
        let done = writing.left.as_slice().is_empty() && writing.awaited.is_none();
        writing.first_offset.filter(|_| done)
    }

    /// The log start is being moved. Should that fail, the next snapshot moves it further.
    pub(super) fn on_moving(&mut self, moving: BoxFuture<'static, Result<(), AppendError>>) {
        if let State::Writing(writing) = &self.state {
            self.log_bytes = writing.log_bytes;
            self.live_bytes = writing.live_bytes;
            self.state = State::Moving(moving);
        }
    }

    /// Resolves when the log start was moved; never where it is not being moved.
    pub(super) async fn moved(&mut self) -> Result<(), AppendError> {
        let State::Moving(moving) = &mut self.state else { return pending().await };
        let moved = moving.await;
        self.state = State::Idle;
        moved
    }
}
