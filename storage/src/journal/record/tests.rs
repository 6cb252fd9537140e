//! Every kind comes back, and no bytes make the decoder panic.

use proptest::prelude::*;
use protocol::record_batch::BatchBuilder;
use protocol::types::{LeaderEpoch, Offset, Timestamp};

use super::*;
use crate::index::epochs::TermStart;

fn purge_point() -> PurgePoint {
    let start = TermStart { term: 3, index: 9, offset: 40 };
    PurgePoint {
        id: EntryId { term: 3, index: 12 },
        reset: true,
        next_offset: 77,
        max_timestamp: -1,
        terms: TermTable::from_starts(vec![start]),
        producers: Bytes::from_static(b"producers"),
    }
}

fn group_head() -> GroupHead {
    GroupHead {
        vote: Some(Vote { term: 4, node_id: Some(1), committed: true }),
        purge: Some(purge_point()),
        last_index: Some(20),
        log_start: 50,
        state: vec![(b"key".to_vec(), b"value".to_vec())],
    }
}

fn every_small_record() -> Vec<((RecordHeader, Bytes), Payload)> {
    let vote = Vote { term: 9, node_id: None, committed: false };
    vec![
        (truncate_record(1, Some(5)), Payload::Truncate(Some(5))),
        (truncate_record(1, None), Payload::Truncate(None)),
        (purge_point().record(1), Payload::Purge(purge_point())),
        (vote_record(1, vote), Payload::Vote(vote)),
        (state_record(1, b"k", b""), Payload::State(b"k".to_vec(), vec![])),
        (log_start_record(1, 33), Payload::LogStart(33)),
        (removed_record(1, 2), Payload::GroupRemoved(2)),
        (group_head().record(1), Payload::GroupHead(Box::new(group_head()))),
    ]
}

fn batches_record() -> (RecordHeader, Bytes) {
    let mut batch = BatchBuilder::new().record(Timestamp(3), None, Some(b"v")).build().unwrap();
    let mut placed = |offset| {
        batch.place(Offset(offset), LeaderEpoch(5));
        batch.to_bytes()
    };
    let payload = [placed(60), placed(61)].concat();
    let header = RecordHeader {
        payload_length: payload.len() as u32,
        term: 5,
        base_offset: 60,
        ..RecordHeader::new(RecordKind::AppendBatches, 7)
    };
    (header, Bytes::from(payload))
}

#[test]
fn every_kind_comes_back() {
    for ((header, bytes), payload) in every_small_record() {
        let read = RecordHeader::decode(&header.encode()).unwrap();
        assert_eq!(read, header);
        assert_eq!(read.decode_payload(&bytes), Ok(payload));
    }
    let (header, bytes) = batches_record();
    let Ok(Payload::Batches(batches)) = header.decode_payload(&bytes) else { panic!() };
    assert_eq!(batches.len(), 2);
}

#[test]
fn a_flipped_bit_is_noticed_wherever_it_is() {
    let mut records: Vec<_> = every_small_record().into_iter().map(|(record, _)| record).collect();
    records.push(batches_record());
    for (header, bytes) in records {
        let whole = header.encode();
        for bit in 0..whole.len() * 8 {
            let mut flipped = whole;
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(RecordHeader::decode(&flipped).is_err());
        }
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.to_vec();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(header.decode_payload(&Bytes::from(flipped)).is_err());
        }
    }
}

proptest! {
    #[test]
    fn no_bytes_make_the_decoder_panic(
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
        kind in 0u8..12,
        flag in any::<u8>(),
    ) {
        let _ = RecordHeader::decode(&bytes);
        if let Some(kind) = RecordKind::from_u8(kind) {
            // With a checksum that fits, what is behind it is reached.
            let header = RecordHeader {
                flag,
                payload_length: bytes.len() as u32,
                payload_crc: crc32c::crc32c(&bytes),
                ..RecordHeader::new(kind, 1)
            };
            let _ = header.decode_payload(&Bytes::from(bytes));
        }
    }
}
