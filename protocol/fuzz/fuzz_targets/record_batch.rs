//! Any record bytes: reading, iterating and validating a batch never panics, stays within its
//! limits, and what validation lets through can be read record by record.
#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use protocol::compression::Codec;
use protocol::record_batch::{
    EndTxnMarker, HEADER_LEN, RecordBatch, ValidationRules, validate_for_append,
};
use protocol::types::Timestamp;

const LIMIT_BYTES: usize = 1 << 20;

/// The batch with length, magic and CRC put right, for a fuzzer guesses no checksum.
fn mended(data: &[u8]) -> Option<Bytes> {
    let mut head: [u8; HEADER_LEN] = *data.first_chunk()?;
    let body = Bytes::copy_from_slice(&data[HEADER_LEN..]);
    head[..8].fill(0);
    let batch_length = i32::try_from(data.len() - 12).ok()?;
    head[8..12].copy_from_slice(&batch_length.to_be_bytes());
    head[16] = 2;
    let mut batch = RecordBatch::from_parts(head, body).ok()?;
    // A change of the maximum timestamp renews the CRC.
    let max = batch.header().max_timestamp;
    let timestamp_type = batch.header().timestamp_type();
    batch.set_max_timestamp(timestamp_type, Timestamp(!max.0));
    batch.set_max_timestamp(timestamp_type, max);
    Some(batch.to_bytes())
}

fn read_all(records: &Bytes) {
    let mut rest = records.clone();
    while let Ok(Some(batch)) = RecordBatch::split_from(&mut rest) {
        let _ = batch.verify_crc();
        let _ = EndTxnMarker::from_batch(&batch);
        let _ = (batch.header().last_sequence(), batch.header().next_offset());
        if let Ok(records) = batch.records(LIMIT_BYTES) {
            let _ = records.take_while(Result::is_ok).count();
        }
    }
}

fuzz_target!(|data: &[u8]| {
    read_all(&Bytes::copy_from_slice(data));
    let Some(records) = mended(data) else { return };
    read_all(&records);
    let rules = ValidationRules {
        max_decompressed_bytes: LIMIT_BYTES,
        after_max_ms: i64::MAX,
        ..ValidationRules::client(9, Timestamp(0))
    };
    for target_codec in [None, Some(Codec::None)] {
        let rules = ValidationRules { target_codec, ..rules.clone() };
        if let Ok(validated) = validate_for_append(&records, &rules) {
            validated.batch.verify_crc().expect("what was validated has a right CRC");
            let read = validated.batch.records(LIMIT_BYTES).expect("it decompresses");
            let offsets: Vec<_> =
                read.map(|record| record.expect("it is whole").offset_delta).collect();
            assert!(offsets.into_iter().eq(0..validated.batch.header().record_count));
        }
    }
});
