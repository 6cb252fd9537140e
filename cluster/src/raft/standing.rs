//! Whether a node has a say in elections: not while its log may lack what it has answered for.
//!
//! A disk that was emptied takes entries with it that the others count as held there. A vote of
//! such a node could help one into office that lacks them too. So it neither votes nor stands until
//! a leader, elected without it, has given it all that was committed by then.

use std::sync::atomic::{AtomicU8, Ordering};

use bytes::Bytes;
use protocol::types::BrokerId;
use storage::StorageError;
use storage::log_store::GroupLog;

use super::codec::{self, AppendRequest};
use super::group::{RaftGroup, broker_id};
use crate::transport::{PeerError, PeerMessage};

/// Where a group's log keeps it.
pub(super) const STANDING_KEY: &[u8] = b"standing";

/// What is known of a node's log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum LogStanding {
    /// It has all that the node ever answered for.
    Whole = 0,
    /// The log was empty at the start: the node's first, or one in place of another.
    New = 1,
    /// It is one in place of another.
    Lost = 2,
}

impl LogStanding {
    pub(super) fn to_bytes(self) -> Bytes {
        Bytes::copy_from_slice(&[self as u8])
    }

    fn from_byte(byte: u8) -> LogStanding {
        match byte {
            1 => LogStanding::New,
            2 => LogStanding::Lost,
            _ => LogStanding::Whole,
        }
    }
}

/// The standing of one group's log, kept with it.
pub(crate) struct Standing {
    log: GroupLog,
    now: AtomicU8,
}

impl Standing {
    /// As it was kept; a log that is empty and of which nothing is known is as `empty` says.
    pub(crate) fn open(log: GroupLog, empty: LogStanding) -> Result<Standing, StorageError> {
        let kept = log.get_state(STANDING_KEY)?;
        let state = log.log_state();
        let standing = match kept.as_deref() {
            Some([byte]) => LogStanding::from_byte(*byte),
            _ if state.last.is_some() || state.vote.is_some() => LogStanding::Whole,
            _ => empty,
        };
        let opened = Standing { log, now: AtomicU8::new(LogStanding::Whole as u8) };
        if standing != LogStanding::Whole {
            opened.set(standing)?;
        }
        Ok(opened)
    }

    pub(crate) fn now(&self) -> LogStanding {
        LogStanding::from_byte(self.now.load(Ordering::Acquire))
    }

    /// Takes hold at once. On disk it is before all that the log is given from here on, so nobody
    /// waits for that.
    pub(crate) fn set(&self, standing: LogStanding) -> Result<(), StorageError> {
        self.now.store(standing as u8, Ordering::Release);
        self.log.put_state(STANDING_KEY, standing.to_bytes(), Box::new(|_| ()))
    }
}

impl RaftGroup {
    /// What is known of this node's log.
    pub(crate) fn standing(&self) -> LogStanding {
        self.standing.now()
    }

    /// The broker that leads or wants to, by a message of it.
    pub(crate) fn sender_of(&self, message: &PeerMessage) -> Option<BrokerId> {
        codec::sender(message).and_then(broker_id)
    }

    /// Another node knows this one by a log that is gone: it has no say in elections until a leader
    /// has brought it up to date.
    pub(crate) fn lose_log(&self) {
        tracing::warn!(
            node = self.node_id,
            "the log that others know is gone: no say in elections"
        );
        self.keep_standing(LogStanding::Lost);
        self.raft.runtime_config().elect(false);
    }

    /// A leader that was elected without this node has committed an entry of its own, and the log
    /// has everything up to it.
    pub(super) fn on_caught_up(&self) {
        if self.standing() == LogStanding::Lost {
            tracing::info!(node = self.node_id, "the log is whole again");
        }
        self.keep_standing(LogStanding::Whole);
        self.raft.runtime_config().elect(true);
    }

    fn keep_standing(&self, standing: LogStanding) {
        if let Err(error) = self.standing.set(standing) {
            // The store has stopped, and the instance ends with it.
            tracing::debug!(node = self.node_id, %error, "the log's standing was not kept");
        }
    }

    /// Refuses to take part in an election.
    pub(super) fn check_say(&self, may_vote: bool) -> Result<(), PeerError> {
        if self.standing() == LogStanding::Lost && !may_vote {
            let why = format!("node {} has lost its log and not caught up yet", self.node_id);
            return Err(PeerError::Unreachable(why));
        }
        Ok(())
    }
}

/// Whether who takes the request has all that was committed when it was sent, if by its leader.
/// A new leader does not know of everything yet that its predecessor has committed.
pub(super) fn brings_up_to_date(request: &AppendRequest) -> bool {
    let Some(committed) = &request.leader_commit else { return false };
    let last = request.entries.last().map(|entry| entry.log_id).or(request.prev_log_id);
    committed.leader_id.term == request.vote.leader_id.term
        && last.is_some_and(|last| last.index >= committed.index)
}

/// Whether elections among so many voters, always the same ones, can do without what the log of one
/// of them has lost: where they are even in number, every two majorities share another one too.
pub(crate) fn may_vote_without_log(voters: usize) -> bool {
    voters.is_multiple_of(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All sets of so many of `0..voters`, as bits.
    fn majorities(voters: u32) -> impl Iterator<Item = u32> {
        (0..1_u32 << voters).filter(move |set| set.count_ones() == voters / 2 + 1)
    }

    #[test]
    fn one_of_an_even_number_may_vote_although_its_log_is_lost() {
        for voters in 2..=7 {
            let lost = 1;
            // What was held by one majority is known to another one's members but the lost one.
            let is_safe = majorities(voters).filter(|set| set & lost != 0).all(|held| {
                let electing = majorities(voters).filter(|set| set & lost != 0);
                electing.into_iter().all(|electing| held & electing & !lost != 0)
            });
            assert_eq!(may_vote_without_log(voters as usize), is_safe, "{voters} voters");
        }
    }
}
