//! The machine with a clock of its own: requests in, effects out, timers when they are due.

use std::collections::BTreeMap;

use protocol::types::Timestamp;

use crate::coordinator::group::event::{GroupReply, GroupRequest};
use crate::coordinator::group::{GroupHard, GroupRecord, GroupShard, GroupSoft, GroupTimer};
use crate::coordinator::shard::{Effect, Event, Now, RequestToken, Shard, Steady, When};

/// What came of an event, timers aside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    Appended(Vec<GroupRecord>),
    Replied(RequestToken, GroupReply, When),
}

/// A shard that is loaded, and what keeps it.
pub(super) struct Machine {
    pub(super) hard: GroupHard,
    pub(super) soft: GroupSoft,
    pub(super) now_ms: i64,
    timers: Vec<(Steady, u64, GroupTimer)>,
    set: u64,
    /// The log, as key and value bytes.
    log: BTreeMap<bytes::Bytes, bytes::Bytes>,
}

impl Machine {
    pub(super) fn new(soft: GroupSoft) -> Machine {
        let mut machine = Machine {
            hard: GroupHard::default(),
            soft,
            now_ms: 0,
            timers: Vec::new(),
            set: 0,
            log: BTreeMap::new(),
        };
        machine.decide(Event::Loaded);
        machine
    }

    fn now(&self) -> Now {
        Now { wall: Timestamp(self.now_ms), steady: Steady(self.now_ms + 1_000_000) }
    }

    fn decide(&mut self, event: Event<GroupShard>) -> Vec<Outcome> {
        let mut effects = Vec::new();
        let now = self.now();
        GroupShard::decide(&self.hard, &mut self.soft, now, event, &mut effects);
        effects.into_iter().filter_map(|effect| self.carry_out(effect)).collect()
    }

    fn carry_out(&mut self, effect: Effect<GroupShard>) -> Option<Outcome> {
        match effect {
            Effect::Append(records) => {
                for record in &records {
                    let bytes = GroupShard::encode(record);
                    let decoded = GroupShard::decode(&bytes).unwrap();
                    assert_eq!(decoded.as_ref(), Some(record), "a record is read as written");
                    match bytes.value {
                        Some(value) => self.log.insert(bytes.key, value),
                        None => self.log.remove(&bytes.key),
                    };
                    GroupShard::replay(&mut self.hard, record);
                }
                Some(Outcome::Appended(records))
            }
            Effect::Reply { token, reply, when } => Some(Outcome::Replied(token, reply, when)),
            Effect::SetTimer(timer, at) => {
                self.timers.retain(|(_, _, other)| *other != timer);
                self.set += 1;
                self.timers.push((at, self.set, timer));
                None
            }
            Effect::CancelTimer(timer) => {
                self.timers.retain(|(_, _, other)| *other != timer);
                None
            }
        }
    }

    pub(super) fn request(&mut self, token: u64, request: GroupRequest) -> Vec<Outcome> {
        self.decide(Event::Request(RequestToken(token), request))
    }

    /// When the next timer is due.
    pub(super) fn next_timer_ms(&self) -> Option<i64> {
        self.timers.iter().map(|(at, ..)| at.0 - 1_000_000).min()
    }

    /// Lets the time pass, and what is due happen.
    pub(super) fn advance(&mut self, ms: i64) -> Vec<(i64, Outcome)> {
        let end = self.now_ms + ms;
        let mut outcomes = Vec::new();
        while let Some(due_ms) = self.next_timer_ms().filter(|&due_ms| due_ms <= end) {
            self.now_ms = self.now_ms.max(due_ms);
            let next = self.timers.iter().enumerate().min_by_key(|(_, (at, set, _))| (*at, *set));
            let index = next.expect("one is due").0;
            let (_, _, timer) = self.timers.remove(index);
            let happened = self.decide(Event::Timer(timer));
            outcomes.extend(happened.into_iter().map(|outcome| (self.now_ms, outcome)));
        }
        self.now_ms = end;
        outcomes
    }

    /// Another broker takes over: all that it has is the log.
    pub(super) fn reload(&mut self) -> Vec<Outcome> {
        let mut hard = GroupHard::default();
        for (key, value) in &self.log {
            let record = crate::coordinator::shard::KeyValue {
                key: key.clone(),
                value: Some(value.clone()),
            };
            let record = GroupShard::decode(&record).unwrap().unwrap();
            GroupShard::replay(&mut hard, &record);
        }
        assert_eq!(hard, self.hard, "the compacted log yields the state");
        let mut again = GroupHard::default();
        let snapshot = GroupShard::snapshot(&hard);
        assert_eq!(snapshot.len(), self.log.len(), "a snapshot has a record for each key");
        snapshot.iter().for_each(|record| GroupShard::replay(&mut again, record));
        assert_eq!(again, hard, "the snapshot yields the state");
        self.hard = hard;
        self.soft = GroupSoft::new(self.soft.config.clone(), self.soft.topics.clone());
        self.timers.clear();
        self.decide(Event::Loaded)
    }

    pub(super) fn timer_names(&self) -> Vec<String> {
        let mut timers = self.timers.clone();
        timers.sort_by_key(|(at, set, _)| (*at, *set));
        let name =
            |(at, _, timer): &(Steady, u64, GroupTimer)| format!("{} {timer:?}", at.0 - 1_000_000);
        timers.iter().map(name).collect()
    }
}
