//! Raft over the storage crate: the metadata log, and one replicated log per partition.
pub mod cluster;
pub mod error;
pub mod metadata;
pub mod replica;
pub use cluster::{Cluster, ClusterOptions, ReplicaSettings};
pub use error::{AppendError, ClusterError, ReadError};
