//! What a group wants: names, regular expressions, and the topics that they stand for.
//!
//! Pure: no I/O, no clock, no randomness.

use std::collections::BTreeSet;

use protocol::error_code::ErrorCode;
use protocol::types::{Timestamp, TopicId};
use regex::{Regex, RegexBuilder};

use super::{Draft, Refusal};
use crate::coordinator::group::event::TopicsSnapshot;
use crate::coordinator::group::hard::HardConsumerGroup;
use crate::coordinator::group::limits;
use crate::coordinator::group::record::{ConsumerMember, GroupRecord, ResolvedRegex};

/// The expression, to be matched with whole names.
pub(super) fn compile(expression: &str) -> Result<Regex, Refusal> {
    let whole = format!("^(?:{expression})$");
    // The expression alone first: a parenthesis too many must not be closed by ours.
    let is_valid = Regex::new(expression).is_ok();
    let compiled = RegexBuilder::new(&whole).size_limit(limits::REGEX_BYTES).build();
    compiled.ok().filter(|_| is_valid).ok_or_else(|| {
        let message =
            format!("SubscribedTopicRegex `{expression}` is not a valid regular expression.");
        Refusal::new(ErrorCode::InvalidRegularExpression, message)
    })
}

/// The names of the topics that an expression stands for; none where it is not valid (any more).
fn resolve(topics: &TopicsSnapshot, expression: &str) -> BTreeSet<String> {
    let Ok(regex) = compile(expression) else { return BTreeSet::new() };
    let names = topics.iter().map(|(name, _)| name);
    names.filter(|name| regex.is_match(name)).map(|name| name.to_string()).collect()
}

/// Makes the expressions that the log resolves those that members use, as of these topics. Whether
/// the topics behind any of them have changed.
pub(super) fn refresh_regexes(
    draft: &mut Draft<'_>,
    topics: &TopicsSnapshot,
    version: u64,
    now: Timestamp,
) -> bool {
    let members = draft.group.members.values();
    let used: BTreeSet<String> =
        members.filter_map(|member| member.subscribed_topic_regex.clone()).collect();
    let known: BTreeSet<String> = draft.group.regexes.keys().cloned().collect();
    for unused in known.difference(&used) {
        draft.apply(GroupRecord::Regex(draft.group_id.clone(), unused.clone(), None));
    }
    let mut has_changed = false;
    for expression in used {
        let found = resolve(topics, &expression);
        let before = draft.group.regexes.get(&expression);
        if before.is_some_and(|before| before.topics == found) {
            continue;
        }
        has_changed = true;
        let version = i64::try_from(version).unwrap_or(i64::MAX);
        let resolved = ResolvedRegex { topics: found, version, timestamp: now };
        draft.apply(GroupRecord::Regex(draft.group_id.clone(), expression, Some(resolved)));
    }
    has_changed
}

/// The ids of the topics that a member wants and that exist.
pub(super) fn wanted_topics(
    group: &HardConsumerGroup,
    member: &ConsumerMember,
    topics: &TopicsSnapshot,
) -> BTreeSet<TopicId> {
    let names = group.subscription(member).into_iter();
    names.filter_map(|name| topics.get(name)).map(|topic| topic.topic_id).collect()
}

/// Says whether the wanted topics are still what they were: their ids, partitions and racks. 0
/// where none exists.
pub(super) fn metadata_hash(group: &HardConsumerGroup, topics: &TopicsSnapshot) -> i64 {
    let names: BTreeSet<&str> =
        group.members.values().flat_map(|member| group.subscription(member)).collect();
    let mut hash = Fnv::new();
    let mut is_empty = true;
    for name in names {
        let Some(topic) = topics.get(name) else { continue };
        is_empty = false;
        hash.add(name.as_bytes());
        hash.add(topic.topic_id.0.as_bytes());
        hash.add(&topic.partition_count.to_be_bytes());
        for racks in &topic.racks {
            hash.add(&[0]);
            racks.iter().for_each(|rack| hash.add(rack.as_bytes()));
        }
    }
    if is_empty { 0 } else { hash.0 as i64 }
}

/// FNV-1a of 64 bits, each part led by its length.
struct Fnv(u64);

impl Fnv {
    fn new() -> Fnv {
        Fnv(0xcbf2_9ce4_8422_2325)
    }

    fn add(&mut self, part: &[u8]) {
        let len = (part.len() as u64).to_be_bytes();
        for byte in len.iter().chain(part) {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
}
