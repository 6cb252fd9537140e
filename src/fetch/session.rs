//! Incremental fetch sessions (KIP-227).
//!
//! Pure: no I/O, no clock, no randomness.

/// The broker's fetch sessions, bounded by `max.incremental.fetch.session.cache.slots`.
#[derive(Debug, Default)]
pub struct FetchSessionCache {}
