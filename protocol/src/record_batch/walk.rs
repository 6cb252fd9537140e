//! A walk over the records of a body that looks at lengths, deltas and whether there is a key, and
//! keeps nothing: what validation costs for every batch.
//!
//! Works on a slice and on a stream being decompressed, of which it holds one buffer at a time: a
//! record that lies in one is read there, a longer one piece by piece.
//!
//! Pure: no I/O, no clock, no randomness.

use std::io::BufRead;

use super::{BatchError, RecordBatch, TimestampType};
use crate::compression::{self, Codec};
use crate::types::{Offset, Timestamp};
use crate::varint;

/// Bytes of the longest varint.
const MAX_VARINT_LEN: usize = 10;

/// What the walk sees of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WalkedRecord {
    pub timestamp_delta: i64,
    pub offset_delta: i32,
    pub has_key: bool,
}

/// Where numbers and bytes to skip come from: one whole record in memory, or a stream.
trait Source {
    fn number(&mut self) -> Result<i64, BatchError>;
    fn skip(&mut self, len: u64) -> Result<(), BatchError>;

    /// A length; `None` where it says null.
    fn length(&mut self) -> Result<Option<u64>, BatchError> {
        Ok(u64::try_from(to_i32(self.number()?)?).ok())
    }

    /// Skips a length and that many bytes; whether they were there, for the length may say null.
    fn skip_field(&mut self) -> Result<bool, BatchError> {
        match self.length()? {
            Some(length) => self.skip(length).map(|()| true),
            None => Ok(false),
        }
    }

    /// Skips what follows a record's length, for a look at it.
    fn skip_record(&mut self) -> Result<WalkedRecord, BatchError> {
        self.skip(1)?;
        let timestamp_delta = self.number()?;
        let offset_delta = to_i32(self.number()?)?;
        let has_key = self.skip_field()?;
        self.skip_field()?;
        let header_count = self.length()?.ok_or_else(|| invalid("the header count is negative"))?;
        for _ in 0..header_count {
            if !self.skip_field()? {
                return Err(invalid("a header's key is null"));
            }
            self.skip_field()?;
        }
        Ok(WalkedRecord { timestamp_delta, offset_delta, has_key })
    }
}

impl Source for &[u8] {
    #[inline]
    fn number(&mut self) -> Result<i64, BatchError> {
        let (value, len) = varint::read_i64(self).ok_or_else(cut_short)?;
        *self = &self[len..];
        Ok(value)
    }

    #[inline]
    fn skip(&mut self, len: u64) -> Result<(), BatchError> {
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        *self = self.get(len..).ok_or_else(cut_short)?;
        Ok(())
    }
}

/// See [`RecordBatch::first_record_from`].
pub(super) fn first_record_from(
    batch: &RecordBatch,
    offset: Offset,
    limit_bytes: usize,
) -> Result<Option<(Offset, Timestamp)>, BatchError> {
    match batch.header().codec() {
        Some(Codec::None) => walk_to(Walk::new(&batch.body()[..], limit_bytes), batch, offset),
        Some(codec) => {
            let stream = compression::stream(codec, batch.body(), limit_bytes)?;
            walk_to(Walk::new(stream, limit_bytes), batch, offset)
        }
        None => Err(BatchError::Compression("the attributes name no codec".to_owned())),
    }
}

fn walk_to<R: BufRead>(
    mut walk: Walk<R>,
    batch: &RecordBatch,
    offset: Offset,
) -> Result<Option<(Offset, Timestamp)>, BatchError> {
    let header = batch.header();
    for _ in 0..header.record_count {
        let record = walk.step()?;
        let at = Offset(header.base_offset.0.saturating_add(i64::from(record.offset_delta)));
        if at < offset {
            continue;
        }
        let timestamp = match header.timestamp_type() {
            TimestampType::CreateTime => {
                Timestamp(header.base_timestamp.0.wrapping_add(record.timestamp_delta))
            }
            TimestampType::LogAppendTime => header.max_timestamp,
        };
        return Ok(Some((at, timestamp)));
    }
    Ok(None)
}

/// The place in a body. See `records.rs` for how a record looks.
pub(super) struct Walk<R> {
    reader: R,
    taken_bytes: u64,
    limit_bytes: u64,
}

impl<R: BufRead> Walk<R> {
    /// Starts at the first record; gives up when more than `limit_bytes` were read.
    pub(super) fn new(reader: R, limit_bytes: usize) -> Self {
        Self { reader, taken_bytes: 0, limit_bytes: limit_bytes as u64 }
    }

    /// Steps over one record.
    pub(super) fn step(&mut self) -> Result<WalkedRecord, BatchError> {
        let length = self.length()?.ok_or_else(|| invalid("a record's length is negative"))?;
        let length_here = usize::try_from(length).unwrap_or(usize::MAX);
        if let Some(mut record) = self.fill()?.get(..length_here) {
            let walked = record.skip_record()?;
            let is_whole = record.is_empty();
            self.take(length_here)?;
            return if is_whole { Ok(walked) } else { Err(wrong_length()) };
        }
        let end = self.taken_bytes + length;
        let walked = self.skip_record()?;
        if self.taken_bytes == end { Ok(walked) } else { Err(wrong_length()) }
    }

    /// Whether nothing is left behind the last record.
    pub(super) fn is_at_end(&mut self) -> Result<bool, BatchError> {
        Ok(self.fill()?.is_empty())
    }

    fn fill(&mut self) -> Result<&[u8], BatchError> {
        self.reader.fill_buf().map_err(|error| BatchError::Compression(error.to_string()))
    }

    fn take(&mut self, len: usize) -> Result<(), BatchError> {
        self.reader.consume(len);
        self.taken_bytes += len as u64;
        if self.taken_bytes > self.limit_bytes {
            let limit_bytes = usize::try_from(self.limit_bytes).unwrap_or(usize::MAX);
            return Err(BatchError::TooLarge { limit_bytes });
        }
        Ok(())
    }

    /// The slow way, where a number lies across the end of a buffer.
    #[cold]
    fn number_across_buffers(&mut self) -> Result<i64, BatchError> {
        let mut bytes = [0; MAX_VARINT_LEN];
        for place in &mut bytes {
            let Some(&byte) = self.fill()?.first() else { return Err(cut_short()) };
            self.take(1)?;
            *place = byte;
            if byte & 0x80 == 0 {
                break;
            }
        }
        varint::read_i64(&bytes)
            .map(|(value, _)| value)
            .ok_or_else(|| invalid("a number is too long"))
    }
}

impl<R: BufRead> Source for Walk<R> {
    fn number(&mut self) -> Result<i64, BatchError> {
        if let Some((value, len)) = varint::read_i64(self.fill()?) {
            self.take(len)?;
            return Ok(value);
        }
        self.number_across_buffers()
    }

    fn skip(&mut self, mut len: u64) -> Result<(), BatchError> {
        while len > 0 {
            let there = self.fill()?.len();
            if there == 0 {
                return Err(cut_short());
            }
            let step = there.min(usize::try_from(len).unwrap_or(usize::MAX));
            self.take(step)?;
            len -= step as u64;
        }
        Ok(())
    }
}

fn to_i32(number: i64) -> Result<i32, BatchError> {
    i32::try_from(number).map_err(|_| invalid("a number does not fit its field"))
}

fn wrong_length() -> BatchError {
    invalid("a record's length is not that of its fields")
}

fn invalid(what: &str) -> BatchError {
    BatchError::Invalid(what.to_owned())
}

fn cut_short() -> BatchError {
    invalid("the records end before their count")
}
