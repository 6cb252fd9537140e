//! openraft's type parameters for every group of this broker, and conversions to storage's types.

use openraft::alias::{CommittedLeaderIdOf, EntryOf, LogIdOf, StoredMembershipOf, VoteOf};
use openraft::raft::responder::Responder;
use openraft::vote::RaftLeaderId;
use openraft::{EntryPayload, OptionalSend, RaftTypeConfig};
use storage::log_store::EntryId;

use super::command::{Applied, GroupCommand};

#[cfg(not(feature = "sim"))]
pub(super) type Runtime = openraft_rt_tokio::TokioRuntime;
#[cfg(feature = "sim")]
pub(super) type Runtime =
    openraft_rt::deterministic_rng::DeterministicRng<openraft_rt_tokio::TokioRuntime>;

/// Runs a simulated machine whose tasks draw their randomness from the seed.
#[cfg(feature = "sim")]
pub(crate) async fn scope<F: Future>(seed: u64, machine: F) -> F::Output {
    Runtime::scope(seed, machine).await
}

/// One leader in a term, so that a partition's leader epoch is its term.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TypeConfig;

impl RaftTypeConfig for TypeConfig {
    type D = GroupCommand;
    type R = Applied;
    type NodeId = u64;
    type Node = ();
    type Term = u64;
    type LeaderId = openraft::impls::leader_id_std::LeaderId<u64, u64>;
    type Vote = openraft::impls::Vote<Self::LeaderId>;
    type Payload = EntryPayload<GroupCommand, u64, ()>;
    type Entry = openraft::Entry<<Self::LeaderId as RaftLeaderId>::Committed, Self::Payload>;
    type AsyncRuntime = Runtime;
    type Responder<T>
        = Callback<T>
    where
        T: OptionalSend + 'static;
    type Batch<T>
        = openraft::impls::InlineBatch<T>
    where
        T: OptionalSend + 'static;
    type ErrorSource = openraft::impls::BoxedErrorSource;
}

pub(super) type LogId = LogIdOf<TypeConfig>;
pub(super) type RaftEntry = EntryOf<TypeConfig>;
pub(super) type RaftVote = VoteOf<TypeConfig>;
pub(super) type StoredMembership = StoredMembershipOf<TypeConfig>;
pub(super) type Membership = openraft::Membership<u64, ()>;

/// Answers a proposal by calling back, from the task that decided it: no channel, no extra task.
/// Dropped unanswered (the instance stopped), it calls back with `None`.
pub(crate) struct Callback<T>(Option<CallbackFn<T>>);

type CallbackFn<T> = Box<dyn FnOnce(Option<T>) + Send>;

impl<T> Callback<T> {
    pub(super) fn new(call: impl FnOnce(Option<T>) + Send + 'static) -> Self {
        Callback(Some(Box::new(call)))
    }
}

impl<T: OptionalSend + 'static> Responder<TypeConfig, T> for Callback<T> {
    fn on_complete(mut self, result: T) {
        if let Some(call) = self.0.take() {
            call(Some(result));
        }
    }
}

impl<T> Drop for Callback<T> {
    fn drop(&mut self) {
        if let Some(call) = self.0.take() {
            call(None);
        }
    }
}

pub(super) fn log_id(id: EntryId) -> LogId {
    LogId::new(CommittedLeaderIdOf::<TypeConfig>::new(id.term), id.index)
}

pub(super) fn entry_id(id: &LogId) -> EntryId {
    EntryId { term: id.leader_id.term, index: id.index }
}

pub(super) fn raft_vote(vote: storage::log_store::Vote) -> Option<RaftVote> {
    let node = vote.node_id?;
    Some(if vote.committed {
        RaftVote::new_committed(vote.term, node)
    } else {
        RaftVote::new(vote.term, node)
    })
}

pub(super) fn stored_vote(vote: &RaftVote) -> storage::log_store::Vote {
    storage::log_store::Vote {
        term: vote.leader_id.term,
        node_id: Some(vote.leader_id.voted_for),
        committed: vote.committed,
    }
}
