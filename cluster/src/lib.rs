//! Raft over the storage crate: the metadata log, and one replicated log per partition.
//!
//! `cluster` wires one node; `replica` is a partition on this broker; `metadata` is what the
//! metadata log says, and `controller` keeps that log; `transport` is how brokers talk. Only
//! `raft` names openraft. Nothing here knows of client connections or consumer groups.

mod blocking;
pub mod cluster;
mod controller;
pub mod error;
mod limits;
pub mod metadata;
pub mod options;
mod raft;
pub mod replica;
#[cfg(feature = "sim")]
pub mod testing;
pub mod transport;

pub use blocking::off_worker;
pub use cluster::Cluster;
pub use controller::elections::ElectionOutcome;
pub use controller::quorum::{Quorum, QuorumReplica};
pub use error::{AppendError, ClusterError, ReadError};
pub use options::{ClusterOptions, PeerOptions, ReplicaSettings};
