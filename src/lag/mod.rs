//! Consumer lag as a fact of the broker: how far behind each group is on each partition, in records
//! and in time, how fast it catches up, when what it has not read is deleted, and what it has lost.
//!
//! `table` holds what is known of every group and partition, `partition` evaluates one of them out
//! of its last commits (`window`), the log's growth (`growth`) and what was deleted unread
//! (`ledger`): all of them pure. `service` is the rim: it feeds the table with what the group
//! coordinator replays and what the logs say, and evaluates when someone asks, and only then.

pub mod growth;
pub mod ledger;
pub mod members;
pub mod partition;
pub mod service;
pub mod table;
pub mod window;

#[cfg(test)]
mod tests;

/// A figure, or why it is not known.
pub type Known<T> = Result<T, &'static str>;
