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
