//! Fetch: arguments, limits, epochs, sessions.

use compat_tests::batches::batch;
use compat_tests::requests::{list_offsets, produce, topic_name};
use kafka_protocol::messages::fetch_request::{
    FetchPartition, FetchTopic, ForgottenTopic, ReplicaState,
};
use kafka_protocol::messages::{ApiKey, BrokerId, FetchRequest};
use uuid::Uuid;

use crate::case::{Case, Memory};
use crate::setup::{COMPACTED, EMPTY, LOG_APPEND_TIME, NUMBERS, TRIMMED};

fn partition(index: i32, offset: i64) -> FetchPartition {
    FetchPartition::default()
        .with_partition(index)
        .with_current_leader_epoch(-1)
        .with_last_fetched_epoch(-1)
        .with_log_start_offset(-1)
        .with_fetch_offset(offset)
        .with_partition_max_bytes(1 << 20)
}

fn topic(memory: &Memory, alias: &str, partitions: Vec<FetchPartition>) -> FetchTopic {
    FetchTopic::default()
        .with_topic(memory.topic(alias))
        .with_topic_id(memory.id(alias))
        .with_partitions(partitions)
}

/// Without a session, and without waiting.
fn request(topics: Vec<FetchTopic>) -> FetchRequest {
    FetchRequest::default()
        .with_replica_id(BrokerId(-1))
        .with_max_wait_ms(0)
        .with_min_bytes(1)
        .with_max_bytes(1 << 20)
        .with_session_epoch(-1)
        .with_topics(topics)
}

fn of(name: &str, alias: &'static str, rows: &'static [(i32, i64)]) -> Case {
    Case::new(ApiKey::Fetch, name).ask(move |m| {
        let partitions = rows.iter().map(|(index, offset)| partition(*index, *offset));
        request(vec![topic(m, alias, partitions.collect())])
    })
}

fn offsets() -> Vec<Case> {
    use ApiKey::Fetch as Api;
    vec![
        of("from the start", NUMBERS, &[(0, 0)]),
        of("inside a batch", NUMBERS, &[(0, 3)]),
        of("the last record", NUMBERS, &[(0, 9)]),
        of("at the end", NUMBERS, &[(0, 10)]),
        of("past the end", NUMBERS, &[(0, 11)]),
        of("a negative offset", NUMBERS, &[(0, -1)]),
        of("the largest offset", NUMBERS, &[(0, i64::MAX)]),
        of("a compressed batch", NUMBERS, &[(1, 2)]),
        of("an empty partition", EMPTY, &[(0, 0)]),
        of("past the end of an empty partition", EMPTY, &[(0, 1)]),
        of("before a deleted start", TRIMMED, &[(0, 3)]),
        of("at a deleted start", TRIMMED, &[(0, 4)]),
        of("a compacted topic", COMPACTED, &[(0, 0)]),
        of("several partitions", NUMBERS, &[(2, 0), (0, 0), (1, 0)]),
        of("good and bad partitions", NUMBERS, &[(0, 0), (9, 0), (-1, 0), (1, 99), (2, 0)]),
        of("a partition twice", NUMBERS, &[(0, 0), (0, 4)]),
        of("no partitions", NUMBERS, &[]),
        of("an unknown topic", "unknown", &[(0, 0)]),
        Case::new(Api, "the broker's time")
            .ask(|m| request(vec![topic(m, LOG_APPEND_TIME, vec![partition(0, 1)])])),
        Case::new(Api, "an unknown id").versions(13..=18).ask(|m| {
            let unknown = topic(m, "unknown", vec![partition(0, 0)]);
            request(vec![unknown.with_topic_id(Uuid::from_u128(4))])
        }),
        Case::new(Api, "an unknown id beside a known one").versions(13..=18).ask(|m| {
            let unknown = topic(m, "unknown", vec![partition(0, 0)]);
            let known = topic(m, NUMBERS, vec![partition(0, 8)]);
            request(vec![unknown.with_topic_id(Uuid::from_u128(4)), known])
        }),
        Case::new(Api, "an invalid topic").versions(4..=12).ask(|m| {
            let topic = topic(m, "x", vec![partition(0, 0)]).with_topic(topic_name("bad name"));
            request(vec![topic])
        }),
        Case::new(Api, "no topics").ask(|_| request(vec![])),
        Case::new(Api, "a topic twice").ask(|m| {
            let one = topic(m, NUMBERS, vec![partition(0, 8)]);
            request(vec![one, topic(m, NUMBERS, vec![partition(1, 0)])])
        }),
        Case::new(Api, "two topics").ask(|m| {
            let one = topic(m, NUMBERS, vec![partition(0, 8)]);
            request(vec![one, topic(m, EMPTY, vec![partition(0, 0)])])
        }),
    ]
}

/// A whole log of NUMBERS with limits: partition's, request's.
fn limited(name: &str, partition_max: i32, max: i32) -> Case {
    Case::new(ApiKey::Fetch, name).ask(move |m| {
        let rows = [0, 1]
            .map(|index| partition(index, 0).with_partition_max_bytes(partition_max))
            .to_vec();
        request(vec![topic(m, NUMBERS, rows)]).with_max_bytes(max)
    })
}

fn limits() -> Vec<Case> {
    use ApiKey::Fetch as Api;
    vec![
        limited("one byte of a partition", 1, 1 << 20),
        limited("no byte of a partition", 0, 1 << 20),
        limited("minus one byte of a partition", -1, 1 << 20),
        limited("a batch and a half of a partition", 110, 1 << 20),
        limited("two batches of a partition", 160, 1 << 20),
        limited("one byte in all", 1 << 20, 1),
        limited("no byte in all", 1 << 20, 0),
        limited("minus one byte in all", 1 << 20, -1),
        limited("the most bytes there are", i32::MAX, i32::MAX),
        limited("more in all than fits", 1 << 20, 200),
        Case::new(Api, "waits for more than there is").ask(|m| {
            let rows = vec![partition(0, 0)];
            request(vec![topic(m, NUMBERS, rows)]).with_min_bytes(1 << 20).with_max_wait_ms(50)
        }),
        Case::new(Api, "waits for what does not come")
            .ask(|m| request(vec![topic(m, EMPTY, vec![partition(0, 0)])]).with_max_wait_ms(50)),
        Case::new(Api, "an unknown partition beside one without records").ask(|m| {
            let rows = vec![partition(0, 0), partition(9, 0)];
            request(vec![topic(m, EMPTY, rows)]).with_max_wait_ms(50)
        }),
        Case::new(Api, "does not wait when an offset is out of range").ask(|m| {
            let empty = topic(m, EMPTY, vec![partition(0, 0)]);
            let beyond = topic(m, NUMBERS, vec![partition(0, 99)]);
            request(vec![empty, beyond]).with_max_wait_ms(20_000)
        }),
        Case::new(Api, "a negative wait")
            .ask(|m| request(vec![topic(m, EMPTY, vec![partition(0, 0)])]).with_max_wait_ms(-1)),
        Case::new(Api, "a negative minimum").ask(|m| {
            request(vec![topic(m, EMPTY, vec![partition(0, 0)])])
                .with_min_bytes(-1)
                .with_max_wait_ms(2_000)
        }),
        Case::new(Api, "read committed").ask(|m| {
            request(vec![topic(m, NUMBERS, vec![partition(0, 8)])]).with_isolation_level(1)
        }),
        Case::new(Api, "an unknown isolation level").ask(|m| {
            request(vec![topic(m, NUMBERS, vec![partition(0, 8)])]).with_isolation_level(9)
        }),
        Case::new(Api, "a rack that there is not").versions(11..=18).ask(|m| {
            let rack = compat_tests::requests::text("elsewhere");
            request(vec![topic(m, NUMBERS, vec![partition(0, 8)])]).with_rack_id(rack)
        }),
    ]
}

/// Epochs by their distance from the first one: current, last fetched.
fn epochs(name: &str, current: Option<i32>, last_fetched: Option<i32>) -> Case {
    Case::new(ApiKey::Fetch, name).versions(9..=18).ask(move |m| {
        let from = |distance: Option<i32>| distance.map_or(-1, |d| m.leader_epoch + d);
        let row = partition(0, 8)
            .with_current_leader_epoch(from(current))
            .with_last_fetched_epoch(if m.version < 12 { -1 } else { from(last_fetched) });
        request(vec![topic(m, NUMBERS, vec![row])])
    })
}

fn leadership() -> Vec<Case> {
    use ApiKey::Fetch as Api;
    vec![
        epochs("the current epoch", Some(0), None),
        epochs("a newer epoch", Some(1), None),
        epochs("last fetched in the current epoch", Some(0), Some(0)),
        epochs("last fetched in a newer epoch", Some(0), Some(1)),
        epochs("last fetched in a much newer epoch", None, Some(100)),
        Case::new(Api, "of a follower").versions(4..=14).ask(|m| {
            request(vec![topic(m, NUMBERS, vec![partition(0, 8)])]).with_replica_id(BrokerId(1))
        }),
        Case::new(Api, "of a follower that is not one").versions(4..=14).ask(|m| {
            request(vec![topic(m, NUMBERS, vec![partition(0, 8)])]).with_replica_id(BrokerId(77))
        }),
        Case::new(Api, "of a follower that is not one, with its state").versions(15..=18).ask(
            |m| {
                let state =
                    ReplicaState::default().with_replica_id(BrokerId(77)).with_replica_epoch(-1);
                request(vec![topic(m, NUMBERS, vec![partition(0, 8)])]).with_replica_state(state)
            },
        ),
        Case::new(Api, "of the debugging replica").versions(4..=14).ask(|m| {
            request(vec![topic(m, NUMBERS, vec![partition(0, 8)])]).with_replica_id(BrokerId(-2))
        }),
    ]
}

fn in_session(memory: &Memory, epoch: i32, topics: Vec<FetchTopic>) -> FetchRequest {
    let id = i32::try_from(memory.number("session")).unwrap_or(-1);
    request(topics).with_session_id(id).with_session_epoch(epoch)
}

/// A session over an own topic of two partitions.
fn session(name: &str) -> Case {
    Case::new(ApiKey::Fetch, name)
        .versions(7..=18)
        .topic("own", 2)
        .step("open", |m| {
            let rows = vec![partition(0, 0), partition(1, 0)];
            request(vec![topic(m, "own", rows)]).with_session_epoch(0)
        })
        .learn::<FetchRequest>(|answer, memory| memory.keep("session", answer.session_id))
}

fn forget(memory: &Memory, alias: &str, partitions: Vec<i32>) -> ForgottenTopic {
    ForgottenTopic::default()
        .with_topic(memory.topic(alias))
        .with_topic_id(memory.id(alias))
        .with_partitions(partitions)
}

fn write(case: Case, name: &str, index: i32) -> Case {
    case.step(name, move |m| produce(&m.own("own"), index, batch(&["a"]), -1)).in_version(9)
}

fn sessions() -> Vec<Case> {
    let next = |case: Case, epoch: i32| {
        case.step(&format!("epoch {epoch}"), move |m| in_session(m, epoch, vec![]))
    };
    vec![
        next(next(session("nothing new"), 1), 2),
        next(next(write(next(session("news of one partition"), 1), "write", 1), 2), 3),
        next(session("an epoch too far"), 2),
        next(next(session("an epoch again"), 1), 1),
        next(session("a negative epoch"), -5),
        session("closed")
            .step("close", |m| in_session(m, -1, vec![]))
            .step("after", |m| in_session(m, 1, vec![])),
        session("opened anew")
            .step("open again", |m| in_session(m, 0, vec![topic(m, "own", vec![partition(0, 0)])]))
            .learn::<FetchRequest>(|answer, memory| memory.keep("second", answer.session_id))
            .step("the first one", |m| in_session(m, 1, vec![])),
        write(session("a partition is forgotten"), "write", 1)
            .step("forget", |m| {
                let forgotten = vec![forget(m, "own", vec![1])];
                in_session(m, 1, vec![]).with_forgotten_topics_data(forgotten)
            })
            .step("next", |m| in_session(m, 2, vec![])),
        session("an unknown partition is forgotten").step("forget", |m| {
            let forgotten = vec![forget(m, "own", vec![77]), forget(m, NUMBERS, vec![0])];
            in_session(m, 1, vec![]).with_forgotten_topics_data(forgotten)
        }),
        session("everything is forgotten").step("forget", |m| {
            let forgotten = vec![forget(m, "own", vec![0, 1])];
            in_session(m, 1, vec![]).with_forgotten_topics_data(forgotten)
        }),
        session("a partition is added")
            .step("add", |m| in_session(m, 1, vec![topic(m, NUMBERS, vec![partition(0, 8)])]))
            .step("next", |m| in_session(m, 2, vec![])),
        session("a bad partition is added")
            .step("add", |m| in_session(m, 1, vec![topic(m, NUMBERS, vec![partition(9, 0)])]))
            .step("next", |m| in_session(m, 2, vec![])),
        session("an offset moves on")
            .step("write", |m| produce(&m.own("own"), 0, batch(&["a"]), -1))
            .in_version(9)
            .step("fetch", |m| in_session(m, 1, vec![]))
            .step("move", |m| in_session(m, 2, vec![topic(m, "own", vec![partition(0, 1)])]))
            .step("next", |m| in_session(m, 3, vec![]))
            .step("end", |m| list_offsets(&m.own("own"), 0, -1))
            .in_version(7),
        session("an offset out of range")
            .step("move", |m| in_session(m, 1, vec![topic(m, "own", vec![partition(0, 50)])]))
            .step("next", |m| in_session(m, 2, vec![])),
        session("another topic's id")
            .versions(13..=18)
            .step("add", |m| {
                let unknown = topic(m, "x", vec![partition(0, 0)]);
                in_session(m, 1, vec![unknown.with_topic_id(Uuid::from_u128(12))])
            })
            .step("next", |m| in_session(m, 2, vec![])),
    ]
}

/// Sessions that there are not, or that are over nothing.
fn odd_sessions() -> Vec<Case> {
    use ApiKey::Fetch as Api;
    let unknown = |name: &str, id: i32, epoch: i32| {
        Case::new(Api, name).versions(7..=18).ask(move |m| {
            request(vec![topic(m, NUMBERS, vec![partition(0, 8)])])
                .with_session_id(id)
                .with_session_epoch(epoch)
        })
    };
    vec![
        Case::new(Api, "a session over nothing")
            .versions(7..=18)
            .ask(|_| request(vec![]).with_session_epoch(0)),
        Case::new(Api, "a session over a bad partition")
            .versions(7..=18)
            .ask(|m| request(vec![topic(m, NUMBERS, vec![partition(9, 0)])]).with_session_epoch(0)),
        unknown("an unknown session", 12_345, 1),
        unknown("an unknown session, opened", 12_345, 0),
        unknown("an unknown session, closed", 12_345, -1),
        unknown("no session with an epoch", 0, 5),
        unknown("a negative session", -5, 1),
    ]
}

pub fn cases() -> Vec<Case> {
    let mut cases = offsets();
    cases.extend(limits());
    cases.extend(leadership());
    cases.extend(sessions());
    cases.extend(odd_sessions());
    cases
}
