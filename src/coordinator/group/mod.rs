//! The group coordinator's machine: consumer groups and their offsets, as a [`Shard`] for each
//! partition of `__consumer_offsets`.
//!
//! Pure: no I/O, no clock, no randomness.

pub mod config;
pub mod event;
pub mod topics;

use std::sync::Arc;

use self::event::{GroupConfig, GroupReply, GroupRequest, TopicsSnapshot};
use super::shard::{Effect, Event, KeyValue, Now, Shard};

/// The machine.
#[derive(Debug, PartialEq, Eq)]
pub struct GroupShard;

/// What the log says about the groups of one shard.
#[derive(Debug, Default)]
pub struct GroupHard {}

/// What is lost when the leader changes: sessions, rebalances under way, parked requests.
#[derive(Debug, Default)]
pub struct GroupSoft {
    /// The configuration.
    pub(crate) config: Arc<GroupConfig>,
    /// The topics.
    pub(crate) topics: Arc<TopicsSnapshot>,
}

impl GroupSoft {
    /// The soft state that the load of a shard starts with.
    #[must_use]
    pub fn new(config: Arc<GroupConfig>, topics: Arc<TopicsSnapshot>) -> GroupSoft {
        GroupSoft { config, topics }
    }
}

/// One entry of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GroupRecord {}

/// What a deadline is for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum GroupTimer {}

impl Shard for GroupShard {
    type Hard = GroupHard;
    type Soft = GroupSoft;
    type Request = GroupRequest;
    type Reply = GroupReply;
    type Record = GroupRecord;
    type Timer = GroupTimer;

    fn decide(
        _hard: &GroupHard,
        soft: &mut GroupSoft,
        _now: Now,
        event: Event<Self>,
        _effects: &mut Vec<Effect<Self>>,
    ) {
        match event {
            Event::Request(_, GroupRequest::Configure(config)) => soft.config = config,
            Event::Request(_, GroupRequest::TopicsChanged(topics)) => soft.topics = topics,
            _ => {}
        }
    }

    fn replay(_hard: &mut GroupHard, record: &GroupRecord) {
        match *record {}
    }

    fn snapshot(_hard: &GroupHard) -> Vec<GroupRecord> {
        Vec::new()
    }

    fn encode(record: &GroupRecord) -> KeyValue {
        match *record {}
    }

    fn decode(_record: &KeyValue) -> Result<Option<GroupRecord>, String> {
        Ok(None)
    }
}
