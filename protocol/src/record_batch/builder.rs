//! Builds batches: for internal topics, tests and benches. Client batches are never rebuilt here
//! unless the topic asks for another codec.
//!
//! Pure: no I/O, no clock, no randomness.

use bytes::{BufMut, BytesMut};

use super::header::{CONTROL_BIT, MAGIC, TRANSACTIONAL_BIT};
use super::{BatchError, BatchHeader, Record, RecordBatch, TimestampType};
use crate::compression::{self, Codec};
use crate::types::{LeaderEpoch, Offset, ProducerEpoch, ProducerId, Timestamp};
use crate::varint;

/// Collects records and seals them into one [`RecordBatch`].
///
/// ```
/// use protocol::compression::Codec;
/// use protocol::record_batch::BatchBuilder;
/// use protocol::types::Timestamp;
///
/// let batch = BatchBuilder::new()
///     .codec(Codec::Lz4)
///     .record(Timestamp(1_000), Some(b"key"), Some(b"value"))
///     .record_with_headers(Timestamp(1_001), None, Some(b"v"), &[("trace", Some(b"1"))])
///     .build()
///     .unwrap();
/// assert_eq!(batch.header().record_count, 2);
/// ```
#[derive(Debug, Clone)]
pub struct BatchBuilder {
    header: BatchHeader,
    codec: Codec,
    next_offset_delta: i32,
    body: BytesMut,
}

impl Default for BatchBuilder {
    fn default() -> Self {
        Self::new()
    }
}

impl BatchBuilder {
    /// An empty, uncompressed batch at offset 0 without a producer.
    #[must_use]
    pub fn new() -> Self {
        let header = BatchHeader {
            base_offset: Offset::ZERO,
            batch_length: 0,
            partition_leader_epoch: LeaderEpoch::UNKNOWN,
            magic: MAGIC,
            crc: 0,
            attributes: 0,
            last_offset_delta: 0,
            base_timestamp: Timestamp::UNKNOWN,
            max_timestamp: Timestamp::UNKNOWN,
            producer_id: ProducerId::NONE,
            producer_epoch: ProducerEpoch::NONE,
            base_sequence: -1,
            record_count: 0,
        };
        Self { header, codec: Codec::None, next_offset_delta: 0, body: BytesMut::new() }
    }

    /// A builder that keeps everything of `header` that does not follow from the records: offsets,
    /// leader epoch, producer, transactional and control bits.
    #[must_use]
    pub fn like(header: &BatchHeader) -> Self {
        let mut builder = Self::new();
        builder.header.base_offset = header.base_offset;
        builder.header.partition_leader_epoch = header.partition_leader_epoch;
        builder.header.attributes = header.attributes & (TRANSACTIONAL_BIT | CONTROL_BIT);
        builder.header.producer_id = header.producer_id;
        builder.header.producer_epoch = header.producer_epoch;
        builder.header.base_sequence = header.base_sequence;
        builder
    }

    /// How the body is compressed.
    #[must_use]
    pub fn codec(mut self, codec: Codec) -> Self {
        self.codec = codec;
        self
    }

    /// Where the batch begins.
    #[must_use]
    pub fn base_offset(mut self, base_offset: Offset) -> Self {
        self.header.base_offset = base_offset;
        self
    }

    /// Which leader appended it.
    #[must_use]
    pub fn leader_epoch(mut self, leader_epoch: LeaderEpoch) -> Self {
        self.header.partition_leader_epoch = leader_epoch;
        self
    }

    /// Whose clock its timestamps are from.
    #[must_use]
    pub fn timestamp_type(mut self, timestamp_type: TimestampType) -> Self {
        self.header.set_timestamp_type(timestamp_type);
        self
    }

    /// The idempotent producer that sends it.
    #[must_use]
    pub fn producer(mut self, id: ProducerId, epoch: ProducerEpoch, base_sequence: i32) -> Self {
        self.header.producer_id = id;
        self.header.producer_epoch = epoch;
        self.header.base_sequence = base_sequence;
        self
    }

    /// Whether it belongs to a transaction.
    #[must_use]
    pub fn transactional(mut self, yes: bool) -> Self {
        self.set_bit(TRANSACTIONAL_BIT, yes);
        self
    }

    /// Whether its records are for the broker and the client library, not for the application.
    #[must_use]
    pub fn control(mut self, yes: bool) -> Self {
        self.set_bit(CONTROL_BIT, yes);
        self
    }

    fn set_bit(&mut self, bit: i16, yes: bool) {
        if yes {
            self.header.attributes |= bit;
        } else {
            self.header.attributes &= !bit;
        }
    }

    /// Adds a record behind the last one.
    #[must_use]
    pub fn record(self, timestamp: Timestamp, key: Option<&[u8]>, value: Option<&[u8]>) -> Self {
        self.record_with_headers(timestamp, key, value, &[])
    }

    /// Adds a record with headers behind the last one.
    #[must_use]
    pub fn record_with_headers(
        mut self,
        timestamp: Timestamp,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: &[(&str, Option<&[u8]>)],
    ) -> Self {
        let headers = headers.iter().map(|(key, value)| (key.as_bytes(), *value));
        self.push(self.next_offset_delta, timestamp, Fields { key, value }, headers);
        self
    }

    /// Adds a record where it was in another batch: its `offset_delta` is kept, so that a gap
    /// stays a gap. Deltas must rise.
    pub fn push_record(&mut self, record: &Record) {
        let headers = record.headers.iter().map(|h| (h.key.as_ref(), h.value.as_deref()));
        let fields = Fields { key: record.key.as_deref(), value: record.value.as_deref() };
        self.push(record.offset_delta, record.timestamp, fields, headers);
    }

    /// Moves the batch's last offset behind the last record's, for a batch that lost its tail.
    #[must_use]
    pub fn last_offset_delta(mut self, last_offset_delta: i32) -> Self {
        self.header.last_offset_delta = last_offset_delta;
        self
    }

    /// Records so far.
    #[must_use]
    pub fn record_count(&self) -> i32 {
        self.header.record_count
    }

    /// Bytes of the batch so far, uncompressed.
    #[must_use]
    pub fn uncompressed_size_in_bytes(&self) -> usize {
        super::HEADER_LEN + self.body.len()
    }

    fn push<'a>(
        &mut self,
        offset_delta: i32,
        timestamp: Timestamp,
        fields: Fields<'_>,
        headers: impl ExactSizeIterator<Item = (&'a [u8], Option<&'a [u8]>)> + Clone,
    ) {
        if self.header.record_count == 0 {
            self.header.base_timestamp = timestamp;
            self.header.max_timestamp = timestamp;
        }
        self.header.max_timestamp = self.header.max_timestamp.max(timestamp);
        let timestamp_delta = timestamp.0.wrapping_sub(self.header.base_timestamp.0);
        let length = 1
            + varint::signed_len(timestamp_delta)
            + varint::signed_len(i64::from(offset_delta))
            + field_len(fields.key)
            + field_len(fields.value)
            + varint::signed_len(headers.len() as i64)
            + headers.clone().map(|(k, v)| field_len(Some(k)) + field_len(v)).sum::<usize>();
        self.body.reserve(length + varint::signed_len(length as i64));
        varint::put_signed(&mut self.body, length as i64);
        self.body.put_i8(0);
        varint::put_signed(&mut self.body, timestamp_delta);
        varint::put_signed(&mut self.body, i64::from(offset_delta));
        put_field(&mut self.body, fields.key);
        put_field(&mut self.body, fields.value);
        varint::put_signed(&mut self.body, headers.len() as i64);
        for (key, value) in headers {
            put_field(&mut self.body, Some(key));
            put_field(&mut self.body, value);
        }
        self.header.last_offset_delta = self.header.last_offset_delta.max(offset_delta);
        self.header.record_count += 1;
        self.next_offset_delta = offset_delta.saturating_add(1);
    }

    /// Compresses the records and seals the batch.
    pub fn build(self) -> Result<RecordBatch, BatchError> {
        let mut header = self.header;
        header.attributes |= i16::from(self.codec.id());
        let body = compression::compress(self.codec, self.body.freeze())?;
        RecordBatch::seal(header, body)
    }
}

/// What a record carries.
#[derive(Clone, Copy)]
struct Fields<'a> {
    key: Option<&'a [u8]>,
    value: Option<&'a [u8]>,
}

fn field_len(field: Option<&[u8]>) -> usize {
    match field {
        Some(bytes) => varint::signed_len(bytes.len() as i64) + bytes.len(),
        None => 1,
    }
}

fn put_field(out: &mut BytesMut, field: Option<&[u8]>) {
    match field {
        Some(bytes) => {
            varint::put_signed(out, bytes.len() as i64);
            out.put_slice(bytes);
        }
        None => varint::put_signed(out, -1),
    }
}
