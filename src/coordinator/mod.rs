//! Coordinators: machines fed by the log of an internal topic's partition (`shard`), and what runs
//! them.

pub mod group;
pub mod group_runtime;
pub mod observer;
pub mod runtime;
pub mod shard;
