//! Finding by time and planning retention.

use super::*;

fn stamps(timestamps: &[i64]) -> RecordBatch {
    let mut builder = BatchBuilder::new().codec(protocol::compression::Codec::Lz4);
    for timestamp in timestamps {
        builder = builder.record(Timestamp(*timestamp), None, Some(b"v"));
    }
    builder.build().unwrap()
}

fn found(timestamp: i64, offset: i64) -> Option<TimestampOffset> {
    let (timestamp, offset) = (Timestamp(timestamp), Offset(offset));
    Some(TimestampOffset { timestamp, offset, leader_epoch: LeaderEpoch(1) })
}

fn fill(_: &LogStore, log: &GroupLog) {
    append(log, vec![batches(id(1, 0), vec![stamps(&[10, 30, 20]), stamps(&[25])])]);
    append(log, vec![opaque(id(1, 1), b"between")]);
    append(log, vec![batches(id(1, 2), vec![stamps(&[40, 50])])]);
    append(log, vec![batches(id(1, 3), vec![stamps(&[45, 50])])]);
}

#[test]
fn a_time_is_found_at_the_record() {
    thrice(fill, |log| {
        let at = |timestamp, upper| {
            log.offset_for_timestamp(Timestamp(timestamp), Offset(upper)).unwrap()
        };
        assert_eq!(at(0, 100), found(10, 0));
        assert_eq!(at(11, 100), found(30, 1));
        assert_eq!(at(30, 100), found(30, 1));
        assert_eq!(at(31, 100), found(40, 4));
        assert_eq!(at(50, 100), found(50, 5));
        assert_eq!(at(51, 100), None);
        assert_eq!(at(31, 4), None);
        assert_eq!(at(50, 5), None);
    });
}

#[test]
fn the_largest_timestamp_is_found_at_its_first_record() {
    thrice(fill, |log| {
        let at = |upper| log.offset_of_max_timestamp(Offset(upper)).unwrap();
        assert_eq!(at(100), found(50, 5));
        assert_eq!(at(4), found(30, 1));
        assert_eq!(at(0), None);
    });
}

#[test]
fn a_purged_maximum_does_not_hide_later_times() {
    thrice(
        |_, log| {
            append(log, vec![batches(id(1, 0), vec![stamps(&[9_000])])]);
            for index in 1..50 {
                append(log, vec![batches(id(1, index), vec![stamps(&[index as i64 * 10])])]);
            }
            log.purge(id(1, 0), ignore()).unwrap();
        },
        |log| {
            let end = Offset(100);
            let at = |timestamp| log.offset_for_timestamp(Timestamp(timestamp), end).unwrap();
            assert_eq!(at(201), found(210, 21));
            assert_eq!(at(491), None);
            assert_eq!(log.offset_of_max_timestamp(Offset(100)).unwrap(), found(490, 49));
        },
    );
}

#[test]
fn retention_is_exact_to_the_batch() {
    let size = stamps(&[0]).size_in_bytes() as i64;
    thrice(
        |_, log| {
            for index in 0..10 {
                let at = index as i64 * 20;
                append(log, vec![batches(id(1, index), vec![stamps(&[at]), stamps(&[at + 10])])]);
            }
            log.set_log_start_offset(Offset(3), Box::new(|_| ())).unwrap();
        },
        |log| {
            let plan = |now, ms, bytes, upper| {
                log.plan_retention(Timestamp(now), ms, bytes, Offset(upper)).unwrap()
            };
            assert_eq!(plan(200, None, None, 20), None);
            assert_eq!(plan(200, Some(1000), None, 20), None);
            assert_eq!(plan(200, Some(100), None, 20), Some(Offset(10)));
            assert_eq!(plan(200, Some(100), None, 7), Some(Offset(7)));
            assert_eq!(plan(2000, Some(100), None, 20), Some(Offset(20)));
            assert_eq!(plan(0, None, Some(5 * size), 20), Some(Offset(15)));
            assert_eq!(plan(0, None, Some(17 * size), 20), None);
            assert_eq!(plan(0, None, Some(17 * size - 1), 20), None);
            assert_eq!(plan(0, None, Some(16 * size), 20), Some(Offset(4)));
            assert_eq!(log.last_entry_below(Offset(15)).unwrap(), Some(id(1, 6)));
        },
    );
}

#[test]
fn the_next_record_is_found_within_its_batch_and_behind_gaps() {
    thrice(
        |store, log| {
            fill(store, log);
            append(log, vec![opaque(id(1, 4), b"between")]);
            append(log, vec![batches(id(1, 5), vec![marker(), stamps(&[7, 60])])]);
        },
        |log| {
            let at = |offset, upper| {
                let next = log.next_record(Offset(offset), Offset(upper)).unwrap();
                next.map(|next| (next.offset.0, next.timestamp.0, next.expires_with.0))
            };
            assert_eq!(at(0, 100), Some((0, 10, 30)));
            assert_eq!(at(1, 100), Some((1, 30, 30)));
            assert_eq!(at(2, 100), Some((2, 20, 30)));
            // The batch itself is younger than the one before it, which has to go first.
            assert_eq!(at(3, 100), Some((3, 25, 30)));
            assert_eq!(at(4, 100), Some((4, 40, 50)));
            assert_eq!(at(6, 100), Some((6, 45, 50)));
            assert_eq!(at(7, 100), Some((7, 50, 50)));
            // Offset 8 is a marker's.
            assert_eq!(at(8, 100), Some((9, 7, 999)));
            assert_eq!(at(10, 100), Some((10, 60, 999)));
            assert_eq!(at(11, 100), None);
            assert_eq!(at(8, 9), None);
            assert_eq!(at(4, 4), None);
        },
    );
}

fn marker() -> RecordBatch {
    let kind = protocol::record_batch::ControlKind::Commit;
    let marker = protocol::record_batch::EndTxnMarker { kind, coordinator_epoch: 0 };
    marker.to_batch(ProducerId(1), ProducerEpoch(0), Timestamp(999)).unwrap()
}

#[test]
fn positions_are_bytes_of_records_and_outlive_what_is_purged() {
    let size = stamps(&[0]).size_in_bytes() as u64;
    thrice(
        |_, log| {
            append(log, vec![batches(id(1, 0), vec![stamps(&[0]), stamps(&[1])])]);
            append(log, vec![opaque(id(1, 1), b"")]);
            append(log, vec![batches(id(1, 2), vec![stamps(&[2]), stamps(&[3])])]);
            append(log, vec![batches(id(1, 3), vec![stamps(&[4])])]);
            log.purge(id(1, 0), ignore()).unwrap();
        },
        |log| {
            let end = log.end_position();
            let behind = |offset| {
                let next = log.next_record(Offset(offset), Offset(5)).unwrap().unwrap();
                end - next.batch_end_position
            };
            assert_eq!((behind(2), behind(3), behind(4)), (2 * size, size, 0));
            assert_eq!(end, 5 * size);
        },
    );
}
