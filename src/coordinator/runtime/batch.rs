//! Between records in key and value bytes and the batches of the log.

use protocol::compression::Codec;
use protocol::record_batch::{BatchBuilder, BatchError, RecordBatch};
use protocol::types::Timestamp;

use crate::coordinator::shard::KeyValue;
use crate::limits::COORDINATOR_BATCH_BYTES;

/// One batch of these records: all of them or none.
pub(super) fn to_batch(
    records: &[KeyValue],
    timestamp: Timestamp,
    codec: Codec,
) -> Result<RecordBatch, BatchError> {
    let add = |builder: BatchBuilder, record: &KeyValue| {
        builder.record(timestamp, Some(&record.key), record.value.as_deref())
    };
    records.iter().fold(BatchBuilder::new().codec(codec), add).build()
}

/// The records of a batch, with the offset of each; nothing of a control batch, which is not for
/// the machine.
pub(super) fn from_batch(batch: &RecordBatch) -> Result<Vec<(i64, KeyValue)>, BatchError> {
    batch.verify_crc()?;
    if batch.header().is_control() {
        return Ok(Vec::new());
    }
    let key_value = |record: Result<protocol::record_batch::Record, BatchError>| {
        let record = record?;
        let key = record.key.unwrap_or_default();
        Ok((record.offset.0, KeyValue { key, value: record.value }))
    };
    batch.records(COORDINATOR_BATCH_BYTES)?.map(key_value).collect()
}

/// Bytes that a record takes in a log, about.
pub(super) fn size_bytes(record: &KeyValue) -> usize {
    const FRAMING_BYTES: usize = 16;
    record.key.len() + record.value.as_ref().map_or(0, bytes::Bytes::len) + FRAMING_BYTES
}
