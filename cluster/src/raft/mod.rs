//! The only folder that names openraft: a group's log, its state machine, its messages and its
//! life, behind types of our own.
//!
//! Everything outside sees [`RaftGroup`], [`GroupCommand`], [`Machine`] and plain numbers.

mod codec;
mod command;
mod forced;
mod group;
mod log_storage;
mod machine;
mod membership;
mod network;
mod pacing;
mod snapshot;
mod standing;
mod state_machine;
mod type_config;

#[cfg(test)]
mod suite_tests;

pub(crate) use command::{AppendObserver, Applied, GroupCommand, ProposeError};
pub(crate) use forced::force_membership;
pub(crate) use group::{
    Clock, GroupOptions, LeaderState, PeerProgress, Progress, RaftGroup, SnapshotPolicy, Timing,
    broker_id, spawn,
};
pub(crate) use log_storage::{DurabilityCell, wait, waiter};
pub(crate) use machine::Machine;
pub(crate) use pacing::Pacing;
pub(crate) use snapshot::{purge_dormant, votes_alone};
pub(crate) use standing::{LogStanding, may_vote_without_log};
#[cfg(feature = "sim")]
pub(crate) use type_config::scope;
