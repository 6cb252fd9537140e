//! What the tests and benches drive a broker with from outside: a raw client that can send
//! anything, and a broker process that can be killed.
//!
//! Knows nothing of the broker's crates but `protocol`'s record batches. The folders beside `src`
//! hold the runs of real clients; `run.sh` starts them.

#![allow(clippy::disallowed_methods, reason = "tests wait for real time")]

pub mod batches;
pub mod broker;
pub mod client;
pub mod cluster;
pub mod load;
pub mod pauses;
pub mod requests;
pub mod router;

pub use broker::{Broker, BrokerOptions};
pub use client::Connection;
