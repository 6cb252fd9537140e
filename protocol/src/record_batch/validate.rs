//! Whether a producer's batch may be appended, and what must be changed in it (Kafka:
//! `ProduceRequest.validateRecords`, `UnifiedLog.analyzeAndValidateRecords`, `LogValidator`).
//!
//! The CRC, the header's counts and every record are checked, also those of a compressed batch, as
//! Kafka does: what is stored can be read. An uncompressed batch is walked in place; decompression
//! is a stream: a bomb costs one buffer and, at most, the time for `max_decompressed_bytes`.
//!
//! A batch that passes unchanged keeps its body by reference.
//!
//! Pure: no I/O, no clock, no randomness.

use bytes::Bytes;

use super::walk::Walk;
use super::{BatchBuilder, BatchError, BatchHeader, Record, RecordBatch, TimestampType};
use crate::compression::{self, Codec};
use crate::error_code::ErrorCode;
use crate::types::{Offset, Timestamp};

/// The first Produce version whose clients know zstd (KIP-110).
const ZSTD_FROM: i16 = 7;
/// Records that are named one by one in an answer; a batch may hold millions.
pub const MAX_RECORD_ERRORS: usize = 1_000;
/// Bytes in front of a batch that must be there to see its size and magic.
const SIZE_AND_MAGIC_LEN: usize = 17;
/// The smallest size that any message format can say of itself.
const MIN_BATCH_LENGTH: i32 = 14;

/// What the topic, the broker and the request demand of a batch.
#[derive(Debug, Clone)]
pub struct ValidationRules {
    /// Version of the Produce request.
    pub api_version: i16,
    /// `max.message.bytes`: of the batch on the wire, and again after recompression.
    pub max_message_bytes: usize,
    /// Whether `cleanup.policy` has compact: records must have keys.
    pub compacted: bool,
    /// `message.timestamp.type`.
    pub timestamp_type: TimestampType,
    /// The broker's clock.
    pub now: Timestamp,
    /// `message.timestamp.before.max.ms`.
    pub before_max_ms: i64,
    /// `message.timestamp.after.max.ms`.
    pub after_max_ms: i64,
    /// `compression.type`; `None` keeps the producer's.
    pub target_codec: Option<Codec>,
    /// Whether a client sends it, rather than a coordinator of ours.
    pub is_client: bool,
    /// How much a batch may grow when it is decompressed.
    pub max_decompressed_bytes: usize,
}

impl ValidationRules {
    /// A client's request to a topic with Kafka's defaults.
    #[must_use]
    pub fn client(api_version: i16, now: Timestamp) -> Self {
        Self {
            api_version,
            max_message_bytes: 1_048_588,
            compacted: false,
            timestamp_type: TimestampType::CreateTime,
            now,
            before_max_ms: i64::MAX,
            after_max_ms: 3_600_000,
            target_codec: None,
            is_client: true,
            max_decompressed_bytes: 128 << 20,
        }
    }

    /// Whether a timestamp is within what the topic allows; "unknown" always is.
    fn allows(&self, timestamp: Timestamp) -> bool {
        if timestamp == Timestamp::UNKNOWN {
            return true;
        }
        let age_ms = self.now.0.saturating_sub(timestamp.0);
        age_ms <= self.before_max_ms && age_ms.saturating_neg() <= self.after_max_ms
    }
}

/// A batch that may be appended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Validated {
    /// The batch, stamped or recompressed if the topic wants that.
    pub batch: RecordBatch,
    /// What the producer is told: the append time, or -1 where its own timestamps stand.
    pub log_append_time: Timestamp,
}

/// A batch that may not.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{error_code}: {message}")]
pub struct ValidationError {
    /// For the partition.
    pub error_code: ErrorCode,
    /// For single records: index in the batch, and what is wrong. At most
    /// [`MAX_RECORD_ERRORS`].
    pub record_errors: Vec<(i32, String)>,
    /// For the partition.
    pub message: String,
}

impl ValidationError {
    fn new(error_code: ErrorCode, message: impl Into<String>) -> Self {
        Self { error_code, record_errors: Vec::new(), message: message.into() }
    }

    fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::InvalidRecord, message)
    }
}

impl From<BatchError> for ValidationError {
    fn from(error: BatchError) -> Self {
        let error_code = match error {
            BatchError::TooLarge { .. } => ErrorCode::MessageTooLarge,
            BatchError::CrcMismatch { .. } => ErrorCode::CorruptMessage,
            // A body whose CRC holds and which does not decompress was made wrong: unlike
            // CORRUPT_MESSAGE, this error is not retried.
            BatchError::Compression(_)
            | BatchError::Truncated(_)
            | BatchError::Invalid(_)
            | BatchError::UnsupportedMagic(_) => ErrorCode::InvalidRecord,
        };
        Self::new(error_code, error.to_string())
    }
}

/// Judges the records of one partition in a Produce request.
pub fn validate_for_append(
    records: &Bytes,
    rules: &ValidationRules,
) -> Result<Validated, ValidationError> {
    let mut batch = the_only_batch(records, rules)?;
    check_header(&batch, rules)?;
    let codec = codec_of(batch.header())?;
    let target = rules.target_codec.unwrap_or(codec);
    let target_differs = target != codec && !batch.header().is_control();
    let seen = look_at_records(&batch, codec, rules)?;
    if rules.timestamp_type == TimestampType::CreateTime {
        batch.set_max_timestamp(TimestampType::CreateTime, seen.max_timestamp);
    }
    // Kafka counts the records of a compressed batch anew where its producer counted wrongly, and
    // takes an uncompressed one as it is; consumers would see offsets twice.
    if !seen.offsets_are_dense && codec == Codec::None {
        return Err(ValidationError::invalid("the records' offset deltas do not count up"));
    }
    if target_differs || !seen.offsets_are_dense {
        batch = recompressed(&batch, target, rules)?;
    }
    let mut log_append_time = Timestamp::UNKNOWN;
    if rules.timestamp_type == TimestampType::LogAppendTime {
        batch.stamp_log_append_time(rules.now);
        log_append_time = rules.now;
    }
    Ok(Validated { batch, log_append_time })
}

/// The one batch that must be there; a rest that is no whole batch is dropped, as Kafka does.
fn the_only_batch(
    records: &Bytes,
    rules: &ValidationRules,
) -> Result<RecordBatch, ValidationError> {
    let mut rest = records.clone();
    let batch = match RecordBatch::split_from(&mut rest) {
        Ok(Some(batch)) => batch,
        Ok(None) => return Err(ValidationError::invalid("no record batch")),
        Err(BatchError::UnsupportedMagic(magic @ 0..=1)) => {
            return Err(BatchError::UnsupportedMagic(magic).into());
        }
        Err(error @ (BatchError::UnsupportedMagic(_) | BatchError::Invalid(_))) => {
            return Err(ValidationError::new(ErrorCode::CorruptMessage, error.to_string()));
        }
        Err(error) => return Err(error.into()),
    };
    if rules.api_version < ZSTD_FROM && batch.header().codec() == Some(Codec::Zstd) {
        let message = format!("zstd is not allowed in Produce version {}", rules.api_version);
        return Err(ValidationError::new(ErrorCode::UnsupportedCompressionType, message));
    }
    if let Some(next) = rest.first_chunk::<SIZE_AND_MAGIC_LEN>() {
        let [.., s0, s1, s2, s3] = *next.first_chunk::<12>().unwrap_or(&[0; 12]);
        let batch_length = i32::from_be_bytes([s0, s1, s2, s3]);
        if batch_length < MIN_BATCH_LENGTH {
            let message = "the bytes behind the batch are no batch";
            return Err(ValidationError::new(ErrorCode::CorruptMessage, message));
        }
        if usize::try_from(batch_length).is_ok_and(|length| length + 12 <= rest.len()) {
            return Err(ValidationError::invalid("more than one record batch"));
        }
    }
    Ok(batch)
}

/// What the header alone says, and the CRC.
fn check_header(batch: &RecordBatch, rules: &ValidationRules) -> Result<(), ValidationError> {
    let header = batch.header();
    if rules.is_client && header.base_offset != Offset::ZERO {
        return Err(ValidationError::invalid(format!(
            "base_offset is {}, not 0",
            header.base_offset
        )));
    }
    check_size(batch, rules)?;
    batch.verify_crc()?;
    if !rules.is_client {
        return Ok(());
    }
    if header.record_count <= 0 || header.last_offset_delta < 0 {
        return Err(ValidationError::invalid(format!(
            "{} records up to offset delta {}",
            header.record_count, header.last_offset_delta
        )));
    }
    if i64::from(header.last_offset_delta) + 1 != i64::from(header.record_count) {
        return Err(ValidationError::invalid(format!(
            "{} records do not fit offset deltas 0 to {}",
            header.record_count, header.last_offset_delta
        )));
    }
    if header.is_control() {
        return Err(ValidationError::invalid("clients may not write control records"));
    }
    if header.producer_id.is_some() && header.base_sequence < 0 {
        return Err(ValidationError::invalid(format!(
            "base_sequence {} of producer {}",
            header.base_sequence, header.producer_id
        )));
    }
    Ok(())
}

fn check_size(batch: &RecordBatch, rules: &ValidationRules) -> Result<(), ValidationError> {
    let size_in_bytes = batch.size_in_bytes();
    if size_in_bytes > rules.max_message_bytes {
        let message =
            format!("the batch has {size_in_bytes} bytes, {} are allowed", rules.max_message_bytes);
        return Err(ValidationError::new(ErrorCode::MessageTooLarge, message));
    }
    Ok(())
}

fn codec_of(header: &BatchHeader) -> Result<Codec, ValidationError> {
    header.codec().ok_or_else(|| {
        let message = format!("attributes {:#06x} name no codec", header.attributes);
        ValidationError::new(ErrorCode::UnsupportedCompressionType, message)
    })
}

/// What the records of a batch say together.
struct Seen {
    max_timestamp: Timestamp,
    offsets_are_dense: bool,
}

fn look_at_records(
    batch: &RecordBatch,
    codec: Codec,
    rules: &ValidationRules,
) -> Result<Seen, ValidationError> {
    let limit_bytes = rules.max_decompressed_bytes;
    match codec {
        Codec::None => walk_records(Walk::new(&batch.body()[..], usize::MAX), batch, rules),
        _ => {
            let stream = compression::stream(codec, batch.body(), limit_bytes)?;
            walk_records(Walk::new(stream, limit_bytes), batch, rules)
        }
    }
}

fn walk_records<R: std::io::BufRead>(
    mut walk: Walk<R>,
    batch: &RecordBatch,
    rules: &ValidationRules,
) -> Result<Seen, ValidationError> {
    let header = batch.header();
    let mut seen = Seen { max_timestamp: Timestamp::UNKNOWN, offsets_are_dense: true };
    let mut errors = RecordErrors::default();
    for index in 0..header.record_count {
        let record = walk.step()?;
        let timestamp = match header.timestamp_type() {
            TimestampType::CreateTime => {
                Timestamp(header.base_timestamp.0.wrapping_add(record.timestamp_delta))
            }
            TimestampType::LogAppendTime => header.max_timestamp,
        };
        if rules.compacted && !record.has_key {
            errors.add(index, false, || "a compacted topic takes no record without a key".into());
        } else {
            check_timestamp(index, timestamp, header, rules, &mut errors);
        }
        seen.offsets_are_dense &= record.offset_delta == index;
        seen.max_timestamp = seen.max_timestamp.max(timestamp);
    }
    if !walk.is_at_end()? {
        return Err(ValidationError::invalid("bytes are left behind the last record"));
    }
    errors.into_result()?;
    Ok(seen)
}

fn check_timestamp(
    index: i32,
    timestamp: Timestamp,
    header: &BatchHeader,
    rules: &ValidationRules,
    errors: &mut RecordErrors,
) {
    if rules.timestamp_type == TimestampType::CreateTime && timestamp != Timestamp::UNKNOWN {
        if !rules.allows(timestamp) {
            errors.add(index, true, || {
                let earliest = rules.now.0.saturating_sub(rules.before_max_ms);
                let latest = rules.now.0.saturating_add(rules.after_max_ms);
                format!("timestamp {timestamp} is not within {earliest} to {latest}")
            });
        }
    } else if header.timestamp_type() == TimestampType::LogAppendTime {
        errors.add(index, true, || "producers may not set LogAppendTime".into());
    }
}

/// The errors of single records, and what they make of the batch.
#[derive(Default)]
struct RecordErrors {
    named: Vec<(i32, String)>,
    count: usize,
    any_timestamp: bool,
}

impl RecordErrors {
    fn add(&mut self, index: i32, is_timestamp: bool, message: impl FnOnce() -> String) {
        self.count += 1;
        self.any_timestamp |= is_timestamp;
        if self.named.len() < MAX_RECORD_ERRORS {
            self.named.push((index, message()));
        }
    }

    fn into_result(self) -> Result<(), ValidationError> {
        let Some((_, first)) = self.named.first() else { return Ok(()) };
        let error_code = match self.any_timestamp {
            true => ErrorCode::InvalidTimestamp,
            false => ErrorCode::InvalidRecord,
        };
        let message = format!("{} records are refused, the first because {first}", self.count);
        Err(ValidationError { error_code, record_errors: self.named, message })
    }
}

/// The same records in another codec, or counted anew.
fn recompressed(
    batch: &RecordBatch,
    target: Codec,
    rules: &ValidationRules,
) -> Result<RecordBatch, ValidationError> {
    let mut builder = BatchBuilder::like(batch.header()).codec(target);
    for (offset_delta, record) in (0..).zip(batch.records(rules.max_decompressed_bytes)?) {
        builder.push_record(&Record { offset_delta, ..record? });
    }
    let rebuilt = builder.build()?;
    check_size(&rebuilt, rules)?;
    Ok(rebuilt)
}

#[cfg(test)]
mod tests;
