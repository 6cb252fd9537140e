//! The broker's only source of time: whatever decides by time is told it, and can be told another
//! in a test.
#![allow(clippy::disallowed_methods)]

use std::sync::LazyLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use protocol::types::Timestamp;

/// Milliseconds since the Unix epoch, as records and requests carry them.
#[must_use]
pub fn now() -> Timestamp {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX))
}

/// For measuring how long something took, and for deadlines: never goes back.
#[must_use]
pub fn monotonic() -> Instant {
    Instant::now()
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
