//! Fetch: planning, sessions, execution.
pub mod session;
