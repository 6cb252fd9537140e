//! The records of a batch, one after the other, as slices of its (decompressed) body.
//!
//! ```text
//! length varint | attributes i8 | timestamp_delta varlong | offset_delta varint
//! key_length varint (-1 = null) | key | value_length varint (-1 = null) | value
//! header count varint | { key_length varint | key | value_length varint (-1 = null) | value }
//! ```
//!
//! Pure: no I/O, no clock, no randomness.

use bytes::{Buf, Bytes};

use super::{BatchError, RecordBatch, TimestampType};
use crate::compression;
use crate::types::{Offset, Timestamp};
use crate::varint;

/// One header of a record. Keys may repeat and need not be UTF-8.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordHeader {
    /// Its name.
    pub key: Bytes,
    /// Its value, which may be null.
    pub value: Option<Bytes>,
}

/// One record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Its place in the partition: `base_offset + offset_delta`.
    pub offset: Offset,
    /// Its time: the producer's, or the batch's append time.
    pub timestamp: Timestamp,
    /// Its offset, counted from the batch's.
    pub offset_delta: i32,
    /// Its timestamp, counted from the batch's.
    pub timestamp_delta: i64,
    /// Its key, which may be null.
    pub key: Option<Bytes>,
    /// Its value; null is a tombstone.
    pub value: Option<Bytes>,
    /// Its headers in their order, duplicates kept.
    pub headers: Vec<RecordHeader>,
}

/// Iterator over the records of a batch. Ends after the first error.
#[derive(Debug)]
pub struct Records {
    body: Bytes,
    base_offset: i64,
    base_timestamp: i64,
    append_time: Option<Timestamp>,
    left: usize,
}

impl Records {
    pub(super) fn open(batch: &RecordBatch, limit_bytes: usize) -> Result<Records, BatchError> {
        let header = batch.header();
        let Some(codec) = header.codec() else {
            return Err(BatchError::Compression(format!(
                "attributes {:#06x} name no codec",
                header.attributes
            )));
        };
        let body = compression::decompress(codec, batch.body(), limit_bytes)?;
        let left = usize::try_from(header.record_count)
            .map_err(|_| BatchError::Invalid(format!("{} records", header.record_count)))?;
        let append_time = match header.timestamp_type() {
            TimestampType::CreateTime => None,
            TimestampType::LogAppendTime => Some(header.max_timestamp),
        };
        let base_offset = header.base_offset.0;
        let base_timestamp = header.base_timestamp.0;
        Ok(Records { body, base_offset, base_timestamp, append_time, left })
    }

    /// The records that the header says are still to come.
    #[must_use]
    pub fn left(&self) -> usize {
        self.left
    }

    fn next_record(&mut self) -> Result<Record, BatchError> {
        let length = read_length(&mut self.body, "record length")?
            .ok_or_else(|| invalid("a record's length is negative"))?;
        if length > self.body.len() {
            return Err(invalid("a record is longer than what is left of its batch"));
        }
        let mut rest = self.body.split_to(length);
        if rest.is_empty() {
            return Err(invalid("a record has no attributes"));
        }
        // The attributes of a record are unused in format v2.
        rest.advance(1);
        let timestamp_delta = read_i64(&mut rest, "timestamp delta")?;
        let offset_delta = read_i32(&mut rest, "offset delta")?;
        let key = read_field(&mut rest, "key")?;
        let value = read_field(&mut rest, "value")?;
        let headers = read_headers(&mut rest)?;
        if !rest.is_empty() {
            return Err(invalid("a record's length is more than its fields"));
        }
        let timestamp = self
            .append_time
            .unwrap_or(Timestamp(self.base_timestamp.wrapping_add(timestamp_delta)));
        let offset = Offset(self.base_offset.saturating_add(i64::from(offset_delta)));
        Ok(Record { offset, timestamp, offset_delta, timestamp_delta, key, value, headers })
    }
}

impl Iterator for Records {
    type Item = Result<Record, BatchError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 {
            if self.body.is_empty() {
                return None;
            }
            self.body.clear();
            return Some(Err(invalid("bytes are left behind the last record")));
        }
        let record = self.next_record();
        if record.is_ok() {
            self.left -= 1;
        } else {
            self.left = 0;
            self.body.clear();
        }
        Some(record)
    }
}

fn read_headers(rest: &mut Bytes) -> Result<Vec<RecordHeader>, BatchError> {
    let count = read_length(rest, "header count")?
        .ok_or_else(|| invalid("the header count is negative"))?;
    // The shortest header takes two bytes, so a count beyond that is a lie not worth an allocation.
    if count > rest.len() / 2 {
        return Err(invalid("more headers than the record has room for"));
    }
    let mut headers = Vec::with_capacity(count);
    for _ in 0..count {
        let key =
            read_field(rest, "header key")?.ok_or_else(|| invalid("a header's key is null"))?;
        let value = read_field(rest, "header value")?;
        headers.push(RecordHeader { key, value });
    }
    Ok(headers)
}

/// A length and that many bytes; null where the length is negative, as Kafka reads it.
fn read_field(rest: &mut Bytes, what: &str) -> Result<Option<Bytes>, BatchError> {
    let Some(length) = read_length(rest, what)? else { return Ok(None) };
    if length > rest.len() {
        return Err(invalid(&format!("the {what} is longer than its record")));
    }
    Ok(Some(rest.split_to(length)))
}

fn read_length(rest: &mut Bytes, what: &str) -> Result<Option<usize>, BatchError> {
    Ok(usize::try_from(read_i32(rest, what)?).ok())
}

fn read_i32(rest: &mut Bytes, what: &str) -> Result<i32, BatchError> {
    let (value, len) = varint::read_i32(rest).ok_or_else(|| bad_varint(what))?;
    rest.advance(len);
    Ok(value)
}

fn read_i64(rest: &mut Bytes, what: &str) -> Result<i64, BatchError> {
    let (value, len) = varint::read_i64(rest).ok_or_else(|| bad_varint(what))?;
    rest.advance(len);
    Ok(value)
}

fn invalid(what: &str) -> BatchError {
    BatchError::Invalid(what.to_owned())
}

fn bad_varint(what: &str) -> BatchError {
    BatchError::Invalid(format!("the {what} is cut short or too long"))
}
