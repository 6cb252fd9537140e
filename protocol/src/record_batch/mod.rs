//! The record batch of message format v2: one header that we read and patch, and a body that we
//! pass on by reference.
//!
//! Pure: no I/O, no clock, no randomness.

use bytes::Bytes;

use crate::types::{LeaderEpoch, Offset, ProducerEpoch, ProducerId, Timestamp};

/// Bytes of a batch's header, from `base_offset` to `record_count`.
pub const HEADER_LEN: usize = 61;
/// Bytes that `batch_length` does not count: `base_offset` and `batch_length` itself.
pub const LENGTH_PREFIX_LEN: usize = 12;

/// Why bytes are not a record batch that a broker may keep.
#[derive(Debug, thiserror::Error, Clone, PartialEq, Eq)]
pub enum BatchError {
    /// Fewer bytes than the header, or than the header says.
    #[error("batch is cut short: {0}")]
    Truncated(String),
    /// `magic` is not 2.
    #[error("unsupported message format (magic {0})")]
    UnsupportedMagic(i8),
    /// CRC-32C of the body does not match.
    #[error("CRC mismatch: header says {stored:#010x}, body gives {computed:#010x}")]
    CrcMismatch {
        /// As the header says.
        stored: u32,
        /// As computed.
        computed: u32,
    },
    /// The header contradicts itself or its records.
    #[error("invalid record batch: {0}")]
    Invalid(String),
    /// The codec's bits name no codec, or the body does not decompress.
    #[error("cannot decompress: {0}")]
    Compression(String),
    /// The decompressed body is larger than the limit.
    #[error("decompressed batch is larger than {limit_bytes} bytes")]
    TooLarge {
        /// The limit.
        limit_bytes: usize,
    },
}

/// The header of a record batch, field by field (Kafka: `DefaultRecordBatch`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchHeader {
    /// Offset of the first record.
    pub base_offset: Offset,
    /// Bytes after this field.
    pub batch_length: i32,
    /// Epoch of the leader that appended it.
    pub partition_leader_epoch: LeaderEpoch,
    /// Always 2 here.
    pub magic: i8,
    /// CRC-32C over everything from `attributes` on.
    pub crc: u32,
    /// Codec, timestamp type, transactional, control, delete horizon.
    pub attributes: i16,
    /// Offset of the last record, counted from `base_offset`.
    pub last_offset_delta: i32,
    /// Timestamp of the first record, or the delete horizon.
    pub base_timestamp: Timestamp,
    /// The largest timestamp of its records, or the append time.
    pub max_timestamp: Timestamp,
    /// The producer, or -1.
    pub producer_id: ProducerId,
    /// Its epoch, or -1.
    pub producer_epoch: ProducerEpoch,
    /// Sequence of the first record, or -1.
    pub base_sequence: i32,
    /// Records in the body; may be fewer than the offsets after compaction.
    pub record_count: i32,
}

/// One batch: a copy of its 61 header bytes, and its body by reference.
#[derive(Debug, Clone)]
pub struct RecordBatch {
    header: BatchHeader,
    head: [u8; HEADER_LEN],
    body: Bytes,
}

// CONTRACT (owner: protocol). The signatures below are what other crates call.
impl BatchHeader {
    /// Reads the header from the first 61 bytes. Checks magic and that the lengths can be true.
    pub fn parse(_bytes: &[u8]) -> Result<BatchHeader, BatchError> {
        todo!()
    }
    /// Bytes of the whole batch.
    pub fn size_in_bytes(&self) -> usize {
        todo!()
    }
    /// `base_offset + last_offset_delta`.
    pub fn last_offset(&self) -> Offset {
        todo!()
    }
    /// `last_offset + 1`.
    pub fn next_offset(&self) -> Offset {
        todo!()
    }
    /// Sequence of the last record, wrapping after `i32::MAX` to 0; -1 without a producer.
    pub fn last_sequence(&self) -> i32 {
        todo!()
    }
    /// Attribute bit 4.
    pub fn is_transactional(&self) -> bool {
        todo!()
    }
    /// Attribute bit 5.
    pub fn is_control(&self) -> bool {
        todo!()
    }
}

impl RecordBatch {
    /// Takes the first batch off `bytes` (no copy of the body, CRC not checked);
    /// `None` when `bytes` is empty.
    pub fn split_from(_bytes: &mut Bytes) -> Result<Option<RecordBatch>, BatchError> {
        todo!()
    }
    /// Puts a batch together from its two parts, as the journal reads them.
    pub fn from_parts(_head: [u8; HEADER_LEN], _body: Bytes) -> Result<RecordBatch, BatchError> {
        todo!()
    }
    /// The header's fields.
    pub fn header(&self) -> &BatchHeader {
        &self.header
    }
    /// The header's bytes, as they go to disk and to consumers.
    pub fn head(&self) -> &[u8; HEADER_LEN] {
        &self.head
    }
    /// Everything behind the header.
    pub fn body(&self) -> &Bytes {
        &self.body
    }
    /// Bytes of the whole batch.
    pub fn size_in_bytes(&self) -> usize {
        HEADER_LEN + self.body.len()
    }
    /// Compares the CRC with what head and body give.
    pub fn verify_crc(&self) -> Result<(), BatchError> {
        todo!()
    }
    /// Gives the batch its place in the log: `base_offset` and `partition_leader_epoch`, both
    /// outside the CRC.
    pub fn place(&mut self, _base_offset: Offset, _leader_epoch: LeaderEpoch) {
        todo!()
    }
    /// Makes it a LogAppendTime batch: attribute bit 3, `max_timestamp`, new CRC.
    pub fn stamp_log_append_time(&mut self, _now: Timestamp) {
        todo!()
    }
    /// Head and body in one buffer: copies, for tests and rare paths.
    pub fn to_bytes(&self) -> Bytes {
        todo!()
    }
}
