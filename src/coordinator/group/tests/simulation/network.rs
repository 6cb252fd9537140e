//! What lies between members and their coordinator: requests and answers that are late, lost or
//! doubled while there are faults.

use std::collections::{BTreeMap, VecDeque};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::coordinator::Reply;
use crate::coordinator::group::event::{GroupReply, GroupRequest};
use crate::coordinator::shard::RequestToken;

/// How many lines of what happened are told of a seed that fails.
const HISTORY: usize = 600;

/// What is under way.
pub(super) enum Message {
    Request(u64, GroupRequest),
    Reply(RequestToken, GroupReply),
}

/// A request that went out.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sent {
    pub(super) token: u64,
    /// Doubled on the way, which happens only where a connection broke.
    pub(super) twice: bool,
}

pub(super) struct Network {
    pub(super) random: StdRng,
    pub(super) now_ms: i64,
    pub(super) faults: bool,
    /// By delivery time and order.
    in_flight: BTreeMap<(i64, u64), Message>,
    sent: u64,
    /// Which member asked.
    asked: BTreeMap<u64, usize>,
    /// When the last of a member's requests arrives that keep their order.
    last_delivery: BTreeMap<usize, i64>,
    /// Kept where one seed is looked at.
    history: Option<VecDeque<String>>,
}

impl Network {
    pub(super) fn new(seed: u64) -> Self {
        let looks = std::env::var("SEED").is_ok_and(|seed| !seed.is_empty());
        let history = looks.then(VecDeque::new);
        Network {
            random: StdRng::seed_from_u64(seed),
            now_ms: 0,
            faults: true,
            in_flight: BTreeMap::new(),
            sent: 0,
            asked: BTreeMap::new(),
            last_delivery: BTreeMap::new(),
            history,
        }
    }

    pub(super) fn note(&mut self, what: impl FnOnce() -> String) {
        let Some(history) = &mut self.history else { return };
        if history.len() == HISTORY {
            history.pop_front();
        }
        history.push_back(format!("{:>7} {}", self.now_ms, what()));
    }

    pub(super) fn tell_history(&self) {
        self.history.iter().flatten().for_each(|line| eprintln!("{line}"));
    }

    /// A number that nobody else has.
    pub(super) fn unique(&mut self) -> u64 {
        self.sent += 1;
        self.sent
    }

    pub(super) fn chance(&mut self, of: f64) -> bool {
        self.random.random_bool(of)
    }

    fn latency_ms(&mut self) -> i64 {
        match self.faults && self.chance(0.05) {
            true => self.random.random_range(0..8_000),
            false => self.random.random_range(0..20),
        }
    }

    /// Sends a member's request. What a member commits, asks of offsets and reports stays in order,
    /// as on a connection; commits are never doubled, as no client sends one anew after another.
    pub(super) fn send(&mut self, member: usize, request: &GroupRequest) -> Sent {
        let uses_offsets =
            matches!(request, GroupRequest::OffsetCommit(_) | GroupRequest::OffsetFetch(_));
        let is_ordered = uses_offsets || matches!(request, GroupRequest::ConsumerGroupHeartbeat(_));
        let faults = self.faults;
        let copies = match faults {
            true if self.chance(0.03) => 0,
            true if !uses_offsets && self.chance(0.03) => 2,
            _ => 1,
        };
        let token = self.unique();
        self.asked.insert(token, member);
        self.note(|| format!("m{member} #{token} {copies} x {request:?}"));
        for _ in 0..copies {
            let mut at = self.now_ms + self.latency_ms();
            if is_ordered {
                let last = self.last_delivery.entry(member).or_insert(at);
                at = at.max(*last);
                *last = at;
            }
            let order = self.unique();
            let mut copy = request.clone();
            if let GroupRequest::JoinGroup(join) = &mut copy {
                // Each that arrives is given its own.
                join.new_member_id = order.to_string();
            }
            self.in_flight.insert((at, order), Message::Request(token, copy));
        }
        Sent { token, twice: copies == 2 }
    }

    /// Takes the coordinator's answers on their way.
    pub(super) fn answer(&mut self, replies: Vec<Reply>) {
        for (token, reply) in replies {
            if !self.asked.contains_key(&token.0) || self.faults && self.chance(0.03) {
                continue;
            }
            let at = self.now_ms + self.latency_ms();
            self.put_off(at, token, reply);
        }
    }

    /// An answer arrives later.
    pub(super) fn put_off(&mut self, until_ms: i64, token: RequestToken, reply: GroupReply) {
        let order = self.unique();
        self.in_flight.insert((until_ms, order), Message::Reply(token, reply));
    }

    pub(super) fn asked_by(&self, token: RequestToken) -> usize {
        self.asked[&token.0]
    }

    pub(super) fn next_ms(&self) -> Option<i64> {
        self.in_flight.keys().next().map(|(at, _)| *at)
    }

    /// What arrives now.
    pub(super) fn receive(&mut self) -> Option<Message> {
        let first = self.in_flight.first_entry()?;
        (first.key().0 <= self.now_ms).then(|| first.remove())
    }
}
