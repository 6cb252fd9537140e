//! `RaftGroup`: the Raft instance of one group, opened, spoken to, and closed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use openraft::alias::InstantOf;
use openraft::async_runtime::WatchReceiver;
use openraft::errors::ClientWriteError;
use openraft::raft::{ClientWriteResult, TransferLeaderRequest, VoteRequest};
use openraft::{ChangeMembers, Config, Raft};
use protocol::types::BrokerId;
use storage::StorageError;
use storage::log_store::{EntryId, GroupId, GroupLog};

use super::codec::{self, AppendResponse};
use super::command::{Applied, GroupCommand, ProposeError};
use super::log_storage::{DurabilityCell, LogStorage};
use super::machine::Machine;
use super::network::NetworkFactory;
use super::pacing::Pacing;
use super::standing::{LogStanding, Standing, brings_up_to_date};
use super::state_machine::StateMachine;
use super::type_config::{Callback, RaftVote, TypeConfig, log_id};
use crate::controller::reassignment::Members;
use crate::limits::CLOSE_ENTRIES;
use crate::metadata::image::NODE_ID_BROKER_BITS;
use crate::transport::{PeerError, PeerMessage, PeerTransport};

/// Proposals and messages that may wait for a group; its proposer keeps one waiting at most.
const API_CHANNEL_CAPACITY: u64 = 1024;
/// Completions that may wait for a group.
const NOTIFICATION_CHANNEL_CAPACITY: u64 = 1024;

/// A group's clocks. A follower that hears nothing stands for election after `election_max`, for
/// which the leader has its lease, and then between `election_min` and `election_max` more.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timing {
    pub(crate) heartbeat: Duration,
    pub(crate) election_min: Duration,
    pub(crate) election_max: Duration,
}

impl Default for Timing {
    /// Many groups share a broker: what a group costs idle is its heartbeats. A leader that hangs
    /// or is cut off has a successor 3.2 to 4.2 seconds after its last heartbeat.
    fn default() -> Self {
        Timing {
            heartbeat: Duration::from_secs(1),
            election_min: Duration::from_millis(1_200),
            election_max: Duration::from_secs(2),
        }
    }
}

/// When a snapshot is made without being asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum SnapshotPolicy {
    /// Only when the log start moves.
    OnRequest,
    /// Every so many entries.
    Every(u64),
}

/// What a group is opened with.
pub(crate) struct GroupOptions {
    pub(crate) node_id: u64,
    /// As the other nodes know it.
    pub(crate) group: GroupId,
    /// This node is the only member, and will be as long as the instance is open.
    pub(crate) is_single: bool,
    /// The voters of a group that is formed now, the preferred leader first. A node that is not
    /// among them waits for a leader to add it.
    pub(crate) founders: Vec<u64>,
    pub(crate) log: GroupLog,
    /// What it means that the log is empty.
    pub(crate) if_empty: LogStanding,
    pub(crate) machine: Arc<dyn Machine>,
    pub(crate) transport: Arc<dyn PeerTransport>,
    pub(crate) durability: Arc<DurabilityCell>,
    /// Who may slow what is sent; nobody, of the metadata log.
    pub(crate) pacing: Option<Arc<dyn Pacing>>,
    /// This process had the group open before, and its log is whole since.
    pub(crate) resume: bool,
    pub(crate) timing: Timing,
    pub(crate) snapshots: SnapshotPolicy,
}

/// Who leads a group, as its Raft instance sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LeaderState {
    pub(crate) term: u64,
    pub(crate) leader: Option<u64>,
}

/// How far the replicas of a group are, as its leader knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Progress {
    /// The last entry of the leader's log.
    pub(crate) last: Option<u64>,
    /// The other voters and learners.
    pub(crate) peers: Vec<PeerProgress>,
}

impl Progress {
    /// Whether a replica lacks next to nothing.
    pub(crate) fn is_close(&self, node_id: u64) -> bool {
        let matched = self.peers.iter().find(|peer| peer.node_id == node_id).map(|p| p.matched);
        matched.flatten().is_some_and(|matched| matched + CLOSE_ENTRIES >= self.last.unwrap_or(0))
    }
}

/// How far one other replica is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PeerProgress {
    pub(crate) node_id: u64,
    /// The last entry that it is known to have.
    pub(crate) matched: Option<u64>,
    /// How long ago what it has answered last was sent to it.
    pub(crate) acked_ago: Option<Duration>,
}

/// Time since a moment, by the runtime that the groups run on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    started_at: InstantOf<TypeConfig>,
}

impl Clock {
    pub(crate) fn start() -> Clock {
        use openraft::type_config::TypeConfigExt as _;
        Clock { started_at: TypeConfig::now() }
    }

    pub(crate) fn elapsed_ms(&self) -> u64 {
        use openraft::Instant as _;
        u64::try_from(self.started_at.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

type Instance = Raft<TypeConfig, StateMachine>;

/// A group's Raft instance.
#[derive(Clone)]
pub(crate) struct RaftGroup {
    pub(super) raft: Instance,
    storage: LogStorage,
    pub(super) node_id: u64,
    pub(super) machine: Arc<dyn Machine>,
    pub(super) standing: Arc<Standing>,
    pacing: Option<Arc<dyn Pacing>>,
}

impl RaftGroup {
    /// Opens the instance. A new group is formed, a single voter elects itself at once; leadership
    /// is told through the machine.
    pub(crate) async fn open(options: GroupOptions) -> Result<RaftGroup, StorageError> {
        let single_voter = options.is_single;
        let standing = Arc::new(Standing::open(options.log.clone(), options.if_empty)?);
        let is_lost = standing.now() == LogStanding::Lost;
        let config = Arc::new(config(&options, single_voter, is_lost));
        let last = options.log.log_state().last;
        let committed = if single_voter { last.map(log_id) } else { None };
        let storage =
            LogStorage::new(options.log.clone(), options.durability, options.resume, committed);
        let machine = options.machine.clone();
        let state_machine =
            StateMachine::open(options.log.clone(), options.machine, single_voter).await?;
        let votes_alone = state_machine.votes_alone(options.node_id);
        let network = NetworkFactory {
            node_id: options.node_id,
            group: options.group,
            transport: options.transport,
            pacing: options.pacing.clone(),
        };
        let raft =
            Raft::new(options.node_id, config, network, storage.clone(), state_machine).await;
        let stopped = |error: String| storage.failure().unwrap_or(StorageError::Io(error));
        let raft: Instance = raft.map_err(|e| stopped(e.to_string()))?;
        let (node_id, pacing) = (options.node_id, options.pacing);
        let storage = storage.clone();
        let group = RaftGroup { raft, storage, node_id, machine, standing, pacing };
        if is_lost {
            tracing::info!(group = options.group.0, "no say in elections until it has caught up");
        } else if last.is_none() {
            group.form(&options.founders, options.timing).await;
        } else if (single_voter || votes_alone) && !group.is_leader() {
            group.elect().await;
        }
        if single_voter {
            group.wait_for_leadership().await?;
        }
        Ok(group)
    }

    /// A proposal that comes before leadership would be refused.
    async fn wait_for_leadership(&self) -> Result<(), StorageError> {
        let mut metrics = self.raft.server_metrics();
        while !metrics.borrow_watched().state.is_leader() {
            if metrics.changed().await.is_err() {
                let stopped = || StorageError::Io(String::from("the group has stopped"));
                return Err(self.failure().unwrap_or_else(stopped));
            }
        }
        Ok(())
    }

    /// Forms a new group. The preferred leader does it at once; the others only if it does not
    /// come: forming is the same entry on every replica, so it may happen on several.
    async fn form(&self, voters: &[u64], timing: Timing) {
        if !voters.contains(&self.node_id) {
            return;
        }
        let members: BTreeMap<u64, ()> = voters.iter().map(|id| (*id, ())).collect();
        if voters.first() == Some(&self.node_id) {
            initialize(&self.raft, members).await;
            return;
        }
        let raft = self.raft.clone();
        spawn(async move {
            tokio::time::sleep(timing.election_max).await;
            initialize(&raft, members).await;
        });
    }

    /// Asks for an election now.
    pub(crate) async fn elect(&self) {
        self.raft.trigger().elect(false).await.ok();
    }

    /// Stands for election at once, in the stead of a leader that is known to have ended: as if it
    /// had handed its leadership over, which no lease holds up. Nothing happens where another
    /// leads by now.
    pub(crate) async fn take_over_from(&self, ended: u64) {
        if self.standing() == LogStanding::Lost {
            return;
        }
        let metrics = self.raft.server_metrics();
        let vote = {
            let metrics = metrics.borrow_watched();
            if metrics.current_leader != Some(ended) {
                return;
            }
            metrics.vote
        };
        let request = TransferLeaderRequest::new(vote, self.node_id, None);
        self.raft.handle_transfer_leader(request).await.ok();
    }

    /// Hands leadership over to a voter that follows closely; the term ends when it has won.
    /// Nothing is done for one without a vote: it could not win, and this node would refuse all
    /// proposals from then on, for good where it is the only voter.
    pub(crate) async fn hand_over(&self, to: u64) {
        if self.members().voters.iter().any(|voters| voters.contains(&to)) {
            self.raft.trigger().transfer_leader(to).await.ok();
        }
    }

    /// Ends when another node is known to lead, or the instance has stopped.
    pub(crate) async fn wait_for_other_leader(&self) {
        let mut metrics = self.raft.server_metrics();
        while metrics.borrow_watched().current_leader.is_none_or(|id| id == self.node_id) {
            if metrics.changed().await.is_err() {
                return;
            }
        }
    }

    /// Stops leading although nobody answers. The others may hear this node and only not be heard:
    /// then nothing but its own heartbeats keeps them from an election, and the one that has most
    /// takes over at once.
    pub(crate) async fn abdicate(&self) {
        let peers = self.progress().map(|progress| progress.peers).unwrap_or_default();
        let voters: BTreeSet<u64> = self.members().voters.into_iter().flatten().collect();
        let others = peers.into_iter().filter(|peer| voters.contains(&peer.node_id));
        let Some(successor) = others.max_by_key(|peer| peer.matched) else { return };
        self.hand_over(successor.node_id).await;
        // The instance has no way of standing back but another's claim. Nobody counts this vote:
        // the successor has to ask for it, and is then judged by its log.
        let term = self.leader_state().term + 1;
        let claim = RaftVote::new(term, successor.node_id);
        let any_log = log_id(EntryId { term, index: u64::MAX });
        self.raft.vote(VoteRequest::new(claim, Some(any_log))).await.ok();
    }

    pub(crate) fn node_id(&self) -> u64 {
        self.node_id
    }

    pub(crate) fn is_leader(&self) -> bool {
        self.raft.is_leader()
    }

    /// Whether both are the same instance, not only of the same group.
    pub(crate) fn is(&self, other: &RaftGroup) -> bool {
        self.storage.is(&other.storage)
    }

    /// The storage error that stopped the instance, if one did.
    pub(crate) fn failure(&self) -> Option<StorageError> {
        self.storage.failure()
    }

    pub(crate) fn leader_state(&self) -> LeaderState {
        let metrics = self.raft.server_metrics();
        let metrics = metrics.borrow_watched();
        LeaderState { term: metrics.vote.leader_id.term, leader: metrics.current_leader }
    }

    /// Calls `on_change` now and whenever leadership changes, until the instance stops.
    pub(crate) async fn watch_leader(&self, mut on_change: impl FnMut(LeaderState)) {
        let mut metrics = self.raft.server_metrics();
        loop {
            let state = {
                let metrics = metrics.borrow_watched();
                LeaderState { term: metrics.vote.leader_id.term, leader: metrics.current_leader }
            };
            on_change(state);
            if metrics.changed().await.is_err() {
                return;
            }
        }
    }

    /// The voters that have answered the leader within `window`, itself included; empty when this
    /// node does not lead.
    pub(crate) fn in_sync(&self, window: Duration) -> BTreeSet<u64> {
        use openraft::Instant as _;
        let metrics = self.raft.data_metrics();
        let metrics = metrics.borrow_watched();
        let Some(heartbeats) = &metrics.heartbeat else { return BTreeSet::new() };
        let recent = heartbeats
            .iter()
            .filter(|(_, at)| at.as_ref().is_some_and(|at| at.into_inner().elapsed() <= window));
        recent.map(|(id, _)| *id).chain([self.node_id]).collect()
    }

    /// Whether a majority of the voters has answered the leader within `window`, itself included.
    pub(crate) fn hears_majority(&self, window: Duration) -> bool {
        let answering = self.in_sync(window);
        let is_majority =
            |voters: &BTreeSet<u64>| answering.intersection(voters).count() > voters.len() / 2;
        self.members().voters.iter().all(is_majority)
    }

    /// The last entry that this node knows to be committed.
    pub(crate) fn committed(&self) -> Option<u64> {
        let metrics = self.raft.data_metrics();
        let metrics = metrics.borrow_watched();
        metrics.local_committed.map(|id| id.index)
    }

    /// The members, as this node has them.
    pub(crate) fn members(&self) -> Members {
        let metrics = self.raft.server_metrics();
        let metrics = metrics.borrow_watched();
        let members = metrics.membership_config.membership();
        Members {
            voters: members.get_joint_config().clone(),
            learners: members.learner_ids().collect(),
            is_committed: metrics.membership_config.log_id()
                == metrics.committed_membership_config.log_id(),
        }
    }

    /// Has a node follow without a vote; `false` where this one cannot do that now.
    pub(crate) async fn add_learner(&self, node_id: u64) -> bool {
        self.told("a learner was not added", self.raft.add_learner(node_id, (), false).await)
    }

    /// Changes the voters, in two steps where more than one of them changes; who did vote and does
    /// not any more is no member any more.
    pub(crate) async fn change_voters(&self, voters: BTreeSet<u64>) -> bool {
        self.told("voters were not changed", self.raft.change_membership(voters, false).await)
    }

    pub(crate) async fn remove_learners(&self, node_ids: BTreeSet<u64>) -> bool {
        let change = ChangeMembers::RemoveNodes(node_ids);
        self.told("learners were not removed", self.raft.change_membership(change, false).await)
    }

    fn told<T, E: std::fmt::Display>(&self, what: &str, result: Result<T, E>) -> bool {
        if let Err(error) = &result {
            // Leadership was lost, or a change is under way: it is tried again.
            tracing::debug!(node = self.node_id, %error, "{what}");
        }
        result.is_ok()
    }

    /// How far the others are; `None` when this node does not lead.
    pub(crate) fn progress(&self) -> Option<Progress> {
        use openraft::Instant as _;
        let metrics = self.raft.data_metrics();
        let metrics = metrics.borrow_watched();
        let (replication, heartbeat) = (metrics.replication.as_ref()?, metrics.heartbeat.as_ref()?);
        let acked_ago = |id: &u64| {
            let at = heartbeat.get(id)?.as_ref()?;
            Some(at.into_inner().elapsed())
        };
        let others = replication.iter().filter(|(id, _)| **id != self.node_id);
        let peers = others.map(|(id, matched)| PeerProgress {
            node_id: *id,
            matched: matched.as_ref().map(|id| id.index),
            acked_ago: acked_ago(id),
        });
        Some(Progress { last: metrics.last_log.map(|id| id.index), peers: peers.collect() })
    }

    /// Waits until so many of `nodes`, this one included, have an entry on their disks; ends as
    /// well when this node no longer leads.
    pub(crate) async fn wait_until_held(&self, index: u64, count: usize, nodes: &[u64]) {
        let mut metrics = self.raft.data_metrics();
        loop {
            let Some(progress) = self.progress() else { return };
            let holds =
                |peer: &&PeerProgress| nodes.contains(&peer.node_id) && peer.matched >= Some(index);
            if progress.peers.iter().filter(holds).count() + 1 >= count {
                return;
            }
            if metrics.changed().await.is_err() {
                return;
            }
        }
    }

    /// Hands a proposal to the instance and returns at once; `done` is called when it is applied,
    /// refused, or can no longer be followed.
    pub(crate) fn propose(
        &self,
        command: GroupCommand,
        done: impl FnOnce(Result<Applied, ProposeError>) + Send + 'static,
    ) {
        let responder = Callback::new(move |result| done(propose_result(result)));
        let raft = self.raft.clone();
        let mut send = Box::pin(tokio::task::unconstrained(async move {
            raft.client_write_ff(command, Some(responder)).await.ok();
        }));
        let mut context = std::task::Context::from_waker(futures::task::noop_waker_ref());
        // The channel has room as long as proposers keep to one unplaced proposal.
        if send.as_mut().poll(&mut context).is_pending() {
            spawn(send);
        }
    }

    /// Proposes and waits for the outcome.
    pub(crate) async fn propose_and_wait(
        &self,
        command: GroupCommand,
    ) -> Result<Applied, ProposeError> {
        let (sender, receiver) = tokio::sync::oneshot::channel();
        self.propose(command, move |result| {
            sender.send(result).ok();
        });
        receiver.await.unwrap_or(Err(ProposeError::Stopped))
    }

    /// Makes a snapshot, and purges what it covers.
    pub(crate) async fn snapshot(&self) {
        self.raft.trigger().snapshot().await.ok();
    }

    /// Answers a peer's message about this group.
    pub(crate) async fn handle(&self, message: PeerMessage) -> Result<PeerMessage, PeerError> {
        let gone = |error: String| PeerError::Unreachable(error);
        match message.kind {
            codec::APPEND_ENTRIES => {
                let (request, is_slowed) = codec::decode_append(&message)?;
                let brings_up_to_date =
                    self.standing() != LogStanding::Whole && brings_up_to_date(&request);
                let answer = self.raft.append_entries(request).await;
                let pause = self.pacing.as_ref().filter(|_| is_slowed).map(|pacing| {
                    pacing.on_received(message.body.iter().map(|b| b.len() as u64).sum())
                });
                let answer = answer.map_err(|e| gone(e.to_string()))?;
                if brings_up_to_date && matches!(answer, AppendResponse::Success) {
                    self.on_caught_up();
                }
                codec::encode_append_answer(&answer, pause.unwrap_or_default())
            }
            codec::VOTE => {
                self.check_say(self.machine.may_vote_without_log())?;
                let answer = self.raft.vote(codec::decode_vote(&message)?).await;
                codec::encode_vote_answer(codec::VOTE, &answer.map_err(|e| gone(e.to_string()))?)
            }
            codec::PRE_VOTE => {
                self.check_say(self.machine.may_vote_without_log())?;
                let answer = self.raft.pre_vote(codec::decode_vote(&message)?).await;
                let answer = answer.map_err(|e| gone(e.to_string()))?;
                codec::encode_vote_answer(codec::PRE_VOTE, &answer)
            }
            codec::SNAPSHOT => {
                let (vote, meta, data): (_, _, Bytes) = codec::decode_snapshot(&message)?;
                let snapshot = openraft::Snapshot { meta, snapshot: data };
                let answer = self.raft.install_full_snapshot(vote, snapshot).await;
                codec::encode_snapshot_answer(&answer.map_err(|e| gone(e.to_string()))?)
            }
            codec::TRANSFER_LEADER => {
                self.check_say(false)?;
                let request = codec::decode_transfer(&message)?;
                let answer = self.raft.handle_transfer_leader(request).await;
                answer.map_err(|e| gone(e.to_string()))?.map_err(|e| gone(e.to_string()))?;
                codec::encode_transfer_answer()
            }
            kind => Err(PeerError::Broken(format!("unknown kind of message: {kind}"))),
        }
    }

    /// Stops the instance; what is in flight is answered as `Stopped`.
    pub(crate) async fn close(&self) {
        self.raft.shutdown().await.ok();
    }
}

fn config(options: &GroupOptions, single_voter: bool, is_lost: bool) -> Config {
    let millis = |d: Duration| u64::try_from(d.as_millis()).unwrap_or(u64::MAX);
    Config {
        cluster_name: String::from("highwater"),
        heartbeat_interval: millis(options.timing.heartbeat),
        election_timeout_min: millis(options.timing.election_min),
        election_timeout_max: millis(options.timing.election_max),
        enable_pre_vote: Some(true),
        // A single voter has nobody to hear from: without ticks it costs nothing while idle.
        enable_tick: !single_voter,
        enable_elect: !is_lost,
        snapshot_policy: match options.snapshots {
            SnapshotPolicy::OnRequest => openraft::SnapshotPolicy::Never,
            SnapshotPolicy::Every(entries) => openraft::SnapshotPolicy::LogsSinceLast(entries),
        },
        max_in_snapshot_log_to_keep: 0,
        // A replica may come back with an emptied or an old disk, and follows again; without this
        // its leader would send it nothing as long as it leads.
        allow_log_reversion: Some(true),
        api_channel_size: Some(API_CHANNEL_CAPACITY),
        notification_channel_size: Some(NOTIFICATION_CHANNEL_CAPACITY),
        ..Config::default()
    }
}

async fn initialize(raft: &Instance, members: BTreeMap<u64, ()>) {
    if let Err(error) = raft.initialize(members).await {
        // Somebody else formed the group first.
        tracing::debug!(%error, "group was not formed here");
    }
}

fn propose_result(result: Option<ClientWriteResult<TypeConfig>>) -> Result<Applied, ProposeError> {
    match result {
        Some(Ok(response)) => Ok(response.data),
        Some(Err(ClientWriteError::ForwardToLeader(_))) => Err(ProposeError::NotLeader),
        Some(Err(ClientWriteError::LogEntryDiscarded(_))) => Err(ProposeError::Discarded),
        Some(Err(_)) | None => Err(ProposeError::Stopped),
    }
}

/// Spawns through openraft's runtime, so that a simulation's randomness reaches the task.
pub(crate) fn spawn(task: impl Future<Output = ()> + Send + 'static) {
    use openraft::AsyncRuntime as _;
    drop(super::type_config::Runtime::spawn(task));
}

/// The broker of a node.
pub(crate) fn broker_id(node_id: u64) -> Option<BrokerId> {
    let low = node_id & ((1 << NODE_ID_BROKER_BITS) - 1);
    i32::try_from(low).ok().map(BrokerId)
}

/// By which number a node's broker knows it: its log's, which is the group's for those that have
/// formed the group.
pub(super) fn address(node_id: u64, group: GroupId) -> GroupId {
    match node_id >> NODE_ID_BROKER_BITS {
        0 => group,
        log_id => GroupId(log_id),
    }
}
