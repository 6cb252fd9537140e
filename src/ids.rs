//! The broker's only source of randomness: ids that nobody may guess or has used before. In a
//! simulation they come from the seed.
#![allow(clippy::disallowed_methods)]

use uuid::Uuid;

/// A fresh id for a cluster or a topic; never nil, which means "none" on the wire.
#[cfg(not(feature = "sim"))]
#[must_use]
pub fn new_uuid() -> Uuid {
    Uuid::new_v4()
}

/// A fresh id for a cluster or a topic; never nil, which means "none" on the wire.
#[cfg(feature = "sim")]
#[must_use]
pub fn new_uuid() -> Uuid {
    uuid::Builder::from_random_bytes(cluster::testing::random_bytes()).into_uuid()
}

/// A fresh id for an incremental fetch session (KIP-227): positive, 0 means "no session".
#[must_use]
pub fn fetch_session_id() -> i32 {
    // The low end of a version 4 UUID is random throughout.
    let bits = new_uuid().as_u128() as u32;
    ((bits >> 1) as i32).max(1)
}
