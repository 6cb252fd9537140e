//! Members of a classic group.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use protocol::consumer_protocol::Subscription;
use protocol::error_code::ErrorCode;
use protocol::types::{LeaderEpoch, Offset, PartitionId, TopicId};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::coordinator::{Coordinator, Reply};
use crate::coordinator::group::GroupSoft;
use crate::coordinator::group::event::{
    Client, GroupConfig, GroupReply, GroupRequest, GroupState, Heartbeat, JoinGroup,
    JoinGroupReply, JoinProtocol, LeaveGroup, LeavingMember, MemberId, OffsetCommit,
    OffsetCommitPartition, OffsetCommitTopic, OffsetFetch, SyncGroup,
};
use crate::coordinator::shard::RequestToken;

const PARTITIONS: i32 = 7;
const MEMBERS: usize = 5;
const GROUP: &str = "g";
const SESSION_MS: i32 = 6_000;
const REBALANCE_MS: i32 = 10_000;
const HEARTBEAT_MS: i64 = 1_500;
/// How long a client waits for an answer (longer than a rebalance may take).
const REQUEST_MS: i64 = 20_000;

/// What a member does.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Phase {
    /// The process is down.
    Down,
    /// It is to join.
    Unjoined,
    Joining,
    Syncing,
    /// It has partitions and asks where to begin.
    Fetching,
    Consuming,
}

#[derive(Debug)]
struct Member {
    instance_id: Option<String>,
    member_id: MemberId,
    generation_id: i32,
    phase: Phase,
    owned: BTreeSet<i32>,
    positions: BTreeMap<i32, i64>,
    leads: Option<JoinGroupReply>,
    /// The request whose answer moves it on, and until when it waits.
    waits_for: Option<(u64, i64)>,
    next_heartbeat_ms: i64,
}

enum Message {
    Request(u64, GroupRequest),
    Reply(RequestToken, GroupReply),
}

struct Simulation {
    random: StdRng,
    now_ms: i64,
    coordinator: Coordinator,
    members: Vec<Member>,
    /// By delivery time and order.
    network: BTreeMap<(i64, u64), Message>,
    sent: u64,
    /// Which member asked.
    asked: BTreeMap<u64, usize>,
    /// No commit of one member overtakes another, and no fetch of offsets a commit: they are on
    /// one connection.
    last_delivery: Vec<i64>,
    faults: bool,
    /// How quickly the log commits, and how often its leader changes.
    commit_chance: f64,
    crash_chance: f64,
    /// What each owner got in each generation, as clients have seen it.
    assignments: BTreeMap<i32, BTreeMap<String, BTreeSet<i32>>>,
    acknowledged: BTreeMap<i32, i64>,
    pending_commits: BTreeMap<u64, BTreeMap<i32, i64>>,
    history: VecDeque<String>,
}

impl Simulation {
    fn new(seed: u64) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let delay_ms = [0, 500, 3_000][random.random_range(0..3)];
        let config = GroupConfig { initial_rebalance_delay_ms: delay_ms, ..GroupConfig::default() };
        let config = Arc::new(config);
        let new_soft = move || GroupSoft::new(config.clone(), Arc::default());
        let members = (0..MEMBERS).map(|index| Member {
            instance_id: random.random_bool(0.4).then(|| format!("static{index}")),
            member_id: MemberId::from(""),
            generation_id: -1,
            phase: Phase::Down,
            owned: BTreeSet::new(),
            positions: BTreeMap::new(),
            leads: None,
            waits_for: None,
            next_heartbeat_ms: 0,
        });
        let members = members.collect();
        let commit_chance = [0.7, 0.1, 0.03][random.random_range(0..3)];
        let crash_chance = [0.000_5, 0.002][random.random_range(0..2)];
        Simulation {
            random,
            now_ms: 0,
            coordinator: Coordinator::new(new_soft),
            members,
            network: BTreeMap::new(),
            sent: 0,
            asked: BTreeMap::new(),
            last_delivery: vec![0; MEMBERS],
            faults: true,
            commit_chance,
            crash_chance,
            assignments: BTreeMap::new(),
            acknowledged: BTreeMap::new(),
            pending_commits: BTreeMap::new(),
            history: VecDeque::new(),
        }
    }

    fn note(&mut self, what: String) {
        if self.history.len() == 400 {
            self.history.pop_front();
        }
        self.history.push_back(format!("{:>7} {what}", self.now_ms));
    }

    fn latency_ms(&mut self) -> i64 {
        match self.faults && self.random.random_bool(0.05) {
            true => self.random.random_range(0..8_000),
            false => self.random.random_range(0..20),
        }
    }

    /// Sends a request; commits and fetches of offsets arrive in order, other requests may not
    /// arrive, or twice.
    fn send(&mut self, member: usize, request: GroupRequest) -> u64 {
        let is_ordered =
            matches!(request, GroupRequest::OffsetCommit(_) | GroupRequest::OffsetFetch(_));
        let copies = match self.faults && !is_ordered {
            true if self.random.random_bool(0.03) => 0,
            true if self.random.random_bool(0.03) => 2,
            _ => 1,
        };
        self.sent += 1;
        let token = self.sent;
        self.asked.insert(token, member);
        self.note(format!("m{member} #{token} {request:?}"));
        for _ in 0..copies {
            let mut at = self.now_ms + self.latency_ms();
            if is_ordered {
                at = at.max(self.last_delivery[member]);
                self.last_delivery[member] = at;
            }
            self.sent += 1;
            let mut copy = request.clone();
            if let GroupRequest::JoinGroup(join) = &mut copy {
                // Each that arrives is given its own.
                join.new_member_id = self.sent.to_string();
            }
            self.network.insert((at, self.sent), Message::Request(token, copy));
        }
        token
    }

    fn deliver_later(&mut self, replies: Vec<Reply>) {
        for (token, reply) in replies {
            if self.faults && self.random.random_bool(0.03) {
                continue;
            }
            let at = self.now_ms + self.latency_ms();
            self.sent += 1;
            self.network.insert((at, self.sent), Message::Reply(token, reply));
        }
    }

    fn step(&mut self) {
        let network_ms = self.network.keys().next().map(|(at, _)| *at);
        let timer_ms = self.coordinator.next_timer_ms();
        let next_tick_ms = self.now_ms - self.now_ms % 100 + 100;
        let next_ms =
            [network_ms, timer_ms, Some(next_tick_ms)].into_iter().flatten().min().unwrap();
        self.now_ms = self.now_ms.max(next_ms);
        let replies = self.coordinator.fire(self.now_ms);
        self.deliver_later(replies);
        while let Some(entry) = self.network.first_entry() {
            if entry.key().0 > self.now_ms {
                break;
            }
            match entry.remove() {
                Message::Request(token, request) => {
                    let replies =
                        self.coordinator.request(self.now_ms, RequestToken(token), request);
                    self.deliver_later(replies);
                }
                Message::Reply(token, reply) => self.on_reply(token.0, reply),
            }
        }
        if self.coordinator.uncommitted() > 0 && self.random.random_bool(self.commit_chance) {
            let replies = self.coordinator.commit();
            self.deliver_later(replies);
        }
        if self.now_ms % 100 == 0 {
            (0..MEMBERS).for_each(|member| self.tick(member));
        }
    }

    /// What a process does on its own.
    fn tick(&mut self, index: usize) {
        if self.faults {
            self.misbehave(index);
        }
        let now_ms = self.now_ms;
        let member = &mut self.members[index];
        if member.waits_for.is_some_and(|(_, until)| until < now_ms) {
            // The client gives up on the answer, and joins again.
            member.waits_for = None;
            member.phase = Phase::Unjoined;
        }
        match member.phase {
            Phase::Unjoined => self.join(index),
            Phase::Consuming if now_ms >= member.next_heartbeat_ms => {
                member.next_heartbeat_ms = now_ms + HEARTBEAT_MS;
                let heartbeat = Heartbeat {
                    group_id: Arc::from(GROUP),
                    generation_id: member.generation_id,
                    member_id: member.member_id.clone(),
                    group_instance_id: member.instance_id.clone(),
                };
                self.send(index, GroupRequest::Heartbeat(heartbeat));
            }
            Phase::Consuming if self.random.random_bool(0.2) => self.commit(index),
            _ => {}
        }
    }

    fn misbehave(&mut self, index: usize) {
        if self.random.random_bool(self.crash_chance) {
            let kept = self.random.random_range(0..=self.coordinator.uncommitted());
            self.note(format!("crash, {kept} uncommitted kept"));
            self.coordinator.crash(self.now_ms, kept);
            self.assert_kept();
        }
        let is_down = self.members[index].phase == Phase::Down;
        if is_down && self.random.random_bool(0.02) {
            self.members[index].phase = Phase::Unjoined;
        } else if !is_down && self.random.random_bool(0.003) {
            if self.random.random_bool(0.5) {
                self.leave(index);
            }
            self.note(format!("m{index} is down"));
            self.reset(index, Phase::Down);
            self.members[index].member_id = MemberId::from("");
        }
    }

    fn leave(&mut self, index: usize) {
        let member = &self.members[index];
        let leaving = LeavingMember {
            member_id: member.member_id.clone(),
            group_instance_id: member.instance_id.clone(),
            reason: None,
        };
        let request = LeaveGroup { group_id: Arc::from(GROUP), members: vec![leaving] };
        self.send(index, GroupRequest::LeaveGroup(request));
    }

    fn reset(&mut self, index: usize, phase: Phase) {
        let member = &mut self.members[index];
        member.phase = phase;
        member.owned.clear();
        member.positions.clear();
        member.leads = None;
        member.waits_for = None;
        member.generation_id = -1;
    }

    fn wait_for(&mut self, index: usize, token: u64, phase: Phase) {
        self.members[index].waits_for = Some((token, self.now_ms + REQUEST_MS));
        self.members[index].phase = phase;
    }

    fn join(&mut self, index: usize) {
        let metadata = Subscription {
            version: 1,
            topics: vec!["t".to_owned()],
            user_data: None,
            owned_partitions: Vec::new(),
            generation_id: -1,
            rack_id: None,
        };
        let member = &self.members[index];
        let request = JoinGroup {
            group_id: Arc::from(GROUP),
            member_id: member.member_id.clone(),
            group_instance_id: member.instance_id.clone(),
            client: Client { client_id: format!("c{index}"), client_host: "/host".to_owned() },
            new_member_id: String::new(),
            session_timeout_ms: SESSION_MS,
            rebalance_timeout_ms: REBALANCE_MS,
            protocol_type: "consumer".to_owned(),
            protocols: vec![JoinProtocol { name: "range".to_owned(), metadata: metadata.encode() }],
            reason: None,
            requires_known_member_id: member.instance_id.is_none(),
            supports_skipping_assignment: index.is_multiple_of(2),
        };
        let token = self.send(index, GroupRequest::JoinGroup(request));
        self.wait_for(index, token, Phase::Joining);
    }

    fn commit(&mut self, index: usize) {
        let member = &mut self.members[index];
        let step = self.random.random_range(0..5);
        for position in member.positions.values_mut() {
            *position += step;
        }
        let positions = member.positions.clone();
        let partitions = positions.iter().map(|(&partition, &offset)| OffsetCommitPartition {
            partition: PartitionId(partition),
            offset: Offset(offset),
            leader_epoch: LeaderEpoch(-1),
            metadata: None,
        });
        let topic = OffsetCommitTopic {
            topic: "t".to_owned(),
            topic_id: TopicId::default(),
            partitions: partitions.collect(),
        };
        let request = OffsetCommit {
            group_id: Arc::from(GROUP),
            generation_id_or_member_epoch: member.generation_id,
            member_id: member.member_id.clone(),
            group_instance_id: member.instance_id.clone(),
            retention_time_ms: None,
            supports_member_epochs: true,
            topics: vec![topic],
        };
        let token = self.send(index, GroupRequest::OffsetCommit(request));
        self.pending_commits.insert(token, positions);
    }

    fn on_reply(&mut self, token: u64, reply: GroupReply) {
        let index = self.asked[&token];
        self.note(format!("m{index} #{token} <- {reply:?}"));
        if let (GroupReply::OffsetCommit(commit), Some(positions)) =
            (&reply, self.pending_commits.remove(&token))
            && commit.error.is_none()
        {
            for (partition, offset) in positions {
                let acknowledged = self.acknowledged.entry(partition).or_insert(0);
                *acknowledged = offset.max(*acknowledged);
            }
        }
        let member = &self.members[index];
        let is_awaited = member.waits_for.is_some_and(|(awaited, _)| awaited == token);
        match reply {
            GroupReply::JoinGroup(reply) if is_awaited => self.on_joined(index, reply),
            GroupReply::SyncGroup(reply) if is_awaited => match reply.error {
                ErrorCode::None => self.on_assigned(index, &reply.assignment),
                error => self.on_error(index, error),
            },
            GroupReply::OffsetFetch(reply) if is_awaited => {
                let rows = reply.topics.iter().flat_map(|topic| &topic.partitions);
                let committed: BTreeMap<i32, i64> =
                    rows.map(|row| (row.partition.0, row.offset.0)).collect();
                let member = &mut self.members[index];
                let start = |p: &i32| (*p, committed.get(p).copied().unwrap_or(0));
                member.positions = member.owned.iter().map(start).collect();
                member.waits_for = None;
                member.phase = Phase::Consuming;
                member.next_heartbeat_ms = self.now_ms;
            }
            GroupReply::Heartbeat(error) if member.phase == Phase::Consuming => {
                self.on_error(index, error);
            }
            _ => {}
        }
    }

    fn on_joined(&mut self, index: usize, reply: JoinGroupReply) {
        let member = &mut self.members[index];
        match reply.error {
            ErrorCode::None => {
                member.member_id = reply.member_id.clone();
                member.generation_id = reply.generation_id;
                let leads = reply.leader == reply.member_id && !reply.skip_assignment;
                member.leads = Some(reply).filter(|reply| leads && !reply.members.is_empty());
                self.sync(index);
            }
            ErrorCode::MemberIdRequired => {
                member.member_id = reply.member_id;
                member.phase = Phase::Unjoined;
                member.waits_for = None;
            }
            error => self.on_error(index, error),
        }
    }

    fn sync(&mut self, index: usize) {
        let member = &self.members[index];
        let mut assignments: BTreeMap<MemberId, Vec<String>> = BTreeMap::new();
        if let Some(reply) = &member.leads {
            for partition in 0..PARTITIONS {
                let turn = partition as usize + reply.generation_id as usize;
                let to = &reply.members[turn % reply.members.len()];
                let partitions = assignments.entry(to.member_id.clone()).or_default();
                partitions.push(partition.to_string());
            }
        }
        let bytes =
            |(id, partitions): (MemberId, Vec<String>)| (id, Bytes::from(partitions.join(",")));
        let request = SyncGroup {
            group_id: Arc::from(GROUP),
            generation_id: member.generation_id,
            member_id: member.member_id.clone(),
            group_instance_id: member.instance_id.clone(),
            protocol_type: Some("consumer".to_owned()),
            protocol_name: Some("range".to_owned()),
            assignments: assignments.into_iter().map(bytes).collect(),
        };
        let token = self.send(index, GroupRequest::SyncGroup(request));
        self.wait_for(index, token, Phase::Syncing);
    }

    /// A member has got partitions in a generation: nobody else may have them in it.
    fn on_assigned(&mut self, index: usize, assignment: &Bytes) {
        let text = std::str::from_utf8(assignment).unwrap();
        let partitions: BTreeSet<i32> =
            text.split(',').filter(|part| !part.is_empty()).map(|p| p.parse().unwrap()).collect();
        let member = &mut self.members[index];
        let owner = member.instance_id.clone().unwrap_or_else(|| member.member_id.to_string());
        let generation = self.assignments.entry(member.generation_id).or_default();
        for (other, owned) in generation.iter().filter(|(other, _)| **other != owner) {
            assert!(
                owned.is_disjoint(&partitions),
                "generation {}: {other} has {owned:?}, {owner} {partitions:?}",
                member.generation_id
            );
        }
        if let Some(before) = generation.insert(owner.clone(), partitions.clone()) {
            assert_eq!(before, partitions, "{owner} in generation {}", member.generation_id);
        }
        member.owned = partitions;
        let request = OffsetFetch {
            group_id: Arc::from(GROUP),
            member_id: None,
            member_epoch: -1,
            topics: None,
            require_stable: false,
        };
        let token = self.send(index, GroupRequest::OffsetFetch(request));
        self.wait_for(index, token, Phase::Fetching);
    }

    fn on_error(&mut self, index: usize, error: ErrorCode) {
        match error {
            ErrorCode::None => {}
            ErrorCode::UnknownMemberId | ErrorCode::IllegalGeneration => {
                self.reset(index, Phase::Unjoined);
                self.members[index].member_id = MemberId::from("");
            }
            ErrorCode::RebalanceInProgress => {
                self.members[index].waits_for = None;
                self.members[index].phase = Phase::Unjoined;
            }
            // Another process has its name: this one is a zombie, and ends.
            ErrorCode::FencedInstanceId => {
                self.reset(index, Phase::Unjoined);
                self.members[index].member_id = MemberId::from("");
            }
            error => panic!("member {index} got {error}"),
        }
    }

    fn run(&mut self, until_ms: i64) {
        while self.now_ms < until_ms {
            self.step();
        }
    }

    /// What was acknowledged is still there.
    fn assert_kept(&self) {
        let group = self.coordinator.hard.group(GROUP);
        for (&partition, &acknowledged) in &self.acknowledged {
            let committed = group.and_then(|group| group.offset("t", PartitionId(partition)));
            let committed = committed.map(|committed| committed.offset.0);
            assert!(committed >= Some(acknowledged), "{committed:?}, {acknowledged} was told");
        }
    }

    /// Everyone who is up consumes, in one generation, and every partition has one owner.
    fn assert_settled(&self) {
        let up: Vec<&Member> =
            self.members.iter().filter(|member| member.phase != Phase::Down).collect();
        let generations: BTreeSet<i32> = up.iter().map(|member| member.generation_id).collect();
        let all_consume = up.iter().all(|member| member.phase == Phase::Consuming);
        assert!(all_consume && generations.len() == 1, "{:#?}", self.members);
        let mut owned: Vec<i32> = up.iter().flat_map(|member| &member.owned).copied().collect();
        owned.sort_unstable();
        assert_eq!(owned, (0..PARTITIONS).collect::<Vec<_>>());
        let state =
            self.coordinator.soft.look(&self.coordinator.hard, GROUP, |group| group.state());
        assert_eq!(state, Some(GroupState::Stable));
    }
}

fn simulate(seed: u64) {
    let mut simulation = Simulation::new(seed);
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        simulation.run(240_000);
        simulation.faults = false;
        simulation.commit_chance = 0.9;
        for member in 0..MEMBERS {
            if simulation.members[member].phase == Phase::Down {
                simulation.members[member].phase = Phase::Unjoined;
            }
        }
        simulation.run(330_000);
        simulation.assert_settled();
        simulation.assert_kept();
    }));
    if let Err(panic) = result {
        if std::env::var_os("SEED").is_some() {
            simulation.history.iter().for_each(|line| eprintln!("{line}"));
        }
        std::panic::resume_unwind(panic);
    }
}

#[test]
fn classic_groups_stay_whole_and_settle() {
    super::seeds(200).for_each(|seed| super::with_seed(seed, simulate));
}
