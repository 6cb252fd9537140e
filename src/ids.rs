//! The broker's only source of randomness: ids that nobody may guess or has used before.
#![allow(clippy::disallowed_methods)]

use uuid::Uuid;

/// A fresh id for a cluster or a topic; never nil, which means "none" on the wire.
#[must_use]
pub fn new_uuid() -> Uuid {
    Uuid::new_v4()
}

/// A fresh id for an incremental fetch session (KIP-227): positive, 0 means "no session".
#[must_use]
pub fn fetch_session_id() -> i32 {
    rand::random_range(1..=i32::MAX)
}
