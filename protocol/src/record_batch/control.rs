//! Control records: the COMMIT and ABORT markers that end a transaction in a partition.
//!
//! Pure: no I/O, no clock, no randomness.

use nom::number::complete::{be_i16, be_i32};
use nom::{IResult, Parser};

use super::{BatchBuilder, BatchError, Record, RecordBatch};
use crate::types::{ProducerEpoch, ProducerId, Timestamp};

/// What a control record says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ControlKind {
    /// The transaction is aborted: readers of committed data skip its records.
    Abort,
    /// The transaction is committed.
    Commit,
    /// One of the kinds that only a KRaft controller writes, or a later one.
    Other(i16),
}

impl ControlKind {
    fn id(self) -> i16 {
        match self {
            ControlKind::Abort => 0,
            ControlKind::Commit => 1,
            ControlKind::Other(id) => id,
        }
    }

    fn from_id(id: i16) -> Self {
        match id {
            0 => ControlKind::Abort,
            1 => ControlKind::Commit,
            other => ControlKind::Other(other),
        }
    }
}

/// The end of a transaction in one partition (Kafka: `EndTransactionMarker`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndTxnMarker {
    /// Commit or abort.
    pub kind: ControlKind,
    /// The epoch of the transaction coordinator that wrote it; -1 where unreadable.
    pub coordinator_epoch: i32,
}

impl EndTxnMarker {
    /// The control batch that says so: one record, which takes one offset.
    pub fn to_batch(
        self,
        producer_id: ProducerId,
        producer_epoch: ProducerEpoch,
        now: Timestamp,
    ) -> Result<RecordBatch, BatchError> {
        let mut key = [0; 4];
        key[2..].copy_from_slice(&self.kind.id().to_be_bytes());
        let mut value = [0; 6];
        value[2..].copy_from_slice(&self.coordinator_epoch.to_be_bytes());
        BatchBuilder::new()
            .producer(producer_id, producer_epoch, -1)
            .transactional(true)
            .control(true)
            .record(now, Some(&key), Some(&value))
            .build()
    }

    /// Reads the marker out of a control batch. Kinds other than commit and abort have no
    /// coordinator epoch.
    pub fn from_batch(batch: &RecordBatch) -> Result<EndTxnMarker, BatchError> {
        if !batch.header().is_control() {
            return Err(BatchError::Invalid("not a control batch".to_owned()));
        }
        // A marker takes some 20 bytes; a larger one is not worth reading.
        let record = batch.records(4096)?.next().unwrap_or_else(|| {
            Err(BatchError::Invalid("a control batch without a record".to_owned()))
        })?;
        Self::from_record(&record)
    }

    fn from_record(record: &Record) -> Result<EndTxnMarker, BatchError> {
        let unreadable = |what: &str| BatchError::Invalid(format!("a control record's {what}"));
        let key = record.key.as_deref().unwrap_or_default();
        let (_, (version, id)) = key_fields(key).map_err(|_| unreadable("key is too short"))?;
        if version < 0 {
            return Err(unreadable("key has a negative version"));
        }
        let kind = ControlKind::from_id(id);
        if let ControlKind::Other(_) = kind {
            return Ok(EndTxnMarker { kind, coordinator_epoch: -1 });
        }
        let value = record.value.as_deref().unwrap_or_default();
        let (_, (version, coordinator_epoch)) =
            value_fields(value).map_err(|_| unreadable("value is too short"))?;
        if version < 0 {
            return Err(unreadable("value has a negative version"));
        }
        Ok(EndTxnMarker { kind, coordinator_epoch })
    }
}

fn key_fields(input: &[u8]) -> IResult<&[u8], (i16, i16)> {
    (be_i16, be_i16).parse(input)
}

fn value_fields(input: &[u8]) -> IResult<&[u8], (i16, i32)> {
    (be_i16, be_i32).parse(input)
}
