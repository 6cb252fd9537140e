//! Scripts of fetch sessions, and their limits.
//!
//! A partition is written `topic-number@fetch_offset`, an answer `topic-number` and then, each
//! behind a colon, `hw5`, `start5`, `records`, `error`, `diverges`.

use std::sync::Arc;

use indexmap::IndexMap;
use protocol::error_code::ErrorCode;
use protocol::types::{Offset, PartitionId, Timestamp, TopicId};
use storage::testing::script::{Command, run_scripts};

use super::{
    Answered, Asked, FetchContext, FetchSessionCache, MAX_CACHED_PARTITIONS, PartitionKey,
    PartitionRequest, SessionRequest, TopicKey, next_epoch,
};

/// The cache, the request that is being answered, and one that is answered late.
struct Machine {
    cache: FetchSessionCache,
    context: FetchContext,
    asked: Vec<Asked>,
    late: Option<(FetchContext, Vec<Asked>)>,
    next_id: i32,
}

fn key(name: &str, uses_topic_ids: bool) -> PartitionKey {
    let (topic, partition) = name.split_once('-').unwrap();
    let topic = if uses_topic_ids {
        TopicKey::Id(TopicId(uuid::Uuid::from_u128(u128::from(topic.as_bytes()[0]))))
    } else {
        TopicKey::Name(Arc::from(topic))
    };
    PartitionKey { topic, partition: PartitionId(partition.parse().unwrap()) }
}

fn name(key: &PartitionKey) -> String {
    let topic = match &key.topic {
        TopicKey::Name(name) => name.to_string(),
        TopicKey::Id(id) => char::from(id.0.as_u128() as u8).to_string(),
    };
    format!("{topic}-{}", key.partition)
}

fn partition_request(fetch_offset: i64) -> PartitionRequest {
    PartitionRequest {
        fetch_offset: Offset(fetch_offset),
        max_bytes: 1 << 20,
        current_leader_epoch: None,
        last_fetched_epoch: None,
    }
}

impl Machine {
    fn new(slots: usize) -> Self {
        let cache = FetchSessionCache::new(slots);
        let context = FetchContext::Sessionless;
        Self { cache, context, asked: Vec::new(), late: None, next_id: 1 }
    }

    fn run(&mut self, command: &Command) -> String {
        match command.name.as_str() {
            "slots" => {
                *self = Self::new(command.arg(0));
                String::new()
            }
            "begin" => self.begin(command),
            "delay" => {
                self.late = Some((self.context.clone(), self.asked.clone()));
                String::new()
            }
            "finish-late" => {
                (self.context, self.asked) = self.late.take().unwrap();
                self.finish(command)
            }
            "finish" => self.finish(command),
            _ => command.unknown(),
        }
    }

    fn begin(&mut self, command: &Command) -> String {
        let now = Timestamp(command.option("now").unwrap_or(0));
        let uses_topic_ids = command.has("ids");
        let mut partitions = IndexMap::new();
        let mut forgotten = Vec::new();
        for word in &command.args()[2..] {
            if let Some((partition, offset)) = word.split_once('@') {
                let request = partition_request(offset.parse().unwrap());
                partitions.insert(key(partition, uses_topic_ids), request);
            } else if let Some(partition) = word.strip_prefix("forget:") {
                forgotten.push(key(partition, uses_topic_ids));
            }
        }
        let (session_id, epoch) = (command.arg(0), command.arg(1));
        let request = SessionRequest { session_id, epoch, uses_topic_ids, partitions, forgotten };
        match self.cache.begin(now, request, &|_| Some(Arc::from("known"))) {
            Err(error) => error.to_string(),
            Ok((context, asked)) => {
                (self.context, self.asked) = (context, asked);
                let kind = match &self.context {
                    FetchContext::Sessionless => "sessionless".to_owned(),
                    FetchContext::Full { .. } => "full".to_owned(),
                    FetchContext::Incremental { session_id, epoch } => {
                        format!("session {session_id}, next epoch {epoch}")
                    }
                };
                let asked = self
                    .asked
                    .iter()
                    .map(|asked| format!(" {}@{}", name(&asked.key), asked.request.fetch_offset));
                format!("{kind}:{}", asked.collect::<String>())
            }
        }
    }

    fn finish(&mut self, command: &Command) -> String {
        let now = Timestamp(command.option("now").unwrap_or(0));
        let answered: Vec<_> = self.asked.iter().map(|asked| answer(asked, command)).collect();
        let finished = self.cache.finish(now, &self.context, &answered, self.next_id);
        self.next_id += 1;
        let rows = self.asked.iter().zip(&finished.included).filter(|(_, included)| **included);
        let rows: String = rows.map(|(asked, _)| format!(" {}", name(&asked.key))).collect();
        let (sessions, partitions) = (self.cache.session_count(), self.cache.partition_count());
        let error = finished.error;
        format!(
            "{error} session {}:{rows}\n{sessions} sessions, {partitions} partitions",
            finished.session_id
        )
    }
}

fn answer(asked: &Asked, command: &Command) -> Answered {
    let mut answered = Answered {
        asked: asked.clone(),
        has_error: false,
        has_records: false,
        diverges: false,
        high_watermark: Offset(0),
        log_start_offset: Offset(0),
    };
    let own = name(&asked.key);
    let words = command.args().iter().filter_map(|word| word.split_once(':'));
    for part in words.filter(|(name, _)| *name == own).flat_map(|(_, parts)| parts.split(':')) {
        match part {
            "records" => answered.has_records = true,
            "diverges" => answered.diverges = true,
            "error" => {
                answered.has_error = true;
                answered.high_watermark = Offset(-1);
                answered.log_start_offset = Offset(-1);
            }
            _ => match (part.strip_prefix("hw"), part.strip_prefix("start")) {
                (Some(offset), _) => answered.high_watermark = Offset(offset.parse().unwrap()),
                (_, Some(offset)) => answered.log_start_offset = Offset(offset.parse().unwrap()),
                _ => panic!("what is {part}?"),
            },
        }
    }
    answered
}

#[test]
fn scripts_print_what_kafka_would_answer() {
    let scripts = concat!(env!("CARGO_MANIFEST_DIR"), "/src/fetch/session/testdata");
    run_scripts(scripts, || {
        let mut machine = Machine::new(10);
        move |command: &Command| machine.run(command)
    });
}

#[test]
fn the_epoch_after_the_largest_is_1() {
    assert_eq!([0, 1, i32::MAX, -1].map(next_epoch), [1, 2, 1, -1]);
}

fn full_request(count: usize) -> SessionRequest {
    let keys = (0..count).map(|n| PartitionKey {
        topic: TopicKey::Id(TopicId::default()),
        partition: PartitionId(i32::try_from(n).unwrap()),
    });
    let partitions = keys.map(|key| (key, partition_request(0))).collect();
    let forgotten = Vec::new();
    SessionRequest { session_id: 0, epoch: 0, uses_topic_ids: true, partitions, forgotten }
}

fn open(cache: &mut FetchSessionCache, count: usize, id: i32) -> i32 {
    let now = Timestamp(0);
    let (context, asked) = cache.begin(now, full_request(count), &|_| None).unwrap();
    let answered: Vec<_> = asked
        .into_iter()
        .map(|asked| Answered {
            asked,
            has_error: false,
            has_records: false,
            diverges: false,
            high_watermark: Offset(0),
            log_start_offset: Offset(0),
        })
        .collect();
    cache.finish(now, &context, &answered, id).session_id
}

#[test]
fn partitions_of_all_sessions_together_are_bounded() {
    let mut cache = FetchSessionCache::new(10);
    assert_eq!(open(&mut cache, MAX_CACHED_PARTITIONS - 1, 5), 5);
    assert_eq!(open(&mut cache, 2, 6), 0);
    assert_eq!(open(&mut cache, 1, 7), 7);
    let mut grows = full_request(2);
    (grows.session_id, grows.epoch) = (7, 1);
    let refused = cache.begin(Timestamp(0), grows, &|_| None);
    assert_eq!(refused.unwrap_err(), ErrorCode::FetchSessionIdNotFound);
    assert_eq!(cache.partition_count(), MAX_CACHED_PARTITIONS - 1);
}

#[test]
fn a_session_id_in_use_is_not_handed_out_again() {
    let mut cache = FetchSessionCache::new(10);
    assert_eq!(open(&mut cache, 1, i32::MAX), i32::MAX);
    assert_eq!(open(&mut cache, 1, i32::MAX), 1);
    assert_eq!(open(&mut cache, 1, i32::MAX), 2);
    assert_eq!(open(&mut cache, 1, 0), 3);
}

#[test]
fn a_name_is_remembered_once_its_id_was_known() {
    let mut cache = FetchSessionCache::new(10);
    let id = open(&mut cache, 2, 9);
    let mut next = full_request(0);
    (next.session_id, next.epoch) = (id, 1);
    let (_, asked) = cache.begin(Timestamp(0), next.clone(), &|_| None).unwrap();
    assert!(asked.iter().all(|asked| asked.known_name.is_none()));
    next.epoch = 2;
    let (_, asked) =
        cache.begin(Timestamp(0), next.clone(), &|_| Some(Arc::from("orders"))).unwrap();
    assert!(asked.iter().all(|asked| asked.known_name.as_deref() == Some("orders")));
    next.epoch = 3;
    let (_, asked) = cache.begin(Timestamp(0), next, &|_| None).unwrap();
    assert!(asked.iter().all(|asked| asked.known_name.as_deref() == Some("orders")));
}
