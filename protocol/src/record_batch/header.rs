//! The 61 bytes in front of every batch, read without touching the body (Kafka:
//! `DefaultRecordBatch`).
//!
//! ```text
//!  0 base_offset i64       8 batch_length i32   12 partition_leader_epoch i32   16 magic i8
//! 17 crc u32              21 attributes i16     23 last_offset_delta i32
//! 27 base_timestamp i64   35 max_timestamp i64  43 producer_id i64
//! 51 producer_epoch i16   53 base_sequence i32  57 record_count i32             61 body
//! ```
//!
//! Pure: no I/O, no clock, no randomness.

use nom::number::complete::{be_i8, be_i16, be_i32, be_i64, be_u32};
use nom::{IResult, Parser};

use super::{BatchError, HEADER_LEN, LENGTH_PREFIX_LEN};
use crate::compression::Codec;
use crate::types::{LeaderEpoch, Offset, ProducerEpoch, ProducerId, Timestamp};

/// The only message format that is stored.
pub(super) const MAGIC: i8 = 2;
/// Where `magic` stands, in the older formats too.
const MAGIC_AT: usize = 16;

const CODEC_MASK: i16 = 0x07;
const LOG_APPEND_TIME_BIT: i16 = 1 << 3;
pub(super) const TRANSACTIONAL_BIT: i16 = 1 << 4;
pub(super) const CONTROL_BIT: i16 = 1 << 5;
const DELETE_HORIZON_BIT: i16 = 1 << 6;

/// Whose clock a batch's timestamps are from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TimestampType {
    /// The producer's.
    #[default]
    CreateTime,
    /// The broker's, at the append: all records have the batch's `max_timestamp`.
    LogAppendTime,
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

impl BatchHeader {
    /// Reads the header from the first 61 bytes. Checks magic and that the lengths can be true.
    ///
    /// Counts and sequences are taken as they come: whether a client may say such things is
    /// [`super::validate_for_append`]'s to judge, after the CRC.
    pub fn parse(bytes: &[u8]) -> Result<BatchHeader, BatchError> {
        // Older formats have shorter headers, so their magic is looked at before the length.
        if let Some(&magic) = bytes.get(MAGIC_AT)
            && magic != MAGIC as u8
        {
            return Err(BatchError::UnsupportedMagic(magic as i8));
        }
        let Ok((_, header)) = fields(bytes) else {
            return Err(BatchError::Truncated(format!(
                "a header has {HEADER_LEN} bytes, {} are there",
                bytes.len()
            )));
        };
        if (header.batch_length as i64) < (HEADER_LEN - LENGTH_PREFIX_LEN) as i64 {
            return Err(BatchError::Invalid(format!(
                "batch_length {} is less than the header itself",
                header.batch_length
            )));
        }
        Ok(header)
    }

    /// The 61 bytes that [`BatchHeader::parse`] reads.
    #[must_use]
    pub fn encode(&self) -> [u8; HEADER_LEN] {
        let mut head = [0; HEADER_LEN];
        head[0..8].copy_from_slice(&self.base_offset.0.to_be_bytes());
        head[8..12].copy_from_slice(&self.batch_length.to_be_bytes());
        head[12..16].copy_from_slice(&self.partition_leader_epoch.0.to_be_bytes());
        head[16..17].copy_from_slice(&self.magic.to_be_bytes());
        head[17..21].copy_from_slice(&self.crc.to_be_bytes());
        head[21..23].copy_from_slice(&self.attributes.to_be_bytes());
        head[23..27].copy_from_slice(&self.last_offset_delta.to_be_bytes());
        head[27..35].copy_from_slice(&self.base_timestamp.0.to_be_bytes());
        head[35..43].copy_from_slice(&self.max_timestamp.0.to_be_bytes());
        head[43..51].copy_from_slice(&self.producer_id.0.to_be_bytes());
        head[51..53].copy_from_slice(&self.producer_epoch.0.to_be_bytes());
        head[53..57].copy_from_slice(&self.base_sequence.to_be_bytes());
        head[57..61].copy_from_slice(&self.record_count.to_be_bytes());
        head
    }

    /// Bytes of the whole batch.
    #[must_use]
    pub fn size_in_bytes(&self) -> usize {
        // `parse` has refused a negative length.
        usize::try_from(self.batch_length).unwrap_or(0) + LENGTH_PREFIX_LEN
    }

    /// `base_offset + last_offset_delta`.
    #[must_use]
    pub fn last_offset(&self) -> Offset {
        // A client may claim any base offset before the batch is placed: no overflow on that.
        Offset(self.base_offset.0.saturating_add(i64::from(self.last_offset_delta)))
    }

    /// `last_offset + 1`.
    #[must_use]
    pub fn next_offset(&self) -> Offset {
        Offset(self.last_offset().0.saturating_add(1))
    }

    /// Sequence of the last record, wrapping after `i32::MAX` to 0; -1 without a producer.
    #[must_use]
    pub fn last_sequence(&self) -> i32 {
        if self.base_sequence < 0 {
            return -1;
        }
        let last = i64::from(self.base_sequence) + i64::from(self.last_offset_delta);
        last.rem_euclid(1 << 31) as i32
    }

    /// Attribute bits 0 to 2; `None` where they name no codec.
    #[must_use]
    pub fn codec(&self) -> Option<Codec> {
        Codec::from_id((self.attributes & CODEC_MASK) as i8)
    }

    /// Attribute bit 3.
    #[must_use]
    pub fn timestamp_type(&self) -> TimestampType {
        if self.attributes & LOG_APPEND_TIME_BIT == 0 {
            TimestampType::CreateTime
        } else {
            TimestampType::LogAppendTime
        }
    }

    pub(super) fn set_timestamp_type(&mut self, timestamp_type: TimestampType) {
        match timestamp_type {
            TimestampType::CreateTime => self.attributes &= !LOG_APPEND_TIME_BIT,
            TimestampType::LogAppendTime => self.attributes |= LOG_APPEND_TIME_BIT,
        }
    }

    /// Attribute bit 4.
    #[must_use]
    pub fn is_transactional(&self) -> bool {
        self.attributes & TRANSACTIONAL_BIT != 0
    }

    /// Attribute bit 5.
    #[must_use]
    pub fn is_control(&self) -> bool {
        self.attributes & CONTROL_BIT != 0
    }

    /// When its tombstones may go (KIP-534): `base_timestamp` where attribute bit 6 says so.
    #[must_use]
    pub fn delete_horizon(&self) -> Option<Timestamp> {
        (self.attributes & DELETE_HORIZON_BIT != 0).then_some(self.base_timestamp)
    }
}

fn fields(input: &[u8]) -> IResult<&[u8], BatchHeader> {
    let (input, (base_offset, batch_length, leader_epoch, magic, crc)) =
        (be_i64, be_i32, be_i32, be_i8, be_u32).parse(input)?;
    let (input, (attributes, last_offset_delta, base_timestamp, max_timestamp)) =
        (be_i16, be_i32, be_i64, be_i64).parse(input)?;
    let (input, (producer_id, producer_epoch, base_sequence, record_count)) =
        (be_i64, be_i16, be_i32, be_i32).parse(input)?;
    let header = BatchHeader {
        base_offset: Offset(base_offset),
        batch_length,
        partition_leader_epoch: LeaderEpoch(leader_epoch),
        magic,
        crc,
        attributes,
        last_offset_delta,
        base_timestamp: Timestamp(base_timestamp),
        max_timestamp: Timestamp(max_timestamp),
        producer_id: ProducerId(producer_id),
        producer_epoch: ProducerEpoch(producer_epoch),
        base_sequence,
        record_count,
    };
    Ok((input, header))
}
