//! Kafka's wire format: bytes to values and back.
pub mod compression;
pub mod record_batch;
pub mod types;
mod varint;
