//! Any bytes as a journal record: header and payload are read or refused, never with a panic, and
//! a header is written as it was read.
#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use storage::journal::record::{HEADER_LEN, RecordHeader};

fuzz_target!(|data: &[u8]| {
    let _ = RecordHeader::decode(data);
    let Some(head) = data.first_chunk::<HEADER_LEN>() else { return };
    let payload = Bytes::copy_from_slice(&data[HEADER_LEN..]);
    // A fuzzer guesses no checksum, so those of header and payload are put right.
    let mut head = *head;
    head[..4].copy_from_slice(&storage::journal::record::MAGIC);
    head[12..16].copy_from_slice(&(payload.len() as u32).to_le_bytes());
    head[52..56].copy_from_slice(&crc32c::crc32c(&payload).to_le_bytes());
    let crc = crc32c::crc32c(&head[8..]);
    head[4..8].copy_from_slice(&crc.to_le_bytes());
    let Ok(header) = RecordHeader::decode(&head) else { return };
    assert_eq!(RecordHeader::decode(&header.encode()), Ok(header));
    let _ = header.decode_payload(&payload);
});
