//! The broker's only source of time: whatever decides by time is told it, and can be told another
//! in a test. In a simulation it is the simulation's.
#![allow(clippy::disallowed_methods)]

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use protocol::types::Timestamp;

/// Milliseconds since the Unix epoch, as records and requests carry them.
#[must_use]
pub fn now() -> Timestamp {
    let since_epoch = since_epoch();
    Timestamp(i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX))
}

#[cfg(not(feature = "sim"))]
fn since_epoch() -> Duration {
    std::time::UNIX_EPOCH.elapsed().unwrap_or_default()
}

/// Any date does, as long as it is the same in every run.
#[cfg(feature = "sim")]
fn since_epoch() -> Duration {
    Duration::from_secs(1_700_000_000) + cluster::testing::elapsed()
}

/// For measuring how long something took, and for deadlines: never goes back.
#[cfg(not(feature = "sim"))]
#[must_use]
pub fn monotonic() -> Instant {
    Instant::now()
}

/// For measuring how long something took, and for deadlines: never goes back.
#[cfg(feature = "sim")]
#[must_use]
pub fn monotonic() -> Instant {
    *STEADY_ZERO + cluster::testing::elapsed()
}

/// How long ago that was.
#[must_use]
pub fn since(earlier: Instant) -> Duration {
    monotonic().saturating_duration_since(earlier)
}

static STEADY_ZERO: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Milliseconds on a clock that never jumps; its zero is some moment in this process.
#[must_use]
pub fn steady_ms() -> i64 {
    i64::try_from(since(*STEADY_ZERO).as_millis()).unwrap_or(i64::MAX)
}
