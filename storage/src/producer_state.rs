//! What the log knows of its producers: the last five batches of each, for duplicates and sequence
//! gaps, and the transactions that are open (Kafka: `ProducerStateManager`, `ProducerStateEntry`,
//! `ProducerAppendInfo`).
//!
//! Pure: no I/O, no clock, no randomness.

mod codec;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use protocol::record_batch::BatchHeader;
use protocol::types::{Offset, ProducerEpoch, ProducerId, Timestamp};

use crate::StorageError;

/// A producer may have five requests in flight, so a retry is of one of its last five batches
/// (`max.in.flight.requests.per.connection` of an idempotent producer is at most 5).
const RETAINED_BATCHES: usize = 5;

/// The producers of one partition.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProducerState {
    producers: BTreeMap<ProducerId, Producer>,
    /// What the `open_transaction` of all producers says, ordered, so that the oldest is at hand.
    open_transactions: BTreeSet<(Offset, ProducerId)>,
}

/// What a batch is, against what is known of its producer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Append it.
    Accept,
    /// It is in the log already, at these offsets: answer success, append nothing.
    Duplicate {
        /// Offset of its first record.
        base_offset: Offset,
        /// Offset of its last record.
        last_offset: Offset,
        /// Its maximum timestamp.
        timestamp: Timestamp,
    },
    /// Not the next sequence (45).
    OutOfOrderSequence,
    /// An older epoch than the one known (47).
    InvalidProducerEpoch,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Producer {
    epoch: ProducerEpoch,
    /// Timestamp of its last batch or marker: what expiry goes by.
    last_timestamp: Timestamp,
    /// First offset of the transaction it has open.
    open_transaction: Option<Offset>,
    batches: RecentBatches,
}

/// One batch as far as a retry of it needs to be recognised and answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct BatchMetadata {
    first_sequence: i32,
    last_sequence: i32,
    base_offset: Offset,
    last_offset: Offset,
    timestamp: Timestamp,
}

/// The last batches of the current epoch, oldest first. Inline, because a partition may have very
/// many producers that wrote one batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct RecentBatches {
    batches: [BatchMetadata; RETAINED_BATCHES],
    count: usize,
}

impl ProducerState {
    /// Judges a batch; changes nothing. `header.base_offset` is ignored.
    ///
    /// A producer that is not known (expired, or its records were deleted) may start anywhere.
    #[must_use]
    pub fn check(&self, header: &BatchHeader) -> Verdict {
        if !header.producer_id.is_some() {
            return Verdict::Accept;
        }
        let Some(producer) = self.producers.get(&header.producer_id) else {
            return Verdict::Accept;
        };
        let counts_sequences = !header.is_control() && header.base_sequence >= 0;
        if counts_sequences && let Some(batch) = producer.duplicate_of(header) {
            return Verdict::Duplicate {
                base_offset: batch.base_offset,
                last_offset: batch.last_offset,
                timestamp: batch.timestamp,
            };
        }
        if header.producer_epoch < producer.epoch {
            Verdict::InvalidProducerEpoch
        } else if counts_sequences && header.base_sequence != producer.expected_sequence(header) {
            Verdict::OutOfOrderSequence
        } else {
            Verdict::Accept
        }
    }

    /// Takes in an appended batch (offsets placed). Also a batch of another replica's leader.
    ///
    /// Nothing is judged here: the log is right, whatever this state says.
    pub fn replay(&mut self, header: &BatchHeader) {
        if !header.producer_id.is_some() {
            return;
        }
        let producer = self.producers.entry(header.producer_id).or_insert_with(|| Producer {
            epoch: header.producer_epoch,
            last_timestamp: Timestamp::UNKNOWN,
            open_transaction: None,
            batches: RecentBatches::default(),
        });
        if producer.epoch != header.producer_epoch {
            producer.epoch = header.producer_epoch;
            producer.batches = RecentBatches::default();
        }
        producer.last_timestamp = header.max_timestamp;
        if header.is_control() {
            // COMMIT and ABORT alike end the transaction; which it was matters to readers only.
            if let Some(first_offset) = producer.open_transaction.take() {
                self.open_transactions.remove(&(first_offset, header.producer_id));
            }
            return;
        }
        // Offset commits within a transaction carry a producer, and no sequence.
        if header.base_sequence >= 0 {
            producer.batches.push(BatchMetadata {
                first_sequence: header.base_sequence,
                last_sequence: header.last_sequence(),
                base_offset: header.base_offset,
                last_offset: header.last_offset(),
                timestamp: header.max_timestamp,
            });
        }
        if header.is_transactional() && producer.open_transaction.is_none() {
            producer.open_transaction = Some(header.base_offset);
            self.open_transactions.insert((header.base_offset, header.producer_id));
        }
    }

    /// Forgets producers whose last batch is `expiration_ms` old or older. A producer with an open
    /// transaction stays, else its transaction would hold back `first_unstable_offset` unseen.
    pub fn expire(&mut self, now: Timestamp, expiration_ms: i64) {
        self.producers.retain(|_, producer| {
            let age_ms = now.0.saturating_sub(producer.last_timestamp.0);
            producer.open_transaction.is_some() || age_ms < expiration_ms
        });
    }

    /// First offset of the oldest open transaction.
    #[must_use]
    pub fn first_unstable_offset(&self) -> Option<Offset> {
        self.open_transactions.first().map(|(offset, _)| *offset)
    }

    /// The state as bytes, for a snapshot.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        codec::encode(self)
    }

    /// What `encode` wrote.
    ///
    /// # Errors
    /// `Corrupt` for anything that `encode` does not write.
    pub fn decode(bytes: &[u8]) -> Result<ProducerState, StorageError> {
        codec::decode(bytes)
    }

    /// Whether no producer is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.producers.is_empty()
    }

    /// How many producers are known.
    #[must_use]
    pub fn len(&self) -> usize {
        self.producers.len()
    }
}

impl Producer {
    fn duplicate_of(&self, header: &BatchHeader) -> Option<&BatchMetadata> {
        if header.producer_epoch != self.epoch {
            return None;
        }
        let range = (header.base_sequence, header.last_sequence());
        self.batches.iter().find(|batch| (batch.first_sequence, batch.last_sequence) == range)
    }

    /// The sequence that the next batch has to start with: a new epoch counts from 0 again, and so
    /// does an epoch that only a transaction marker has announced.
    fn expected_sequence(&self, header: &BatchHeader) -> i32 {
        match self.batches.last() {
            Some(last) if header.producer_epoch == self.epoch => {
                last.last_sequence.checked_add(1).unwrap_or(0)
            }
            _ => 0,
        }
    }
}

impl RecentBatches {
    fn push(&mut self, batch: BatchMetadata) {
        if self.count == RETAINED_BATCHES {
            self.batches.rotate_left(1);
            self.count -= 1;
        }
        self.batches[self.count] = batch;
        self.count += 1;
    }

    fn iter(&self) -> std::slice::Iter<'_, BatchMetadata> {
        self.batches[..self.count].iter()
    }

    fn last(&self) -> Option<&BatchMetadata> {
        self.batches[..self.count].last()
    }
}
