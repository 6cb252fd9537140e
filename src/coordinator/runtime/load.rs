//! Replays a partition into the state of a shard: from log start to log end, piece by piece, in a
//! blocking task.

use cluster::ReadError;
use protocol::record_batch::RecordBatch;
use protocol::types::Offset;
use storage::StorageError;

use super::batch::{from_batch, size_bytes};
use super::log::ShardLog;
use crate::coordinator::observer::{ObservedShard, Origin};
use crate::coordinator::shard::Shard;

/// A replay under way, handed from one blocking task to the next.
pub(super) struct Replay<S: Shard> {
    /// What the log says, up to `next`.
    pub(super) hard: S::Hard,
    /// The offset to go on from.
    pub(super) next: Offset,
    /// Bytes of the log so far.
    pub(super) log_bytes: u64,
    /// Records that could not be decoded and were stepped over, and what was wrong with the first.
    pub(super) undecodable: Option<(u64, String)>,
    observed: ObservedShard<S>,
}

impl<S: Shard> Replay<S> {
    pub(super) fn new(start: Offset, observed: ObservedShard<S>) -> Self {
        let hard = S::Hard::default();
        Replay { hard, next: start, log_bytes: 0, undecodable: None, observed }
    }

    /// Takes in some batches. Blocks.
    pub(super) fn piece(mut self, log: &dyn ShardLog, end: Offset) -> Result<Self, ReadError> {
        let mut bytes = log.read(self.next, end)?;
        let before = self.next;
        self.log_bytes += bytes.len() as u64;
        while let Some(batch) = RecordBatch::split_from(&mut bytes).map_err(corrupt)? {
            self.batch(&batch)?;
        }
        if self.next == before {
            let what = format!("nothing can be read at offset {before} below {end}");
            return Err(ReadError::Storage(StorageError::Corrupt(what)));
        }
        Ok(self)
    }

    fn batch(&mut self, batch: &RecordBatch) -> Result<(), ReadError> {
        for (offset, record) in from_batch(batch).map_err(corrupt)? {
            // A batch may begin below the log start.
            if offset < self.next.0 {
                continue;
            }
            match S::decode(&record) {
                Ok(Some(record)) => {
                    S::replay(&mut self.hard, &record);
                    self.observed.on_record(Origin::ReadBack, &record);
                }
                Ok(None) => {}
                // What one record says is lost either way; what the others say need not be.
                Err(why) => {
                    let why = format!("offset {offset}: {why}");
                    self.undecodable.get_or_insert((0, why)).0 += 1;
                }
            }
        }
        self.next = self.next.max(batch.header().next_offset());
        Ok(())
    }

    /// Bytes that the state takes once it is compacted. As dear as compacting, so for the blocking
    /// task.
    pub(super) fn live_bytes(&self) -> u64 {
        let records = S::snapshot(&self.hard);
        records.iter().map(|record| size_bytes(&S::encode(record)) as u64).sum()
    }
}

fn corrupt(error: protocol::record_batch::BatchError) -> ReadError {
    ReadError::Storage(StorageError::Corrupt(error.to_string()))
}
