//! Kafka's wire format: bytes to values and back.
//!
//! Messages are `kafka-protocol`'s; what a broker must not leave to a message library is here:
//! framing, headers, decoding that survives any bytes, fetch responses that do not copy records,
//! and record batches as one header to patch and one body to pass on.
//!
//! What this crate does not have, and must not: sockets, files, clocks, randomness, threads, and
//! knowledge of any other crate of ours.

pub mod api;
pub mod compression;
pub mod consumer_protocol;
pub mod error_code;
pub mod fetch_response;
pub mod frame;
pub mod header;
pub mod record_batch;
pub mod request;
pub mod response;
pub mod types;
mod varint;

pub use api::{ApiSpec, Stage};
pub use error_code::ErrorCode;
