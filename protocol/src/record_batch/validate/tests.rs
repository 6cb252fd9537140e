//! One claim per rule, each on the bytes a client would send.

use super::*;
use crate::record_batch::{ControlKind, EndTxnMarker, HEADER_LEN};
use crate::types::{ProducerEpoch, ProducerId};

const NOW: Timestamp = Timestamp(1_700_000_000_000);

fn rules() -> ValidationRules {
    ValidationRules::client(9, NOW)
}

fn builder(codec: Codec) -> BatchBuilder {
    BatchBuilder::new()
        .codec(codec)
        .record(NOW, Some(b"k1"), Some(b"v1"))
        .record_with_headers(Timestamp(NOW.0 + 5), Some(b"k2"), None, &[("h", None)])
        .record(Timestamp(NOW.0 - 5), Some(b"k3"), Some(b"v3"))
}

fn bytes(codec: Codec) -> Bytes {
    builder(codec).build().unwrap().to_bytes()
}

/// The batch with one header field written over and its CRC made right again.
fn patched(records: &Bytes, at: usize, field: &[u8]) -> Bytes {
    let mut head = [0; HEADER_LEN];
    head.copy_from_slice(&records[..HEADER_LEN]);
    head[at..at + field.len()].copy_from_slice(field);
    let body = records.slice(HEADER_LEN..);
    let mut batch = RecordBatch::from_parts(head, body).unwrap();
    batch.renew_crc();
    batch.to_bytes()
}

fn refusal(records: &Bytes, rules: &ValidationRules) -> ErrorCode {
    validate_for_append(records, rules).unwrap_err().error_code
}

#[test]
fn a_good_batch_passes_untouched_and_uncopied() {
    for codec in Codec::ALL {
        let records = bytes(codec);
        let validated = validate_for_append(&records, &rules()).unwrap();
        assert_eq!(validated.batch.to_bytes(), records);
        assert_eq!(validated.log_append_time, Timestamp::UNKNOWN);
        assert!(records.as_ptr_range().contains(&validated.batch.body().as_ptr()));
    }
}

#[test]
fn exactly_one_batch_of_format_two_is_taken() {
    let records = bytes(Codec::None);
    assert_eq!(refusal(&Bytes::new(), &rules()), ErrorCode::InvalidRecord);
    assert_eq!(refusal(&records.slice(..records.len() - 1), &rules()), ErrorCode::InvalidRecord);
    let two = Bytes::from([&records[..], &records[..]].concat());
    assert_eq!(refusal(&two, &rules()), ErrorCode::InvalidRecord);
    for (magic, code) in [
        (0, ErrorCode::InvalidRecord),
        (1, ErrorCode::InvalidRecord),
        (3, ErrorCode::CorruptMessage),
    ] {
        let mut other = records.to_vec();
        other[16] = magic;
        assert_eq!(refusal(&Bytes::from(other), &rules()), code);
    }
}

#[test]
fn a_rest_that_is_no_batch_is_dropped() {
    let records = bytes(Codec::None);
    for rest in [&records[..10], &records[..40]] {
        let with_rest = Bytes::from([&records[..], rest].concat());
        let validated = validate_for_append(&with_rest, &rules()).unwrap();
        assert_eq!(validated.batch.to_bytes(), records);
    }
    let zeros = Bytes::from([&records[..], &[0; 20]].concat());
    assert_eq!(refusal(&zeros, &rules()), ErrorCode::CorruptMessage);
}

#[test]
fn zstd_needs_a_client_that_knows_it() {
    let old = ValidationRules { api_version: 6, ..rules() };
    assert_eq!(refusal(&bytes(Codec::Zstd), &old), ErrorCode::UnsupportedCompressionType);
    assert!(validate_for_append(&bytes(Codec::Lz4), &old).is_ok());
    let new = ValidationRules { api_version: 7, ..rules() };
    assert!(validate_for_append(&bytes(Codec::Zstd), &new).is_ok());
}

#[test]
fn an_unknown_codec_is_refused() {
    let records = patched(&bytes(Codec::None), 21, &[0, 5]);
    assert_eq!(refusal(&records, &rules()), ErrorCode::UnsupportedCompressionType);
}

#[test]
fn a_broken_crc_is_corrupt() {
    let mut records = bytes(Codec::Gzip).to_vec();
    let last = records.len() - 1;
    records[last] ^= 0x10;
    assert_eq!(refusal(&Bytes::from(records), &rules()), ErrorCode::CorruptMessage);
}

#[test]
fn a_body_that_does_not_decompress_is_refused() {
    for codec in &Codec::ALL[1..] {
        let good = bytes(*codec);
        let mut head = [0; HEADER_LEN];
        head.copy_from_slice(&good[..HEADER_LEN]);
        let mut body = good[HEADER_LEN..].to_vec();
        let junk = body.len().min(20);
        body[..junk].fill(0xa5);
        let mut batch = RecordBatch::from_parts(head, body.into()).unwrap();
        batch.renew_crc();
        assert_eq!(refusal(&batch.to_bytes(), &rules()), ErrorCode::InvalidRecord, "{codec:?}");
    }
}

#[test]
fn counts_that_contradict_each_other_are_refused() {
    let records = bytes(Codec::None);
    for (count, last_delta) in [(0i32, -1i32), (0, 2), (-1, 2), (3, -1), (3, 3), (2, 2)] {
        let bad = patched(&records, 57, &count.to_be_bytes());
        let bad = patched(&bad, 23, &last_delta.to_be_bytes());
        assert_eq!(refusal(&bad, &rules()), ErrorCode::InvalidRecord, "{count} {last_delta}");
    }
}

#[test]
fn a_count_that_the_records_do_not_bear_out_is_refused() {
    for codec in Codec::ALL {
        for (count, last_delta) in [(2i32, 1i32), (4, 3), (i32::MAX, i32::MAX - 1)] {
            let bad = patched(&bytes(codec), 57, &count.to_be_bytes());
            let bad = patched(&bad, 23, &last_delta.to_be_bytes());
            let refused = validate_for_append(&bad, &rules()).unwrap_err();
            assert_eq!(refused.error_code, ErrorCode::InvalidRecord, "{codec:?} {count}");
        }
    }
}

#[test]
fn offset_deltas_that_do_not_count_up_are_refused_or_counted_anew() {
    for codec in Codec::ALL {
        let good = builder(codec).build().unwrap();
        let mut builder = BatchBuilder::new().codec(codec);
        for (record, offset_delta) in good.records(1 << 20).unwrap().zip([1, 2, 2]) {
            let mut record = record.unwrap();
            record.offset_delta = offset_delta;
            builder.push_record(&record);
        }
        let bad = builder.build().unwrap().to_bytes();
        let judged = validate_for_append(&bad, &rules());
        if codec == Codec::None {
            assert_eq!(judged.unwrap_err().error_code, ErrorCode::InvalidRecord);
        } else {
            let batch = judged.unwrap().batch;
            let deltas: Vec<_> =
                batch.records(1 << 20).unwrap().map(|r| r.unwrap().offset_delta).collect();
            assert_eq!(deltas, [0, 1, 2]);
            batch.verify_crc().unwrap();
        }
    }
}

#[test]
fn clients_may_not_write_control_batches_nor_lack_a_sequence() {
    let marker = EndTxnMarker { kind: ControlKind::Commit, coordinator_epoch: 1 };
    let marker = marker.to_batch(ProducerId(1), ProducerEpoch(0), NOW).unwrap().to_bytes();
    assert_eq!(refusal(&marker, &rules()), ErrorCode::InvalidRecord);
    let ours = ValidationRules { is_client: false, ..rules() };
    assert!(validate_for_append(&marker, &ours).is_ok());

    let no_sequence = builder(Codec::None).producer(ProducerId(1), ProducerEpoch(0), -1);
    let no_sequence = no_sequence.build().unwrap().to_bytes();
    assert_eq!(refusal(&no_sequence, &rules()), ErrorCode::InvalidRecord);

    let placed = builder(Codec::None).base_offset(Offset(5)).build().unwrap().to_bytes();
    assert_eq!(refusal(&placed, &rules()), ErrorCode::InvalidRecord);
    assert!(validate_for_append(&placed, &ours).is_ok());
}

#[test]
fn size_counts_on_the_wire_and_again_after_recompression() {
    let zeros = [0; 4096];
    let records = |codec| {
        let builder = BatchBuilder::new().codec(codec).record(NOW, None, Some(&zeros));
        builder.build().unwrap().to_bytes()
    };
    let small = ValidationRules { max_message_bytes: 1000, ..rules() };
    assert_eq!(refusal(&records(Codec::None), &small), ErrorCode::MessageTooLarge);
    assert!(validate_for_append(&records(Codec::Zstd), &small).is_ok());
    let inflating = ValidationRules { target_codec: Some(Codec::None), ..small };
    assert_eq!(refusal(&records(Codec::Zstd), &inflating), ErrorCode::MessageTooLarge);
}

#[test]
fn compacted_topics_name_the_records_without_keys() {
    for codec in Codec::ALL {
        let records = BatchBuilder::new()
            .codec(codec)
            .record(NOW, Some(b"k"), None)
            .record(NOW, None, Some(b"v"))
            .record(NOW, None, Some(b"v"))
            .build()
            .unwrap()
            .to_bytes();
        let compacted = ValidationRules { compacted: true, ..rules() };
        let refused = validate_for_append(&records, &compacted).unwrap_err();
        assert_eq!(refused.error_code, ErrorCode::InvalidRecord);
        let named: Vec<_> = refused.record_errors.iter().map(|(index, _)| *index).collect();
        assert_eq!(named, [1, 2], "{codec:?}");
    }
}

#[test]
fn timestamps_out_of_range_are_named() {
    for codec in Codec::ALL {
        let late = Timestamp(NOW.0 + 3_600_001);
        let early = Timestamp(NOW.0 - 10_001);
        let records = BatchBuilder::new()
            .codec(codec)
            .record(NOW, None, None)
            .record(late, None, None)
            .record(early, None, None)
            .record(Timestamp::UNKNOWN, None, None)
            .build()
            .unwrap()
            .to_bytes();
        for (before_max_ms, expected) in [(i64::MAX, vec![1]), (10_000, vec![1, 2])] {
            let rules = ValidationRules { before_max_ms, ..rules() };
            let refused = validate_for_append(&records, &rules).unwrap_err();
            assert_eq!(refused.error_code, ErrorCode::InvalidTimestamp);
            let named: Vec<_> = refused.record_errors.iter().map(|(index, _)| *index).collect();
            assert_eq!(named, expected, "{codec:?}");
        }
    }
}

#[test]
fn log_append_time_is_stamped_and_may_not_be_claimed() {
    let topic = ValidationRules { timestamp_type: TimestampType::LogAppendTime, ..rules() };
    for codec in Codec::ALL {
        let validated = validate_for_append(&bytes(codec), &topic).unwrap();
        assert_eq!(validated.log_append_time, NOW);
        assert_eq!(validated.batch.header().timestamp_type(), TimestampType::LogAppendTime);
        assert_eq!(validated.batch.header().max_timestamp, NOW);
        validated.batch.verify_crc().unwrap();
    }
    let claimed = builder(Codec::Lz4).timestamp_type(TimestampType::LogAppendTime);
    let claimed = claimed.build().unwrap().to_bytes();
    assert_eq!(refusal(&claimed, &topic), ErrorCode::InvalidTimestamp);
    let create_time = validate_for_append(&claimed, &rules()).unwrap();
    assert_eq!(create_time.batch.header().timestamp_type(), TimestampType::CreateTime);
    create_time.batch.verify_crc().unwrap();
}

#[test]
fn a_wrong_maximum_timestamp_is_put_right() {
    let records = patched(&bytes(Codec::None), 35, &(NOW.0 + 999).to_be_bytes());
    let validated = validate_for_append(&records, &rules()).unwrap();
    assert_eq!(validated.batch.header().max_timestamp, Timestamp(NOW.0 + 5));
    validated.batch.verify_crc().unwrap();
}

#[test]
fn another_codec_keeps_records_and_producer() {
    for source in Codec::ALL {
        for target in Codec::ALL {
            let batch = builder(source).producer(ProducerId(4), ProducerEpoch(2), 77);
            let batch = batch.transactional(true).build().unwrap();
            let rules = ValidationRules { target_codec: Some(target), ..rules() };
            let kept = validate_for_append(&batch.to_bytes(), &rules).unwrap().batch;
            kept.verify_crc().unwrap();
            assert_eq!(kept.header().codec(), Some(target));
            assert!(kept.header().is_transactional());
            assert_eq!(kept.header().producer_id, ProducerId(4));
            assert_eq!(kept.header().base_sequence, 77);
            assert_eq!(kept.header().last_offset_delta, 2);
            assert_eq!(kept.header().max_timestamp, batch.header().max_timestamp);
            let records = |batch: &RecordBatch| {
                batch.records(1 << 20).unwrap().collect::<Result<Vec<_>, _>>().unwrap()
            };
            assert_eq!(records(&kept), records(&batch), "{source:?} to {target:?}");
        }
    }
}

#[test]
fn a_bomb_is_too_large() {
    let zeros = vec![0; 4 << 20];
    for codec in &Codec::ALL[1..] {
        let bomb = BatchBuilder::new().codec(*codec).record(NOW, None, Some(&zeros));
        let bomb = bomb.build().unwrap().to_bytes();
        let rules = ValidationRules { max_decompressed_bytes: 1 << 20, ..rules() };
        assert_eq!(refusal(&bomb, &rules), ErrorCode::MessageTooLarge, "{codec:?}");
    }
}

proptest::proptest! {
    #[test]
    fn damaged_batches_never_panic(
        codec in 0..5i8,
        damage in proptest::collection::vec((0..200usize, proptest::prelude::any::<u8>()), 1..6),
    ) {
        let good = bytes(Codec::from_id(codec).unwrap());
        let mut bad = good.to_vec();
        for (at, byte) in damage {
            let at = at % bad.len();
            if !(8..12).contains(&at) && at != 16 {
                bad[at] = byte;
            }
        }
        let mut batch = RecordBatch::split_from(&mut Bytes::from(bad)).unwrap().unwrap();
        batch.renew_crc();
        for target_codec in [None, Some(Codec::None), Some(Codec::Gzip)] {
            let max_decompressed_bytes = 1 << 20;
            let rules = ValidationRules { target_codec, max_decompressed_bytes, ..rules() };
            if let Ok(validated) = validate_for_append(&batch.to_bytes(), &rules) {
                let read = validated.batch.records(1 << 20).unwrap();
                proptest::prop_assert!(read.into_iter().all(|record| record.is_ok()));
            }
        }
    }
}
