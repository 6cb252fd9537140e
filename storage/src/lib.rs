//! The logs of all partitions of one broker, and a small key-value store: a journal of record
//! bytes, and an index over it.
pub mod disk;
pub mod disk_budget;
pub mod error;
pub mod kv;
pub mod log_store;
pub mod producer_state;
pub mod retention;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub use error::StorageError;
