//! Members of a KIP-848 group.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

use protocol::error_code::ErrorCode;
use protocol::types::{LeaderEpoch, Offset, PartitionId, TopicId};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use uuid::Uuid;

use super::coordinator::{Coordinator, Reply};
use crate::coordinator::group::GroupSoft;
use crate::coordinator::group::event::{
    Client, ConsumerGroupHeartbeat, ConsumerGroupHeartbeatReply, GroupConfig, GroupReply,
    GroupRequest, GroupState, MemberId, OffsetCommit, OffsetCommitPartition, OffsetCommitTopic,
    OffsetFetch, TopicIdPartitions, TopicShape, TopicsSnapshot,
};
use crate::coordinator::group::record::OwnedPartitions;
use crate::coordinator::shard::RequestToken;

const MEMBERS: usize = 5;
const GROUP: &str = "g";
const REBALANCE_MS: i32 = 8_000;
const HEARTBEAT_MS: i64 = 1_500;
const REQUEST_MS: i64 = 4_000;

#[derive(Debug, Default)]
struct Member {
    instance_id: Option<String>,
    is_up: bool,
    has_joined: bool,
    member_id: String,
    epoch: i32,
    /// What it consumes, and from where.
    positions: BTreeMap<i32, i64>,
    /// What it owns but does not know where to begin.
    starting: BTreeSet<i32>,
    /// What it is to own.
    assignment: BTreeSet<i32>,
    /// The report that is under way, and until when it waits for the answer.
    waits_for: Option<(u64, i64)>,
    /// The answer may be lost: the next report says everything.
    says_all: bool,
    next_report_ms: i64,
    fetching: Option<(u64, i64)>,
}

impl Member {
    fn owned(&self) -> BTreeSet<i32> {
        self.positions.keys().chain(&self.starting).copied().collect()
    }

    fn drop_all(&mut self) {
        self.positions.clear();
        self.starting.clear();
        self.assignment.clear();
        self.fetching = None;
    }
}

enum Message {
    Request(u64, GroupRequest),
    Reply(RequestToken, GroupReply),
}

struct Simulation {
    random: StdRng,
    now_ms: i64,
    coordinator: Coordinator,
    topics: Rc<RefCell<Arc<TopicsSnapshot>>>,
    partitions: i32,
    members: Vec<Member>,
    network: BTreeMap<(i64, u64), Message>,
    sent: u64,
    /// The last request that was sent.
    was_sent_twice: bool,
    asked: BTreeMap<u64, usize>,
    last_delivery: Vec<i64>,
    faults: bool,
    commit_chance: f64,
    crash_chance: f64,
    acknowledged: BTreeMap<i32, i64>,
    /// By token: who committed what, and when.
    pending_commits: BTreeMap<u64, (usize, i64, BTreeMap<i32, i64>)>,
    history: VecDeque<String>,
}

fn topic_id() -> TopicId {
    TopicId(Uuid::from_u128(7))
}

fn snapshot(partition_count: i32) -> Arc<TopicsSnapshot> {
    let shape = TopicShape { topic_id: topic_id(), partition_count, racks: Vec::new() };
    Arc::new(TopicsSnapshot::new([("t".to_owned(), shape)]))
}

impl Simulation {
    fn new(seed: u64) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let assignors = ["uniform", "range"];
        let first = random.random_range(0..2);
        let config = Arc::new(GroupConfig {
            consumer_session_timeout_ms: 6_000,
            consumer_assignment_interval_ms: [0, 1_000][random.random_range(0..2)],
            consumer_assignors: vec![assignors[first].to_owned(), assignors[1 - first].to_owned()],
            ..GroupConfig::default()
        });
        let topics = Rc::new(RefCell::new(snapshot(7)));
        let shared = topics.clone();
        let new_soft = move || GroupSoft::new(config.clone(), shared.borrow().clone());
        let members = (0..MEMBERS).map(|index| Member {
            instance_id: random.random_bool(0.4).then(|| format!("static{index}")),
            ..Member::default()
        });
        let members = members.collect();
        Simulation {
            now_ms: 0,
            coordinator: Coordinator::new(new_soft),
            topics,
            partitions: 7,
            members,
            network: BTreeMap::new(),
            sent: 0,
            was_sent_twice: false,
            asked: BTreeMap::new(),
            last_delivery: vec![0; MEMBERS],
            faults: true,
            commit_chance: [0.7, 0.1, 0.03][random.random_range(0..3)],
            crash_chance: [0.000_5, 0.002][random.random_range(0..2)],
            acknowledged: BTreeMap::new(),
            pending_commits: BTreeMap::new(),
            history: VecDeque::new(),
            random,
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

    /// Sends a request; they arrive in order, as on a connection. Reports arrive perhaps not at
    /// all, or twice.
    fn send(&mut self, member: usize, request: GroupRequest) -> u64 {
        let is_report = matches!(request, GroupRequest::ConsumerGroupHeartbeat(_));
        let copies = match self.faults && is_report {
            true if self.random.random_bool(0.03) => 0,
            true if self.random.random_bool(0.03) => 2,
            _ => 1,
        };
        self.sent += 1;
        let token = self.sent;
        self.asked.insert(token, member);
        self.note(format!("m{member} #{token} {request:?}"));
        self.was_sent_twice = copies == 2;
        for _ in 0..copies {
            let at = self.now_ms + self.latency_ms();
            let at = at.max(self.last_delivery[member]);
            self.last_delivery[member] = at;
            self.sent += 1;
            self.network.insert((at, self.sent), Message::Request(token, request.clone()));
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
        let next_ms = [network_ms, timer_ms, Some(next_tick_ms)].into_iter().flatten().min();
        self.now_ms = self.now_ms.max(next_ms.unwrap());
        let replies = self.coordinator.fire(self.now_ms);
        self.deliver_later(replies);
        while let Some(entry) = self.network.first_entry() {
            if entry.key().0 > self.now_ms {
                break;
            }
            match entry.remove() {
                Message::Request(token, request) => {
                    let token = RequestToken(token);
                    let replies = self.coordinator.request(self.now_ms, token, request);
                    self.assert_one_owner();
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
            if self.faults {
                self.disturb();
            }
            (0..MEMBERS).for_each(|member| self.tick(member));
        }
    }

    /// Whatever the members do, the log never gives a partition to two of them.
    fn assert_one_owner(&self) {
        let Some(group) = self.coordinator.hard.group(GROUP) else { return };
        let Some(group) = &group.consumer else { return };
        let mut owners: BTreeMap<PartitionId, &MemberId> = BTreeMap::new();
        for (member_id, current) in &group.current {
            for owned in [&current.assigned, &current.pending_revocation] {
                for partition in owned.values().flat_map(|partitions| partitions.keys()) {
                    let other = owners.insert(*partition, member_id);
                    assert_eq!(other, None, "{partition} belongs to {member_id} too");
                }
            }
        }
        let targets = group.targets.values().flat_map(|target| target.values().flatten());
        let mut seen = BTreeSet::new();
        assert!(targets.into_iter().all(|partition| seen.insert(*partition)), "two targets");
    }

    fn disturb(&mut self) {
        if self.random.random_bool(self.crash_chance) {
            let kept = self.random.random_range(0..=self.coordinator.uncommitted());
            self.note(format!("crash, {kept} uncommitted kept"));
            self.coordinator.crash(self.now_ms, kept);
            self.assert_kept();
        }
        if self.partitions < 12 && self.random.random_bool(0.001) {
            self.partitions += 1;
            *self.topics.borrow_mut() = snapshot(self.partitions);
            let request = GroupRequest::TopicsChanged(self.topics.borrow().clone());
            self.coordinator.request(self.now_ms, RequestToken(0), request);
        }
    }

    /// What a process does on its own.
    fn tick(&mut self, index: usize) {
        if self.faults {
            self.misbehave(index);
        }
        let now_ms = self.now_ms;
        let member = &mut self.members[index];
        if !member.is_up {
            return;
        }
        if member.waits_for.is_some_and(|(_, until)| until < now_ms) {
            member.waits_for = None;
            member.says_all = true;
        }
        member.fetching = member.fetching.filter(|(_, until)| *until >= now_ms);
        // A commit under way could reach the coordinator after the partition's next owner.
        let commits = self.pending_commits.values();
        let is_committing =
            commits.into_iter().any(|(who, at, _)| *who == index && *at + 9_000 > now_ms);
        let owes = !member.owned().is_subset(&member.assignment);
        if owes && !is_committing && member.has_joined && self.random.random_bool(0.1) {
            // It has finished with what it is to give up, and says so.
            let assignment = member.assignment.clone();
            member.positions.retain(|partition, _| assignment.contains(partition));
            member.starting.retain(|partition| assignment.contains(partition));
            member.next_report_ms = now_ms;
        }
        if member.waits_for.is_none() && now_ms >= member.next_report_ms {
            self.report(index);
        } else if !owes && self.members[index].has_joined && self.random.random_bool(0.2) {
            self.use_offsets(index);
        }
    }

    fn misbehave(&mut self, index: usize) {
        let member = &self.members[index];
        if !member.is_up && self.random.random_bool(0.02) {
            self.start(index);
        } else if member.is_up && self.random.random_bool(0.003) {
            if member.has_joined && self.random.random_bool(0.5) {
                let epoch = match member.instance_id.is_some() && self.random.random_bool(0.7) {
                    true => -2,
                    false => -1,
                };
                let request = self.heartbeat(index, epoch);
                self.send(index, GroupRequest::ConsumerGroupHeartbeat(request));
            }
            self.note(format!("m{index} is down"));
            let instance_id = self.members[index].instance_id.clone();
            self.members[index] = Member { instance_id, ..Member::default() };
        }
    }

    fn start(&mut self, index: usize) {
        self.sent += 1;
        let member = &mut self.members[index];
        member.is_up = true;
        member.member_id = format!("m{index}-{}", self.sent);
        member.next_report_ms = self.now_ms;
    }

    fn heartbeat(&self, index: usize, member_epoch: i32) -> ConsumerGroupHeartbeat {
        let member = &self.members[index];
        let owned: Vec<PartitionId> = member.owned().into_iter().map(PartitionId).collect();
        let owned = TopicIdPartitions { topic_id: topic_id(), partitions: owned };
        let says_all = member_epoch == 0 || member.says_all;
        ConsumerGroupHeartbeat {
            group_id: Arc::from(GROUP),
            member_id: MemberId::from(member.member_id.as_str()),
            new_member_id: String::new(),
            member_epoch,
            instance_id: member.instance_id.clone(),
            rack_id: None,
            rebalance_timeout_ms: if says_all { REBALANCE_MS } else { -1 },
            subscribed_topic_names: match index % 2 {
                0 => says_all.then(|| vec!["t".to_owned()]),
                _ => says_all.then(Vec::new),
            },
            subscribed_topic_regex: (index % 2 == 1 && says_all).then(|| "[st]".to_owned()),
            server_assignor: None,
            topic_partitions: match member_epoch {
                0 => Some(Vec::new()),
                _ if owned.partitions.is_empty() => Some(Vec::new()),
                _ => Some(vec![owned]),
            },
            client: Client::default(),
            requires_own_member_id: true,
        }
    }

    fn report(&mut self, index: usize) {
        let epoch = self.members[index].epoch;
        let request = self.heartbeat(index, epoch);
        let token = self.send(index, GroupRequest::ConsumerGroupHeartbeat(request));
        let member = &mut self.members[index];
        member.waits_for = Some((token, self.now_ms + REQUEST_MS));
        // A request goes out twice only when a connection broke in between. What the answer to the
        // first one said may be lost then, and a client says all anew.
        member.says_all = self.was_sent_twice;
    }

    /// Commits what it has read, or asks where to begin.
    fn use_offsets(&mut self, index: usize) {
        let step = self.random.random_range(0..5);
        let member = &mut self.members[index];
        if !member.starting.is_empty() && member.fetching.is_none() {
            let request = OffsetFetch {
                group_id: Arc::from(GROUP),
                member_id: Some(MemberId::from(member.member_id.as_str())),
                member_epoch: member.epoch,
                topics: None,
                require_stable: true,
            };
            let token = self.send(index, GroupRequest::OffsetFetch(request));
            self.members[index].fetching = Some((token, self.now_ms + REQUEST_MS));
            return;
        }
        member.positions.values_mut().for_each(|position| *position += step);
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
            generation_id_or_member_epoch: member.epoch,
            member_id: MemberId::from(member.member_id.as_str()),
            group_instance_id: member.instance_id.clone(),
            retention_time_ms: None,
            supports_member_epochs: true,
            topics: vec![topic],
        };
        let token = self.send(index, GroupRequest::OffsetCommit(request));
        self.pending_commits.insert(token, (index, self.now_ms, positions));
    }

    fn on_reply(&mut self, token: u64, reply: GroupReply) {
        let index = self.asked[&token];
        self.note(format!("m{index} #{token} <- {reply:?}"));
        let now_ms = self.now_ms;
        let member = &mut self.members[index];
        match reply {
            GroupReply::OffsetCommit(reply) => {
                let Some((_, _, positions)) = self.pending_commits.remove(&token) else { return };
                let rows = reply.topics.iter().flat_map(|topic| &topic.partitions);
                let taken = rows.filter(|(_, error)| error.is_none()).map(|(p, _)| p.0);
                for partition in taken.collect::<BTreeSet<_>>() {
                    let Some(&offset) = positions.get(&partition) else { continue };
                    let known = self.acknowledged.entry(partition).or_insert(0);
                    *known = offset.max(*known);
                }
            }
            GroupReply::OffsetFetch(reply)
                if member.fetching.is_some_and(|(awaited, _)| awaited == token) =>
            {
                member.fetching = None;
                if reply.error.is_none() {
                    let rows = reply.topics.iter().flat_map(|topic| &topic.partitions);
                    let known: BTreeMap<i32, i64> =
                        rows.map(|row| (row.partition.0, row.offset.0)).collect();
                    for partition in std::mem::take(&mut member.starting) {
                        let position = known.get(&partition).copied().unwrap_or(0);
                        member.positions.insert(partition, position);
                    }
                }
            }
            GroupReply::ConsumerGroupHeartbeat(reply)
                if member.waits_for.is_some_and(|(awaited, _)| awaited == token) =>
            {
                member.waits_for = None;
                member.next_report_ms = now_ms + HEARTBEAT_MS;
                self.on_answer(index, &reply);
            }
            _ => {}
        }
    }

    fn on_answer(&mut self, index: usize, reply: &ConsumerGroupHeartbeatReply) {
        let now_ms = self.now_ms;
        let member = &mut self.members[index];
        match reply.error {
            ErrorCode::None => {
                member.has_joined = true;
                member.epoch = reply.member_epoch;
                if let Some(assignment) = &reply.assignment {
                    let partitions = assignment.iter().flat_map(|topic| &topic.partitions);
                    member.assignment = partitions.map(|partition| partition.0).collect();
                    let new: BTreeSet<i32> =
                        member.assignment.difference(&member.owned()).copied().collect();
                    // A fetch under way does not know of these.
                    member.fetching = member.fetching.filter(|_| new.is_empty());
                    member.starting.extend(new);
                    member.next_report_ms = now_ms;
                }
            }
            ErrorCode::FencedMemberEpoch | ErrorCode::UnknownMemberId => {
                member.drop_all();
                member.epoch = 0;
                member.next_report_ms = now_ms;
            }
            // Whoever had the name is not given up yet.
            ErrorCode::UnreleasedInstanceId => member.next_report_ms = now_ms + 1_000,
            ErrorCode::GroupIdNotFound => {
                member.drop_all();
                member.epoch = 0;
            }
            ErrorCode::FencedInstanceId => {
                let instance_id = member.instance_id.clone();
                *member = Member { instance_id, ..Member::default() };
                if !self.faults {
                    self.start(index);
                }
            }
            error => panic!("member {index} got {error}: {:?}", reply.error_message),
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

    /// Everyone is at the group's epoch, and every partition is consumed by one.
    fn assert_settled(&self) {
        let group = self.coordinator.hard.group(GROUP).unwrap().consumer.as_ref().unwrap();
        assert_eq!(group.state(), GroupState::Stable, "{group:#?}");
        let mut owned: Vec<i32> =
            self.members.iter().flat_map(|m| m.positions.keys()).copied().collect();
        owned.sort_unstable();
        assert_eq!(owned, (0..self.partitions).collect::<Vec<_>>(), "{:#?}", self.members);
        for member in &self.members {
            assert_eq!(member.epoch, group.epoch());
            let current = group.current(&member.member_id);
            let told: OwnedPartitions = current.assigned;
            let told: BTreeSet<i32> = told.values().flat_map(|p| p.keys()).map(|p| p.0).collect();
            assert_eq!(told, member.owned());
        }
    }
}

fn simulate(seed: u64) {
    let mut simulation = Simulation::new(seed);
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        simulation.run(240_000);
        simulation.faults = false;
        simulation.commit_chance = 0.9;
        for index in 0..MEMBERS {
            if !simulation.members[index].is_up {
                simulation.start(index);
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
fn consumer_groups_stay_whole_and_settle() {
    super::seeds(200).for_each(|seed| super::with_seed(seed, simulate));
}
