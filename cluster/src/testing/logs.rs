//! What a replica holds, for comparing.

use std::collections::BTreeMap;

use protocol::record_batch::RecordBatch;
use storage::log_store::{ReadLimit, RecordSlice};

use crate::replica::Replica;

/// The committed bytes of a replica.
///
/// # Panics
/// When they cannot be read.
#[must_use]
pub fn committed_bytes(replica: &Replica) -> Vec<u8> {
    let offsets = replica.offsets();
    let limit = ReadLimit {
        upper_bound: offsets.high_watermark,
        max_bytes: usize::MAX,
        min_one_batch: true,
    };
    let mut bytes = Vec::new();
    if offsets.log_start_offset == offsets.high_watermark {
        return bytes;
    }
    for slice in replica.read(offsets.log_start_offset, limit).expect("readable").slices {
        match slice {
            RecordSlice::Memory(slice) => bytes.extend_from_slice(&slice),
            RecordSlice::File { .. } => panic!("the simulated disk has no files"),
        }
    }
    bytes
}

/// The batches by their base offsets.
///
/// # Panics
/// When one is damaged or cut off.
#[must_use]
pub fn batches(bytes: &[u8]) -> BTreeMap<i64, RecordBatch> {
    let mut rest = bytes::Bytes::copy_from_slice(bytes);
    let mut batches = BTreeMap::new();
    while let Some(batch) = RecordBatch::split_from(&mut rest).expect("whole batches") {
        batch.verify_crc().expect("unharmed batches");
        batches.insert(batch.header().base_offset.0, batch);
    }
    batches
}
