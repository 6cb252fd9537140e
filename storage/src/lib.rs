//! The logs of all partitions of one broker, and a small key-value store: a journal of record
//! bytes, and an index over it.
//!
//! [`log_store::LogStore`] is the door. `append` gives batches their offsets, keeps them in memory
//! (`tail`) and queues them; the journal's writer (`journal`) puts them into the journal, syncs,
//! calls back, and brings the index (`index`) up to date; `reclaim` unlinks files in which nothing
//! lives. Under it are two traits, [`disk::Disk`] and [`kv::KvStore`], each with a real and a
//! simulated implementation.
//!
//! Absences: nothing here knows of Raft, of topics, or of Kafka's messages; nothing reads a clock.

mod codec;
pub mod disk;
pub mod error;
pub mod index;
pub mod journal;
pub mod kv;
pub mod limits;
pub mod log_store;
pub mod producer_state;
mod reclaim;
pub mod retention;
mod tail;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub use error::StorageError;
