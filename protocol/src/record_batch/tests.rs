//! What a batch's reader, patcher, builder and iterator promise each other.

use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use crate::compression::Codec;
use crate::types::{ProducerEpoch, ProducerId};

fn sample(codec: Codec) -> RecordBatch {
    BatchBuilder::new()
        .codec(codec)
        .producer(ProducerId(7), ProducerEpoch(1), 10)
        .record(Timestamp(1_000), Some(b"k"), Some(b"v"))
        .record(Timestamp(900), None, None)
        .record_with_headers(
            Timestamp(i64::MAX / 2),
            Some(b""),
            Some(&[7; 5000]),
            &[("h", Some(b"1")), ("h", Some(b"2")), ("", None)],
        )
        .build()
        .unwrap()
}

#[test]
fn batches_are_split_off_without_copying_their_bodies() {
    let both = [sample(Codec::None).to_bytes(), sample(Codec::Zstd).to_bytes()].concat();
    let whole = Bytes::from(both);
    let mut rest = whole.clone();
    let first = RecordBatch::split_from(&mut rest).unwrap().unwrap();
    let second = RecordBatch::split_from(&mut rest).unwrap().unwrap();
    assert!(RecordBatch::split_from(&mut rest).unwrap().is_none());
    for batch in [&first, &second] {
        batch.verify_crc().unwrap();
        assert!(whole.as_ptr_range().contains(&batch.body().as_ptr()));
    }
    assert_eq!(first, sample(Codec::None));
    assert_eq!(second, sample(Codec::Zstd));
    assert_eq!(RecordBatch::from_parts(*first.head(), first.body().clone()).unwrap(), first);
    assert!(RecordBatch::from_parts(*first.head(), second.body().clone()).is_err());
}

#[test]
fn placing_a_batch_leaves_its_crc_valid() {
    let mut batch = sample(Codec::None);
    let crc = batch.header().crc;
    batch.place(Offset(1 << 40), LeaderEpoch(5));
    assert_eq!(batch.header().crc, crc);
    batch.verify_crc().unwrap();
    assert_eq!(batch.header().last_offset(), Offset((1 << 40) + 2));
    assert_eq!(batch.header().next_offset(), Offset((1 << 40) + 3));
    assert_eq!(&BatchHeader::parse(batch.head()).unwrap(), batch.header());
    let offsets: Vec<_> = batch.records(10_000).unwrap().map(|r| r.unwrap().offset.0).collect();
    assert_eq!(offsets, [1 << 40, (1 << 40) + 1, (1 << 40) + 2]);
}

#[test]
fn a_stamped_batch_gives_its_append_time_to_every_record() {
    let mut batch = sample(Codec::Gzip);
    batch.stamp_log_append_time(Timestamp(77));
    batch.verify_crc().unwrap();
    assert_eq!(batch.header().timestamp_type(), TimestampType::LogAppendTime);
    assert_eq!(batch.header().codec(), Some(Codec::Gzip));
    assert!(batch.records(10_000).unwrap().all(|r| r.unwrap().timestamp == Timestamp(77)));
}

#[test]
fn a_flipped_bit_is_found_by_the_crc() {
    let bytes = sample(Codec::None).to_bytes();
    for at in [22, 30, 60, 61, bytes.len() - 1] {
        let mut broken = bytes.to_vec();
        broken[at] ^= 1;
        let batch = RecordBatch::split_from(&mut Bytes::from(broken)).unwrap().unwrap();
        assert!(matches!(batch.verify_crc(), Err(BatchError::CrcMismatch { .. })), "byte {at}");
    }
}

#[test]
fn duplicate_headers_and_nulls_survive_every_codec() {
    for codec in Codec::ALL {
        let batch = sample(codec);
        let records: Vec<_> = batch.records(10_000).unwrap().collect::<Result<_, _>>().unwrap();
        assert_eq!(records.len(), 3);
        assert_eq!(records[0].key.as_deref(), Some(&b"k"[..]));
        assert_eq!(records[1].timestamp_delta, -100);
        assert_eq!((&records[1].key, &records[1].value), (&None, &None));
        assert_eq!(records[2].timestamp, Timestamp(i64::MAX / 2));
        let headers: Vec<_> =
            records[2].headers.iter().map(|h| (&h.key[..], h.value.as_deref())).collect();
        assert_eq!(
            headers,
            [(&b"h"[..], Some(&b"1"[..])), (&b"h"[..], Some(&b"2"[..])), (&b""[..], None)]
        );
        assert_eq!(batch.header().max_timestamp, Timestamp(i64::MAX / 2));
    }
}

#[test]
fn sequences_wrap_after_the_largest_to_zero() {
    let mut header = *sample(Codec::None).header();
    header.base_sequence = i32::MAX;
    header.last_offset_delta = 1;
    assert_eq!(header.last_sequence(), 0);
    header.base_sequence = -1;
    assert_eq!(header.last_sequence(), -1);
    header.base_sequence = 5;
    assert_eq!(header.last_sequence(), 6);
}

#[test]
fn short_and_older_headers_are_refused() {
    let bytes = sample(Codec::None).to_bytes();
    for len in 1..bytes.len() {
        let mut cut = bytes.slice(..len);
        let refused = RecordBatch::split_from(&mut cut);
        assert!(matches!(refused, Err(BatchError::Truncated(_))), "{len} bytes");
        assert_eq!(cut.len(), len);
    }
    let mut old = bytes[..40].to_vec();
    old[16] = 1;
    assert_eq!(BatchHeader::parse(&old), Err(BatchError::UnsupportedMagic(1)));
    let mut negative = bytes.to_vec();
    negative[8..12].copy_from_slice(&(-1i32).to_be_bytes());
    assert!(matches!(BatchHeader::parse(&negative), Err(BatchError::Invalid(_))));
}

#[test]
fn a_gap_left_by_compaction_is_kept() {
    let batch = sample(Codec::None);
    let records: Vec<_> = batch.records(10_000).unwrap().collect::<Result<_, _>>().unwrap();
    let mut builder = BatchBuilder::like(batch.header());
    builder.push_record(&records[1]);
    let rebuilt = builder.last_offset_delta(2).build().unwrap();
    assert_eq!(rebuilt.header().last_offset(), batch.header().last_offset());
    assert_eq!(rebuilt.header().last_sequence(), batch.header().last_sequence());
    let kept: Vec<_> = rebuilt.records(10_000).unwrap().map(Result::unwrap).collect();
    assert_eq!(kept.len(), 1);
    assert_eq!(kept[0].offset, Offset(1));
    assert_eq!(kept[0].timestamp, records[1].timestamp);
}

#[test]
fn markers_are_read_back() {
    for kind in [ControlKind::Commit, ControlKind::Abort] {
        let marker = EndTxnMarker { kind, coordinator_epoch: 3 };
        let batch = marker.to_batch(ProducerId(9), ProducerEpoch(2), Timestamp(5)).unwrap();
        assert!(batch.header().is_control() && batch.header().is_transactional());
        assert_eq!(batch.header().last_sequence(), -1);
        assert_eq!(EndTxnMarker::from_batch(&batch).unwrap(), marker);
    }
    assert!(EndTxnMarker::from_batch(&sample(Codec::None)).is_err());
}

#[test]
fn a_bomb_stops_at_the_limit() {
    for codec in Codec::ALL {
        let zeros = vec![0; 20 << 20];
        let batch = BatchBuilder::new()
            .codec(codec)
            .record(Timestamp(0), None, Some(&zeros))
            .build()
            .unwrap();
        let refused = batch.records(1 << 20).map(|_| ());
        assert_eq!(refused, Err(BatchError::TooLarge { limit_bytes: 1 << 20 }), "{codec:?}");
        assert_eq!(batch.records(21 << 20).unwrap().count(), 1);
    }
}

type AnyRecord = (i64, Option<Vec<u8>>, Option<Vec<u8>>, Vec<(String, Option<Vec<u8>>)>);

fn any_bytes() -> impl Strategy<Value = Option<Vec<u8>>> {
    proptest::option::of(proptest::collection::vec(any::<u8>(), 0..40))
}

fn any_record() -> impl Strategy<Value = AnyRecord> {
    let headers = proptest::collection::vec((".{0,6}", any_bytes()), 0..4);
    (any::<i64>(), any_bytes(), any_bytes(), headers)
}

proptest! {
    #[test]
    fn what_is_built_is_read_back(
        records in proptest::collection::vec(any_record(), 0..20),
        codec in 0..5i8,
    ) {
        let mut builder = BatchBuilder::new().codec(Codec::from_id(codec).unwrap());
        for (timestamp, key, value, headers) in &records {
            let headers: Vec<_> =
                headers.iter().map(|(k, v)| (k.as_str(), v.as_deref())).collect();
            builder = builder.record_with_headers(
                Timestamp(*timestamp), key.as_deref(), value.as_deref(), &headers);
        }
        let batch = RecordBatch::split_from(&mut builder.build().unwrap().to_bytes())
            .unwrap()
            .unwrap();
        batch.verify_crc().unwrap();
        let read: Vec<AnyRecord> = batch.records(1 << 20).unwrap().map(|r| {
            let r = r.unwrap();
            let headers = r.headers.iter().map(|h| {
                let key = String::from_utf8(h.key.to_vec()).unwrap();
                (key, h.value.as_ref().map(|v| v.to_vec()))
            }).collect();
            (r.timestamp.0, r.key.map(|k| k.to_vec()), r.value.map(|v| v.to_vec()), headers)
        }).collect();
        prop_assert_eq!(read, records);
    }

    #[test]
    fn random_bytes_never_panic(mut bytes in proptest::collection::vec(any::<u8>(), 61..300)) {
        bytes[16] = 2;
        let length = (bytes.len() - LENGTH_PREFIX_LEN) as i32;
        bytes[8..12].copy_from_slice(&length.to_be_bytes());
        let batch = RecordBatch::split_from(&mut Bytes::from(bytes)).unwrap().unwrap();
        let _ = batch.verify_crc();
        let _ = batch.header().last_sequence();
        let _ = batch.header().next_offset();
        if let Ok(records) = batch.records(1 << 16) {
            let _ = records.count();
        }
        let _ = EndTxnMarker::from_batch(&batch);
    }
}

#[test]
fn the_first_record_from_an_offset_is_found_without_the_others() {
    for codec in Codec::ALL {
        let mut batch = sample(codec);
        batch.place(Offset(10), LeaderEpoch(0));
        let from = |offset| batch.first_record_from(Offset(offset), 1 << 20).unwrap();
        assert_eq!(from(3), Some((Offset(10), Timestamp(1_000))));
        assert_eq!(from(11), Some((Offset(11), Timestamp(900))));
        assert_eq!(from(12), Some((Offset(12), Timestamp(i64::MAX / 2))));
        assert_eq!(from(13), None);
        // The last record is the long one: what lies before it is within the limit.
        if codec == Codec::None {
            assert!(batch.first_record_from(Offset(11), 64).is_ok());
            assert!(batch.first_record_from(Offset(13), 64).is_err());
        }
    }
    let mut stamped = sample(Codec::Lz4);
    stamped.stamp_log_append_time(Timestamp(77));
    assert_eq!(
        stamped.first_record_from(Offset(1), 1 << 20).unwrap(),
        Some((Offset(1), Timestamp(77)))
    );
}
