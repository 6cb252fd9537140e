//! Processes with a client each, the coordinator, and what happens to them.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;

use protocol::types::TopicId;
use rand::Rng;
use uuid::Uuid;

use super::classic::ClassicClient;
use super::consumer::ConsumerClient;
use super::coordinator::Coordinator;
use super::network::{Message, Network};
use super::{GROUP, MEMBERS};
use crate::coordinator::group::GroupSoft;
use crate::coordinator::group::event::{
    GroupConfig, GroupReply, GroupRequest, GroupState, TopicShape, TopicsSnapshot,
};
use crate::coordinator::shard::RequestToken;

/// Which protocol the processes speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Plan {
    Classic,
    Consumer,
    /// One or the other, decided at each start of a process.
    Both,
}

/// What a client has at hand.
pub(super) struct Context<'a> {
    pub(super) index: usize,
    pub(super) instance_id: &'a Option<String>,
    pub(super) network: &'a mut Network,
    pub(super) partitions: i32,
}

/// Whether a client goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    LivesOn,
    Ends,
}

#[derive(Debug)]
enum Client {
    Classic(ClassicClient),
    Consumer(ConsumerClient),
}

#[derive(Debug)]
struct Process {
    instance_id: Option<String>,
    /// `None` while the process is down.
    client: Option<Client>,
    /// It lags: until then it neither does nor hears anything.
    hangs_until_ms: i64,
}

pub(super) struct World {
    network: Network,
    coordinator: Coordinator,
    processes: Vec<Process>,
    plan: Plan,
    is_cooperative: bool,
    /// How many of those that start speak KIP-848; changes as applications are rolled.
    consumer_share: f64,
    topics: Rc<RefCell<Arc<TopicsSnapshot>>>,
    partitions: i32,
    /// How quickly the log commits, and how often its leader changes.
    commit_chance: f64,
    crash_chance: f64,
}

pub(super) fn topic_id() -> TopicId {
    TopicId(Uuid::from_u128(7))
}

fn snapshot(partition_count: i32) -> Arc<TopicsSnapshot> {
    let shape = TopicShape { topic_id: topic_id(), partition_count, racks: Vec::new() };
    Arc::new(TopicsSnapshot::new([("t".to_owned(), shape)]))
}

impl World {
    pub(super) fn new(seed: u64, plan: Plan) -> Self {
        let mut network = Network::new(seed);
        let random = &mut network.random;
        let assignors = ["uniform", "range"];
        let first = random.random_range(0..2);
        let config = Arc::new(GroupConfig {
            initial_rebalance_delay_ms: [0, 500, 3_000][random.random_range(0..3)],
            consumer_session_timeout_ms: 6_000,
            consumer_assignment_interval_ms: [0, 1_000][random.random_range(0..2)],
            consumer_assignors: vec![assignors[first].to_owned(), assignors[1 - first].to_owned()],
            ..GroupConfig::default()
        });
        let topics = Rc::new(RefCell::new(snapshot(7)));
        let shared = topics.clone();
        let new_soft = move || GroupSoft::new(config.clone(), shared.borrow().clone());
        let processes = (0..MEMBERS).map(|index| Process {
            instance_id: random.random_bool(0.4).then(|| format!("static{index}")),
            client: None,
            hangs_until_ms: 0,
        });
        let processes = processes.collect();
        World {
            coordinator: Coordinator::new(new_soft),
            processes,
            plan,
            is_cooperative: random.random_bool(0.5),
            consumer_share: 0.5,
            topics,
            partitions: 7,
            commit_chance: [0.7, 0.1, 0.03][random.random_range(0..3)],
            crash_chance: [0.002_5, 0.01][random.random_range(0..2)],
            network,
        }
    }

    pub(super) fn tell_history(&self) {
        self.network.tell_history();
    }

    pub(super) fn run(&mut self, until_ms: i64) {
        while self.network.now_ms < until_ms {
            self.step();
        }
    }

    /// From now on nothing goes wrong, and every process is there.
    pub(super) fn heal(&mut self) {
        self.network.faults = false;
        self.commit_chance = 0.9;
        for index in 0..MEMBERS {
            self.processes[index].hangs_until_ms = 0;
            if self.processes[index].client.is_none() {
                self.start(index);
            }
        }
    }

    fn step(&mut self) {
        let now_ms = self.network.now_ms;
        let next_tick_ms = now_ms - now_ms % 100 + 100;
        let next = [self.network.next_ms(), self.coordinator.next_timer_ms(), Some(next_tick_ms)];
        let next_ms = next.into_iter().flatten().min().expect("there is a tick");
        self.network.now_ms = now_ms.max(next_ms);
        let replies = self.coordinator.fire(self.network.now_ms);
        self.network.answer(replies);
        while let Some(message) = self.network.receive() {
            match message {
                Message::Request(token, request) => {
                    let now_ms = self.network.now_ms;
                    let replies = self.coordinator.request(now_ms, token, request);
                    self.network.answer(replies);
                }
                Message::Reply(token, reply) => self.on_reply(token, reply),
            }
        }
        if self.coordinator.uncommitted() > 0 && self.network.chance(self.commit_chance) {
            let replies = self.coordinator.commit();
            self.network.answer(replies);
        }
        if self.network.now_ms % 100 == 0 {
            if self.network.faults {
                self.disturb();
            }
            (0..MEMBERS).for_each(|index| self.tick(index));
        }
    }

    /// Lets a process do something, if it is up.
    fn with_client<T>(
        &mut self,
        index: usize,
        act: impl FnOnce(&mut Client, &mut Context<'_>) -> T,
    ) -> Option<T> {
        let Process { instance_id, client, .. } = &mut self.processes[index];
        let (network, partitions) = (&mut self.network, self.partitions);
        let mut cx = Context { index, instance_id, network, partitions };
        client.as_mut().map(|client| act(client, &mut cx))
    }

    fn on_reply(&mut self, token: RequestToken, reply: GroupReply) {
        let index = self.network.asked_by(token);
        let until_ms = self.processes[index].hangs_until_ms;
        if until_ms > self.network.now_ms {
            return self.network.put_off(until_ms, token, reply);
        }
        self.network.note(|| format!("m{index} #{} <- {reply:?}", token.0));
        let fate = self.with_client(index, |client, cx| match client {
            Client::Classic(client) => client.on_reply(cx, token.0, reply),
            Client::Consumer(client) => client.on_reply(cx, token.0, &reply),
        });
        if fate == Some(Fate::Ends) {
            self.processes[index].client = None;
            if !self.network.faults {
                self.start(index);
            }
        }
    }

    fn tick(&mut self, index: usize) {
        if self.network.faults {
            self.misbehave(index);
        }
        if self.processes[index].hangs_until_ms > self.network.now_ms {
            return;
        }
        self.with_client(index, |client, cx| match client {
            Client::Classic(client) => client.tick(cx),
            Client::Consumer(client) => client.tick(cx),
        });
    }

    fn start(&mut self, index: usize) {
        let speaks_consumer = match self.plan {
            Plan::Classic => false,
            Plan::Consumer => true,
            Plan::Both => self.network.chance(self.consumer_share),
        };
        let Process { instance_id, .. } = &self.processes[index];
        let (network, partitions) = (&mut self.network, self.partitions);
        let mut cx = Context { index, instance_id, network, partitions };
        let client = match speaks_consumer {
            true => Client::Consumer(ConsumerClient::new(&mut cx)),
            false => Client::Classic(ClassicClient::new(self.is_cooperative)),
        };
        self.processes[index].client = Some(client);
        self.network.note(|| format!("m{index} starts, speaks_consumer {speaks_consumer}"));
    }

    /// A process starts, hangs, or dies.
    fn misbehave(&mut self, index: usize) {
        if self.processes[index].client.is_none() {
            if self.network.chance(0.02) {
                self.start(index);
            }
        } else if self.network.chance(0.003) {
            if self.network.chance(0.5) {
                self.with_client(index, |client, cx| match client {
                    Client::Classic(client) => client.leave(cx),
                    Client::Consumer(client) => client.leave(cx),
                });
            }
            self.network.note(|| format!("m{index} is down"));
            self.processes[index].client = None;
            self.processes[index].hangs_until_ms = 0;
        } else if self.network.chance(0.001) {
            let for_ms = self.network.random.random_range(0..15_000);
            self.network.note(|| format!("m{index} hangs for {for_ms}"));
            self.processes[index].hangs_until_ms = self.network.now_ms + for_ms;
        }
    }

    /// The coordinator moves, a topic grows, applications are rolled to another protocol.
    fn disturb(&mut self) {
        if self.network.chance(self.crash_chance) {
            let kept = self.network.random.random_range(0..=self.coordinator.uncommitted());
            self.network.note(|| format!("crash, {kept} uncommitted kept"));
            self.coordinator.crash(self.network.now_ms, kept);
        }
        if self.plan == Plan::Consumer && self.partitions < 12 && self.network.chance(0.001) {
            self.partitions += 1;
            *self.topics.borrow_mut() = snapshot(self.partitions);
            let request = GroupRequest::TopicsChanged(self.topics.borrow().clone());
            self.coordinator.request(self.network.now_ms, 0, request);
        }
        if self.network.chance(0.002) {
            self.consumer_share = [0.0, 0.5, 1.0][self.network.random.random_range(0..3)];
        }
    }

    /// Everyone consumes, in one generation, and every partition has one owner.
    pub(super) fn assert_settled(&self) {
        let mut epochs = BTreeSet::new();
        let mut owned = Vec::new();
        for (index, process) in self.processes.iter().enumerate() {
            let settled = match process.client.as_ref().expect("every process is up") {
                Client::Classic(client) => client.settled(),
                Client::Consumer(client) => client.settled(),
            };
            let (epoch, partitions) = settled.unwrap_or_else(|| panic!("m{index}: {process:#?}"));
            epochs.insert(epoch);
            owned.extend(partitions);
        }
        owned.sort_unstable();
        assert_eq!(owned, (0..self.partitions).collect::<Vec<_>>(), "{:#?}", self.processes);
        assert_eq!(epochs.len(), 1, "{:#?}", self.processes);
        let hard = &self.coordinator.hard;
        let durable = hard.group(GROUP).expect("it is there");
        let state = match &durable.consumer {
            Some(consumer) => Some(consumer.state()),
            None => self.coordinator.soft.look(hard, GROUP, |group| group.state()),
        };
        assert_eq!(state, Some(GroupState::Stable));
        self.coordinator.truth.assert_kept(hard);
    }
}
