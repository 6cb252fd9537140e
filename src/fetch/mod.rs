//! Fetch: which partitions (session), what of them and when (planner), and the reading and waiting
//! itself (executor).

pub mod executor;
pub mod planner;
pub mod session;
