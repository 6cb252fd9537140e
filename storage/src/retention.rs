//! What retention deletes: a new log start offset, exact to the batch, by time and by size
//! (Kafka: `UnifiedLog.deleteOldSegments`, which is exact to the segment).
//!
//! Pure: no I/O, no clock, no randomness.
//!
//! Batches go from the oldest on, and the first one that has to stay ends it:
//! - By time, a batch goes when its maximum timestamp lies more than `retention_ms` back. One from
//!   the future stays, and what lies behind it with it, until its time has come. One without a
//!   timestamp (-1) has no age: it goes together with the first expired batch behind it.
//! - By size, a batch goes when at least `retention_bytes` remain without it, so that a log keeps
//!   no less than was asked for, and less than one batch more.

use protocol::types::{Offset, Timestamp};

/// A batch, or a run of neighbours that retention need not tell apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Offset of its first record.
    pub base_offset: Offset,
    /// The offset behind its last record.
    pub next_offset: Offset,
    /// The largest timestamp in it, -1 if there is none.
    pub max_timestamp: Timestamp,
    /// Its bytes on disk.
    pub size_bytes: u64,
}

/// What a topic wants kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RetentionConfig {
    /// `retention.ms`; `None` for -1, without limit.
    pub retention_ms: Option<i64>,
    /// `retention.bytes`; `None` for -1, without limit.
    pub retention_bytes: Option<i64>,
}

/// The log whose beginning is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetainedLog {
    /// Where it starts now.
    pub log_start_offset: Offset,
    /// Nothing at or beyond this offset goes (the high watermark).
    pub upper_bound: Offset,
    /// Bytes of all its extents, also of those beyond `upper_bound`.
    pub size_bytes: u64,
}

/// The offset that the log should start at, if that is further on than now.
///
/// `extents` are those of the log from the oldest on. They are taken one by one, and no further
/// than the first that stays: a log of which nothing goes costs one extent.
///
/// # Errors
/// What `extents` yields.
pub fn plan<E>(
    now: Timestamp,
    log: RetainedLog,
    config: RetentionConfig,
    extents: impl IntoIterator<Item = Result<Extent, E>>,
) -> Result<Option<Offset>, E> {
    let mut by_time = config.retention_ms.is_some();
    // A negative size is unlimited on the wire; here it cannot keep less than nothing.
    let mut surplus_bytes = config
        .retention_bytes
        .map(|keep| log.size_bytes.saturating_sub(u64::try_from(keep).unwrap_or(0)));
    let mut start = log.log_start_offset;
    if !by_time && surplus_bytes.is_none_or(|surplus| surplus == 0) {
        return Ok(None);
    }
    for extent in extents {
        let extent = extent?;
        if extent.next_offset > log.upper_bound {
            break;
        }
        let mut goes = false;
        if by_time {
            match age(now, extent.max_timestamp, config.retention_ms) {
                Age::Expired => goes = true,
                Age::Unknown => {}
                Age::Young => by_time = false,
            }
        }
        surplus_bytes = surplus_bytes.and_then(|surplus| surplus.checked_sub(extent.size_bytes));
        goes |= surplus_bytes.is_some();
        if goes {
            start = start.max(extent.next_offset);
        }
        if !by_time && surplus_bytes.is_none() {
            break;
        }
    }
    Ok((start > log.log_start_offset).then_some(start))
}

enum Age {
    Young,
    Expired,
    Unknown,
}

fn age(now: Timestamp, max_timestamp: Timestamp, retention_ms: Option<i64>) -> Age {
    match retention_ms {
        _ if max_timestamp.0 < 0 => Age::Unknown,
        Some(limit_ms) if now.0.saturating_sub(max_timestamp.0) > limit_ms => Age::Expired,
        _ => Age::Young,
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    const NOW: Timestamp = Timestamp(10_000);

    /// Batches of ten offsets and a hundred bytes each, with these timestamps.
    fn batches(timestamps: &[i64]) -> Vec<Extent> {
        let batch = |(index, timestamp): (i64, &i64)| Extent {
            base_offset: Offset(index * 10),
            next_offset: Offset(index * 10 + 10),
            max_timestamp: Timestamp(*timestamp),
            size_bytes: 100,
        };
        (0..).zip(timestamps).map(batch).collect()
    }

    fn log(extents: &[Extent]) -> RetainedLog {
        RetainedLog {
            log_start_offset: Offset(0),
            upper_bound: extents.last().map_or(Offset(0), |last| last.next_offset),
            size_bytes: extents.iter().map(|extent| extent.size_bytes).sum(),
        }
    }

    fn planned(timestamps: &[i64], ms: Option<i64>, bytes: Option<i64>) -> Option<i64> {
        let extents = batches(timestamps);
        let config = RetentionConfig { retention_ms: ms, retention_bytes: bytes };
        let extents_read = extents.iter().copied().map(Ok::<_, Infallible>);
        let Ok(start) = plan(NOW, log(&extents), config, extents_read);
        start.map(|offset| offset.0)
    }

    #[test]
    fn a_batch_goes_when_it_is_older_than_the_limit_and_not_when_as_old() {
        assert_eq!(planned(&[8_999, 9_000, 9_001], Some(1_000), None), Some(10));
        assert_eq!(planned(&[9_000, 9_001], Some(1_000), None), None);
        assert_eq!(planned(&[1, 2, 3], Some(1_000), None), Some(30));
    }

    #[test]
    fn a_young_batch_keeps_what_lies_behind_it() {
        assert_eq!(planned(&[1, 9_999, 1, 1], Some(1_000), None), Some(10));
    }

    #[test]
    fn a_timestamp_from_the_future_stays_until_its_time_has_come() {
        assert_eq!(planned(&[1, 20_000, 1], Some(1_000), None), Some(10));
        assert_eq!(planned(&[i64::MAX, 1], Some(0), None), None);
    }

    #[test]
    fn a_batch_without_a_timestamp_goes_with_the_expired_one_behind_it() {
        assert_eq!(planned(&[-1, -1], Some(1_000), None), None);
        assert_eq!(planned(&[-1, 1, -1, 9_999], Some(1_000), None), Some(20));
        assert_eq!(planned(&[-1, 9_999, 1], Some(1_000), None), None);
    }

    #[test]
    fn at_least_the_bytes_asked_for_are_kept_and_less_than_a_batch_more() {
        assert_eq!(planned(&[1; 5], None, Some(500)), None);
        assert_eq!(planned(&[1; 5], None, Some(499)), None);
        assert_eq!(planned(&[1; 5], None, Some(400)), Some(10));
        assert_eq!(planned(&[1; 5], None, Some(101)), Some(30));
        assert_eq!(planned(&[1; 5], None, Some(0)), Some(50));
    }

    #[test]
    fn the_stricter_of_both_limits_counts() {
        assert_eq!(planned(&[1, 1, 1, 9_999], Some(1_000), Some(300)), Some(30));
        assert_eq!(planned(&[1, 9_999, 9_999, 9_999], Some(1_000), Some(200)), Some(20));
        assert_eq!(planned(&[-1, -1, 9_999], Some(1_000), Some(200)), Some(10));
    }

    #[test]
    fn nothing_at_or_beyond_the_upper_bound_goes() {
        let extents = batches(&[1; 5]);
        for (upper_bound, expected) in [(0, None), (15, Some(10)), (20, Some(20)), (21, Some(20))] {
            let log = RetainedLog { upper_bound: Offset(upper_bound), ..log(&extents) };
            let config = RetentionConfig { retention_ms: Some(1_000), retention_bytes: Some(0) };
            let Ok(start) =
                plan(NOW, log, config, extents.iter().copied().map(Ok::<_, Infallible>));
            assert_eq!(start, expected.map(Offset), "upper bound {upper_bound}");
        }
    }

    #[test]
    fn a_log_start_within_a_batch_does_not_move_back() {
        let extents = batches(&[1, 9_999]);
        let log = RetainedLog { log_start_offset: Offset(15), ..log(&extents) };
        let config = RetentionConfig { retention_ms: Some(1_000), retention_bytes: None };
        let Ok(start) = plan(NOW, log, config, extents.into_iter().map(Ok::<_, Infallible>));
        assert_eq!(start, None);
    }

    #[test]
    fn no_more_extents_are_taken_than_up_to_the_first_that_stays() {
        let extents = batches(&[1, 9_999, 1]);
        let config = RetentionConfig { retention_ms: Some(1_000), retention_bytes: Some(300) };
        let mut taken = 0;
        let counted = extents.iter().map(|extent| {
            taken += 1;
            Ok::<_, Infallible>(*extent)
        });
        let Ok(start) = plan(NOW, log(&extents), config, counted);
        assert_eq!((start, taken), (Some(Offset(10)), 2));
        let unlimited =
            plan(NOW, log(&extents), RetentionConfig::default(), [Err("not looked at")]);
        assert_eq!(unlimited, Ok(None));
    }
}
