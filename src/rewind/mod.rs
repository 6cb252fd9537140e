//! Rewinding groups, also those that are at work: what an administrator asks, where that is on each
//! partition, and the question to the group's coordinator, which does it.

pub mod question;
pub mod service;
