//! A partition's replica on this broker.
pub mod handle;
pub use handle::{AppendTicket, Appended, Replica, ReplicaOffsets};
