//! The machine as a broker runs it: a log that commits late, timers, and crashes that lose what
//! was not committed.

use std::collections::{BTreeMap, BTreeSet};

use crate::coordinator::group::event::{GroupReply, GroupRequest, MemberId};
use crate::coordinator::group::{GroupHard, GroupRecord, GroupShard, GroupSoft, GroupTimer};
use crate::coordinator::shard::{Effect, Event, Now, RequestToken, Shard, Steady, When};
use protocol::types::{PartitionId, Timestamp};

use super::GROUP;
use super::truth::{Life, Truth};

/// A reply on its way.
pub(super) type Reply = (RequestToken, GroupReply);

pub(super) struct Coordinator {
    pub(super) hard: GroupHard,
    pub(super) soft: GroupSoft,
    new_soft: Box<dyn Fn() -> GroupSoft>,
    log: Vec<Vec<GroupRecord>>,
    committed: usize,
    timers: Vec<(Steady, u64, GroupTimer)>,
    set: u64,
    held: Vec<(usize, Life, Reply)>,
    /// How often the group has begun anew, and the epoch that it has come to.
    life: Life,
    epoch: i32,
    pub(super) truth: Truth,
    /// The steady clock starts anew with each coordinator.
    steady_base: i64,
}

impl Coordinator {
    pub(super) fn new(new_soft: impl Fn() -> GroupSoft + 'static) -> Self {
        let mut coordinator = Coordinator {
            hard: GroupHard::default(),
            soft: new_soft(),
            new_soft: Box::new(new_soft),
            log: Vec::new(),
            committed: 0,
            timers: Vec::new(),
            set: 0,
            held: Vec::new(),
            life: 0,
            epoch: 0,
            truth: Truth::default(),
            steady_base: 0,
        };
        coordinator.event(0, Event::Loaded);
        coordinator
    }

    /// Decides on an event, and tells what is answered at once.
    pub(super) fn event(&mut self, now_ms: i64, event: Event<GroupShard>) -> Vec<Reply> {
        let now = Now { wall: Timestamp(now_ms), steady: Steady(now_ms - self.steady_base) };
        let mut effects = Vec::new();
        GroupShard::decide(&self.hard, &mut self.soft, now, event, &mut effects);
        let mut replies = Vec::new();
        for effect in effects {
            match effect {
                Effect::Append(records) => {
                    for record in &records {
                        self.assert_not_back(record);
                        GroupShard::replay(&mut self.hard, record);
                    }
                    self.log.push(records);
                    self.look_at_epoch();
                    self.assert_one_owner();
                }
                Effect::Reply { token, reply, when } => match when {
                    When::Durable if self.committed < self.log.len() => {
                        self.held.push((self.log.len(), self.life, (token, reply)));
                    }
                    _ => {
                        self.truth.on_reply(self.life, token, &reply);
                        replies.push((token, reply));
                    }
                },
                Effect::SetTimer(timer, at) => {
                    self.timers.retain(|(_, _, other)| *other != timer);
                    self.set += 1;
                    self.timers.push((at, self.set, timer));
                }
                Effect::CancelTimer(timer) => {
                    self.timers.retain(|(_, _, other)| *other != timer);
                }
            }
        }
        replies
    }

    /// No member asks for a rewind: no commit may go back.
    fn assert_not_back(&self, record: &GroupRecord) {
        let GroupRecord::Offset { group_id, topic, partition, value: Some(value) } = record else {
            return;
        };
        let group = self.hard.group(group_id);
        let before = group.and_then(|group| group.offset(topic, *partition));
        let before = before.map_or(-1, |before| before.offset.0);
        assert!(value.offset.0 >= before, "{before} of {topic}-{partition} becomes {value:?}");
    }

    /// The epoch or generation that the log knows.
    fn durable_epoch(&self) -> Option<i32> {
        let group = self.hard.group(GROUP)?;
        match (&group.consumer, &group.classic) {
            (Some(consumer), _) => Some(consumer.epoch()),
            (None, classic) => classic.as_ref().map(|metadata| metadata.generation_id),
        }
    }

    fn look_at_epoch(&mut self) {
        let Some(epoch) = self.durable_epoch() else { return };
        self.life += u32::from(epoch < self.epoch);
        self.epoch = epoch;
    }

    /// Whatever the members do, the log never gives a partition to two of them.
    fn assert_one_owner(&self) {
        let Some(group) = self.hard.group(GROUP) else { return };
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

    /// A request arrives.
    pub(super) fn request(&mut self, now_ms: i64, token: u64, request: GroupRequest) -> Vec<Reply> {
        self.truth.on_request(token, &request);
        self.event(now_ms, Event::Request(RequestToken(token), request))
    }

    pub(super) fn next_timer_ms(&self) -> Option<i64> {
        self.timers.iter().map(|(at, ..)| at.0 + self.steady_base).min()
    }

    /// Lets the timers that are due fire.
    pub(super) fn fire(&mut self, now_ms: i64) -> Vec<Reply> {
        let mut replies = Vec::new();
        while self.next_timer_ms().is_some_and(|due_ms| due_ms <= now_ms) {
            let timers = self.timers.iter().enumerate();
            let (index, _) = timers.min_by_key(|(_, (at, set, _))| (*at, *set)).unwrap();
            let (_, _, timer) = self.timers.remove(index);
            replies.extend(self.event(now_ms, Event::Timer(timer)));
        }
        replies
    }

    pub(super) fn uncommitted(&self) -> usize {
        self.log.len() - self.committed
    }

    /// The log commits another batch: what waited for it is answered.
    pub(super) fn commit(&mut self) -> Vec<Reply> {
        self.committed = (self.committed + 1).min(self.log.len());
        let is_ready = |(at, ..): &(usize, Life, Reply)| *at <= self.committed;
        let (ready, held) = std::mem::take(&mut self.held).into_iter().partition(is_ready);
        self.held = held;
        let mut replies = Vec::new();
        for (_, life, (token, reply)) in ready {
            self.truth.on_reply(life, token, &reply);
            replies.push((token, reply));
        }
        replies
    }

    /// Another broker takes over, with what was committed and perhaps a little more.
    pub(super) fn crash(&mut self, now_ms: i64, kept_uncommitted: usize) {
        self.log.truncate(self.committed + kept_uncommitted);
        self.committed = self.log.len();
        self.hard = GroupHard::default();
        for record in self.log.iter().flatten() {
            let bytes = GroupShard::encode(record);
            let decoded = GroupShard::decode(&bytes).unwrap().unwrap();
            GroupShard::replay(&mut self.hard, &decoded);
        }
        let mut again = GroupHard::default();
        let snapshot = GroupShard::snapshot(&self.hard);
        snapshot.iter().for_each(|record| GroupShard::replay(&mut again, record));
        assert_eq!(again, self.hard, "a snapshot yields the state");
        if now_ms % 2 == 0 {
            self.log = vec![snapshot];
            self.committed = 1;
        }
        self.soft = (self.new_soft)();
        self.timers.clear();
        self.held.clear();
        self.steady_base = now_ms;
        self.epoch = self.durable_epoch().unwrap_or(self.epoch);
        self.truth.assert_kept(&self.hard);
        let replies = self.event(now_ms, Event::Loaded);
        assert!(replies.is_empty(), "nobody has asked yet");
    }
}
