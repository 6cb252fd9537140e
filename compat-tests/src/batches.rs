//! Record batches to send, whole or damaged, and what comes back.

use std::sync::OnceLock;
use std::time::UNIX_EPOCH;

use bytes::{BufMut, Bytes, BytesMut};
use protocol::compression::Codec;
use protocol::record_batch::{BatchBuilder, Record, RecordBatch};
use protocol::types::{ProducerEpoch, ProducerId, Timestamp};

/// Timestamps of test records start here: an hour before this process first asked, so that no
/// record is old enough for retention.
#[must_use]
pub fn start_ms() -> i64 {
    static START_MS: OnceLock<i64> = OnceLock::new();
    *START_MS.get_or_init(|| {
        let now = UNIX_EPOCH.elapsed().expect("a clock past 1970");
        i64::try_from(now.as_millis()).expect("a date that fits") - 3_600_000
    })
}

/// What a decompressed batch may have in these tests.
const DECOMPRESSED_LIMIT_BYTES: usize = 256 << 20;

/// Where the fields of a batch's header are.
pub mod at {
    /// `base_offset`, i64.
    pub const BASE_OFFSET: usize = 0;
    /// `batch_length`, i32.
    pub const BATCH_LENGTH: usize = 8;
    /// `magic`, i8.
    pub const MAGIC: usize = 16;
    /// `crc`, u32, over all that follows it.
    pub const CRC: usize = 17;
    /// `attributes`, i16.
    pub const ATTRIBUTES: usize = 21;
    /// `last_offset_delta`, i32.
    pub const LAST_OFFSET_DELTA: usize = 23;
    /// `record_count`, i32.
    pub const RECORD_COUNT: usize = 57;
}

/// A builder with `values` as records, one millisecond apart from [`start_ms`].
#[must_use]
pub fn builder<V: AsRef<[u8]>>(values: &[V]) -> BatchBuilder {
    values.iter().zip(start_ms()..).fold(BatchBuilder::new(), |builder, (value, timestamp)| {
        builder.record(Timestamp(timestamp), None, Some(value.as_ref()))
    })
}

/// An uncompressed batch without a producer.
#[must_use]
pub fn batch<V: AsRef<[u8]>>(values: &[V]) -> Bytes {
    sealed(builder(values))
}

/// The same, compressed.
#[must_use]
pub fn compressed<V: AsRef<[u8]>>(codec: Codec, values: &[V]) -> Bytes {
    sealed(builder(values).codec(codec))
}

/// A batch of an idempotent producer.
#[must_use]
pub fn of_producer<V: AsRef<[u8]>>(id: i64, epoch: i16, sequence: i32, values: &[V]) -> Bytes {
    sealed(builder(values).producer(ProducerId(id), ProducerEpoch(epoch), sequence))
}

/// The bytes of a batch.
///
/// # Panics
/// When it cannot be built.
#[must_use]
pub fn sealed(builder: BatchBuilder) -> Bytes {
    builder.build().expect("a test's batch can be built").to_bytes()
}

/// `batch` with `bytes` written at `position`; the CRC is made right again unless it was what
/// was changed.
#[must_use]
pub fn patched(batch: &[u8], position: usize, bytes: &[u8]) -> Bytes {
    let mut patched = BytesMut::from(batch);
    patched[position..position + bytes.len()].copy_from_slice(bytes);
    if position != at::CRC {
        let crc = crc32c::crc32c(&patched[at::ATTRIBUTES..]);
        (&mut patched[at::CRC..at::ATTRIBUTES]).put_u32(crc);
    }
    patched.freeze()
}

/// The batches in a fetched partition; a cut-off one at the end is left out, as clients do.
#[must_use]
pub fn split(records: Option<&Bytes>) -> Vec<RecordBatch> {
    let mut bytes = records.cloned().unwrap_or_default();
    let mut batches = Vec::new();
    while let Ok(Some(batch)) = RecordBatch::split_from(&mut bytes) {
        batches.push(batch);
    }
    batches
}

/// The records in a fetched partition.
///
/// # Panics
/// When a batch's CRC is wrong or its records cannot be read.
#[must_use]
pub fn records(records: Option<&Bytes>) -> Vec<Record> {
    let mut all = Vec::new();
    for batch in split(records) {
        batch.verify_crc().expect("a fetched batch has the right CRC");
        for record in batch.records(DECOMPRESSED_LIMIT_BYTES).expect("a batch decompresses") {
            all.push(record.expect("a fetched record can be read"));
        }
    }
    all
}
