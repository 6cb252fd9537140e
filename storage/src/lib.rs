//! The logs of all partitions of one broker, and a small key-value store: a journal of record
//! bytes, and an index over it.
pub mod error;
pub mod log_store;
pub mod producer_state;
pub use error::StorageError;
