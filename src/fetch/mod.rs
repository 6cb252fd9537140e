//! Fetch: which partitions (session), what of them and when (planner), from which replica
//! (selector), and the reading and waiting itself (executor).

pub mod executor;
pub mod planner;
pub mod replica_selector;
pub mod session;
