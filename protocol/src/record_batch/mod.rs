//! The record batch of message format v2: one header that we read and patch, and a body that we
//! pass on by reference.
//!
//! Pure: no I/O, no clock, no randomness.

mod builder;
mod control;
mod crc;
mod header;
mod records;
mod validate;
mod walk;

use bytes::{Bytes, BytesMut};

pub use builder::BatchBuilder;
pub use control::{ControlKind, EndTxnMarker};
pub use header::{BatchHeader, TimestampType};
pub use records::{Record, RecordHeader, Records};
pub use validate::{
    MAX_RECORD_ERRORS, Validated, ValidationError, ValidationRules, validate_for_append,
};

use crate::types::{LeaderEpoch, Offset, Timestamp};

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

/// One batch: a copy of its 61 header bytes, and its body by reference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordBatch {
    header: BatchHeader,
    head: [u8; HEADER_LEN],
    body: Bytes,
}

impl RecordBatch {
    /// Takes the first batch off `bytes` (no copy of the body, CRC not checked);
    /// `None` when `bytes` is empty. On an error `bytes` is left as it was.
    pub fn split_from(bytes: &mut Bytes) -> Result<Option<RecordBatch>, BatchError> {
        if bytes.is_empty() {
            return Ok(None);
        }
        let header = BatchHeader::parse(bytes)?;
        let size_in_bytes = header.size_in_bytes();
        let Some(whole) = bytes.get(..size_in_bytes) else {
            return Err(BatchError::Truncated(format!(
                "the header says {size_in_bytes} bytes, {} are there",
                bytes.len()
            )));
        };
        let mut head = [0; HEADER_LEN];
        head.copy_from_slice(&whole[..HEADER_LEN]);
        let body = bytes.split_to(size_in_bytes).slice(HEADER_LEN..);
        Ok(Some(RecordBatch { header, head, body }))
    }

    /// Puts a batch together from its two parts, as the journal reads them.
    pub fn from_parts(head: [u8; HEADER_LEN], body: Bytes) -> Result<RecordBatch, BatchError> {
        let header = BatchHeader::parse(&head)?;
        if header.size_in_bytes() != HEADER_LEN + body.len() {
            return Err(BatchError::Truncated(format!(
                "the header says {} bytes, {} are there",
                header.size_in_bytes(),
                HEADER_LEN + body.len()
            )));
        }
        Ok(RecordBatch { header, head, body })
    }

    /// A batch around `body` whose length and CRC fields are set from what is there.
    fn seal(mut header: BatchHeader, body: Bytes) -> Result<RecordBatch, BatchError> {
        let batch_length = HEADER_LEN - LENGTH_PREFIX_LEN + body.len();
        header.batch_length = i32::try_from(batch_length)
            .map_err(|_| BatchError::TooLarge { limit_bytes: i32::MAX as usize })?;
        let head = header.encode();
        let mut batch = RecordBatch { header, head, body };
        batch.renew_crc();
        Ok(batch)
    }

    /// The header's fields.
    #[must_use]
    pub fn header(&self) -> &BatchHeader {
        &self.header
    }

    /// The header's bytes, as they go to disk and to consumers.
    #[must_use]
    pub fn head(&self) -> &[u8; HEADER_LEN] {
        &self.head
    }

    /// Everything behind the header.
    #[must_use]
    pub fn body(&self) -> &Bytes {
        &self.body
    }

    /// Bytes of the whole batch.
    #[must_use]
    pub fn size_in_bytes(&self) -> usize {
        HEADER_LEN + self.body.len()
    }

    /// Compares the CRC with what head and body give.
    pub fn verify_crc(&self) -> Result<(), BatchError> {
        let stored = self.header.crc;
        let computed = crc::of_batch(&self.head, &self.body);
        if stored == computed { Ok(()) } else { Err(BatchError::CrcMismatch { stored, computed }) }
    }

    /// Gives the batch its place in the log: `base_offset` and `partition_leader_epoch`, both
    /// outside the CRC.
    pub fn place(&mut self, base_offset: Offset, leader_epoch: LeaderEpoch) {
        self.header.base_offset = base_offset;
        self.header.partition_leader_epoch = leader_epoch;
        self.head = self.header.encode();
    }

    /// Makes it a LogAppendTime batch: attribute bit 3, `max_timestamp`, new CRC.
    pub fn stamp_log_append_time(&mut self, now: Timestamp) {
        self.set_max_timestamp(TimestampType::LogAppendTime, now);
    }

    /// Sets attribute bit 3 and `max_timestamp`, and the CRC if that changes anything.
    pub fn set_max_timestamp(&mut self, timestamp_type: TimestampType, max: Timestamp) {
        if self.header.timestamp_type() == timestamp_type && self.header.max_timestamp == max {
            return;
        }
        self.header.set_timestamp_type(timestamp_type);
        self.header.max_timestamp = max;
        self.head = self.header.encode();
        self.renew_crc();
    }

    fn renew_crc(&mut self) {
        self.header.crc = crc::of_batch(&self.head, &self.body);
        self.head = self.header.encode();
    }

    /// Iterates over the records, decompressing the body into at most `limit_bytes`.
    ///
    /// The CRC is not checked here; damage shows as an error of the iterator, never as a panic.
    pub fn records(&self, limit_bytes: usize) -> Result<Records, BatchError> {
        Records::open(self, limit_bytes)
    }

    /// Offset and timestamp of the first record at or behind `offset`. Walks the body in place and
    /// keeps nothing of it; what lies behind that record is not decompressed, and no more than
    /// `limit_bytes` before it.
    pub fn first_record_from(
        &self,
        offset: Offset,
        limit_bytes: usize,
    ) -> Result<Option<(Offset, Timestamp)>, BatchError> {
        walk::first_record_from(self, offset, limit_bytes)
    }

    /// Head and body in one buffer: copies, for tests and rare paths.
    #[must_use]
    pub fn to_bytes(&self) -> Bytes {
        let mut bytes = BytesMut::with_capacity(self.size_in_bytes());
        bytes.extend_from_slice(&self.head);
        bytes.extend_from_slice(&self.body);
        bytes.freeze()
    }
}

#[cfg(test)]
mod tests;
