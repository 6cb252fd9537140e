//! Groups that are rewound, by HTTP and by the command, while they are at work and while they are
//! not.

use std::collections::BTreeMap;
use std::process::Command;

use compat_tests::batches::{batch, start_ms};
use compat_tests::broker::is_kafka;
use compat_tests::requests::{CREATE_TOPICS_VERSION, create_topics, text, topic_name};
use compat_tests::{Broker, Connection};
use kafka_protocol::messages::delete_records_request::{
    DeleteRecordsPartition, DeleteRecordsTopic,
};
use kafka_protocol::messages::{DeleteRecordsRequest, FindCoordinatorRequest};
use protocol::ErrorCode;
use serde_json::{Value, json};

use crate::cluster::{Trio, eventually};
use crate::consumer_client::{self, settle};
use crate::group_client::{Member, commit, committed, delete, ensure_coordinator};
use crate::harness::{Scene, command, connect, shared};

/// Partition, before and after.
type Move = (i64, Option<i64>, Option<i64>);

fn post(broker: &Broker, group: &str, verb: &str, body: &Value) -> (String, Value) {
    let path = format!("/v1/groups/{group}/{verb}");
    let (status, body) = broker.http_post(&path, &body.to_string()).expect("an answer");
    let json = serde_json::from_str(&body).unwrap_or_else(|_| panic!("{status}: {body}"));
    (status, json)
}

fn rows(broker: &Broker, group: &str, verb: &str, body: &Value) -> Vec<Value> {
    let (status, json) = post(broker, group, verb, body);
    assert!(status.contains("200"), "{status}: {json}");
    let rows = json.as_array().expect("a list").clone();
    assert!(rows.iter().all(|row| row["group"] == group), "{rows:?}");
    rows
}

fn moves(rows: &[Value]) -> Vec<Move> {
    let one = |row: &Value| {
        let partition = row["partition"].as_i64().expect("a number");
        (partition, row["before"].as_i64(), row["after"].as_i64())
    };
    rows.iter().map(one).collect()
}

fn rewind(broker: &Broker, group: &str, body: &Value) -> Vec<Move> {
    moves(&rows(broker, group, "rewind", body))
}

fn undo(broker: &Broker, group: &str) -> Vec<Move> {
    moves(&rows(broker, group, "rewind/undo", &json!({})))
}

/// A topic of two partitions with ten records each, a millisecond apart, and a group that has read
/// eight of each.
fn read_topic(connection: &mut Connection, group: &str, topic: &str) {
    connection.create_topic(topic, 2);
    ensure_coordinator(connection, group);
    for partition in 0..2 {
        connection.append(topic, partition, batch(&["x"; 10]));
        assert_eq!(commit(connection, group, topic, partition, 8), ErrorCode::None);
    }
}

/// As kafka-consumer-groups takes it.
fn datetime(ms: i64) -> String {
    let format = ["-u", "-d", &format!("@{}", ms / 1_000), "+%Y-%m-%dT%H:%M:%S"];
    let output = Command::new("date").args(format).output().expect("date can be run");
    let seconds = String::from_utf8(output.stdout).expect("it is text");
    format!("{}.{:03}", seconds.trim(), ms % 1_000)
}

#[test]
fn every_form_finds_its_offset_and_commits_it() {
    if is_kafka() {
        return;
    }
    let mut connection = connect();
    let (group, topic) = ("rewound", "rewound-in-all-forms");
    read_topic(&mut connection, group, topic);
    let hour_ago = "PT1H5M";
    for (asked, after) in [
        (json!({"to_earliest": true}), 0),
        (json!({"to_latest": true}), 10),
        (json!({"to_offset": 5}), 5),
        (json!({"shift_by": -2}), 3),
        (json!({"shift_by": 4}), 7),
        (json!({"to_datetime": datetime(start_ms() + 6)}), 6),
        (json!({"by_duration": hour_ago}), 0),
        (json!({"by_duration": "PT1S"}), 10),
    ] {
        let before = committed(&mut connection, group, topic, 0);
        let expected = [(0, Some(before), Some(after)), (1, Some(before), Some(after))];
        assert_eq!(rewind(shared(), group, &asked), expected, "{asked}");
        for partition in 0..2 {
            assert_eq!(committed(&mut connection, group, topic, partition), after, "{asked}");
        }
        let (_, lag) = shared().http_get("/v1/groups/rewound/lag").expect("an answer");
        let lag: Value = serde_json::from_str(&lag).expect("it is JSON");
        assert_eq!(lag[1]["committed_offset"], after, "lag follows: {asked}");
    }
}

#[test]
fn what_is_not_in_the_log_becomes_the_nearest_offset_with_a_warning() {
    if is_kafka() {
        return;
    }
    let mut connection = connect();
    let (group, topic) = ("clamped", "rewound-out-of-range");
    read_topic(&mut connection, group, topic);
    let partition = DeleteRecordsPartition::default().with_partition_index(0).with_offset(3);
    let deleted =
        DeleteRecordsTopic::default().with_name(topic_name(topic)).with_partitions(vec![partition]);
    let request = DeleteRecordsRequest::default().with_topics(vec![deleted]);
    let answer = connection.call(2, &request.with_timeout_ms(20_000));
    assert_eq!(answer.topics[0].partitions[0].error_code, 0);
    for (asked, after, warning) in [
        (json!({"to_offset": 2}), [3, 2], "2 is before the log start offset 3, which is taken"),
        (json!({"shift_by": -100}), [3, 0], "-97 is before the log start offset 3, which is taken"),
        (json!({"shift_by": 100}), [10, 10], "103 is behind the end offset 10, which is taken"),
        (
            json!({"to_datetime": datetime(start_ms() + 50)}),
            [10, 10],
            "no record is of that time or later: the end 10 is taken",
        ),
    ] {
        let rows = rows(shared(), group, "rewind", &asked);
        assert_eq!((&rows[0]["after"], &rows[1]["after"]), (&after[0].into(), &after[1].into()));
        assert_eq!(rows[0]["warning"], warning, "{asked}");
        assert_eq!(committed(&mut connection, group, topic, 0), after[0], "{asked}");
    }
}

#[test]
fn only_the_partitions_that_are_named_are_rewound_and_a_dry_run_changes_nothing() {
    if is_kafka() {
        return;
    }
    let mut connection = connect();
    let (group, topic) = ("selective", "rewound-in-part");
    read_topic(&mut connection, group, topic);
    connection.create_topic("never-read", 1);
    let dry = json!({"to_earliest": true, "dry_run": true});
    let expected = [(0, Some(8), Some(0)), (1, Some(8), Some(0))];
    assert_eq!(rewind(shared(), group, &dry), expected);
    assert_eq!(committed(&mut connection, group, topic, 0), 8);
    let (status, _) = post(shared(), group, "rewind/undo", &json!({}));
    assert!(status.contains("409"), "nothing is to be undone: {status}");

    let part = json!({"to_earliest": true, "topics": ["rewound-in-part:1", "never-read"]});
    let rows = rows(shared(), group, "rewind", &part);
    assert_eq!(moves(&rows), [(0, None, Some(0)), (1, Some(8), Some(0))]);
    assert_eq!(rows[0]["why"]["before"], "the group had committed no offset here");
    assert_eq!(committed(&mut connection, group, topic, 0), 8);
    assert_eq!(committed(&mut connection, group, topic, 1), 0);
    assert_eq!(committed(&mut connection, group, "never-read", 0), 0);

    assert_eq!(undo(shared(), group), [(0, Some(0), None), (1, Some(0), Some(8))]);
    assert_eq!(committed(&mut connection, group, "never-read", 0), -1);
    assert_eq!(committed(&mut connection, group, topic, 1), 8);

    let shifted = json!({"shift_by": 1, "topics": ["never-read"]});
    let rows = self::rows(shared(), group, "rewind", &shifted);
    assert_eq!(moves(&rows), [(0, None, None)]);
    assert!(rows[0]["why"]["after"].as_str().is_some_and(|why| why.contains("nothing")));
}

#[test]
fn a_live_classic_group_resumes_there_and_no_commit_of_before_is_taken() {
    if is_kafka() {
        return;
    }
    let mut connection = connect();
    let (group, topic) = ("live-classic", "rewound-live");
    read_topic(&mut connection, group, topic);
    let mut member = Member::new(shared(), group);
    member.join_alone();
    assert_eq!(member.commit(topic, 0, 9), ErrorCode::None);
    let rows = rows(shared(), group, "rewind", &json!({"to_offset": 2}));
    assert_eq!(moves(&rows), [(0, Some(9), Some(2)), (1, Some(8), Some(2))]);
    let epoch = i64::from(member.generation) + 1;
    assert_eq!((&rows[0]["type"], &rows[0]["epoch"]), (&"classic".into(), &epoch.into()));

    assert_eq!(member.commit(topic, 0, 10), ErrorCode::IllegalGeneration);
    assert_eq!(member.heartbeat(), ErrorCode::IllegalGeneration);
    member.join_alone();
    assert_eq!(committed(&mut connection, group, topic, 0), 2);
    assert_eq!(member.commit(topic, 0, 3), ErrorCode::None);

    assert_eq!(undo(shared(), group), [(0, Some(3), Some(9)), (1, Some(2), Some(8))]);
    assert_eq!(member.commit(topic, 0, 4), ErrorCode::IllegalGeneration);
    member.join_alone();
    assert_eq!(committed(&mut connection, group, topic, 0), 9);
    assert_eq!(member.leave(), ErrorCode::None);
}

#[test]
fn a_live_kip_848_group_resumes_there_and_no_commit_of_before_is_taken() {
    if is_kafka() {
        return;
    }
    let mut connection = connect();
    let (group, topic) = ("live-modern", "rewound-live-modernly");
    read_topic(&mut connection, group, topic);
    let mut member = consumer_client::Member::new(shared(), group, "only", topic);
    settle(&mut [&mut member], 2);
    let before = member.epoch;
    assert_eq!(member.commit(before, 0, 9), ErrorCode::None);
    let rows = rows(shared(), group, "rewind", &json!({"to_earliest": true}));
    assert_eq!(moves(&rows), [(0, Some(9), Some(0)), (1, Some(8), Some(0))]);
    assert_eq!((&rows[0]["type"], &rows[0]["epoch"]), (&"consumer".into(), &(before + 1).into()));

    assert_eq!(member.commit(before, 0, 10), ErrorCode::StaleMemberEpoch);
    assert_eq!(member.heartbeat(), ErrorCode::FencedMemberEpoch);
    (member.epoch, member.owned) = (0, Vec::new());
    settle(&mut [&mut member], 2);
    assert_eq!(committed(&mut connection, group, topic, 0), 0);
    assert_eq!(member.commit(member.epoch, 0, 1), ErrorCode::None);

    assert_eq!(undo(shared(), group), [(0, Some(1), Some(9)), (1, Some(0), Some(8))]);
    assert_eq!(member.commit(member.epoch, 0, 2), ErrorCode::StaleMemberEpoch);
    member.send(consumer_client::LEAVES);
}

#[test]
fn partitions_that_members_read_are_rewound_also_without_an_offset() {
    if is_kafka() {
        return;
    }
    let mut connection = connect();
    connection.create_topic("rewound-before-a-commit", 2);
    connection.append("rewound-before-a-commit", 0, batch(&["x"; 10]));
    let topic = "rewound-before-a-commit";
    let mut member = consumer_client::Member::new(shared(), "uncommitted", "only", topic);
    settle(&mut [&mut member], 2);
    let moves = rewind(shared(), "uncommitted", &json!({"to_latest": true}));
    assert_eq!(moves, [(0, None, Some(10)), (1, None, Some(0))]);
    assert_eq!(committed(&mut connection, "uncommitted", topic, 0), 10);
}

#[test]
fn an_undo_outlives_a_kill_and_goes_with_the_group() {
    if is_kafka() {
        return;
    }
    let scene = Scene::start();
    let mut connection = scene.broker.connect();
    for group in ["survivor", "deleted"] {
        read_topic(&mut connection, group, &format!("read-by-{group}"));
        rewind(&scene.broker, group, &json!({"to_earliest": true}));
    }
    let scene = scene.restart_after_kill();
    let mut connection = scene.broker.connect();
    for group in ["survivor", "deleted"] {
        ensure_coordinator(&mut connection, group);
    }
    assert_eq!(undo(&scene.broker, "survivor"), [(0, Some(0), Some(8)), (1, Some(0), Some(8))]);
    assert_eq!(committed(&mut connection, "survivor", "read-by-survivor", 1), 8);

    assert_eq!(delete(&mut connection, "deleted"), ErrorCode::None);
    let (status, json) = post(&scene.broker, "deleted", "rewind/undo", &json!({}));
    assert!(status.contains("404"), "{status} {json}");
    assert_eq!(commit(&mut connection, "deleted", "read-by-deleted", 0, 1), ErrorCode::None);
    let scene = scene.restart_after_kill();
    let mut connection = scene.broker.connect();
    for (group, sentence) in [("survivor", "survivor"), ("deleted", "deleted")] {
        ensure_coordinator(&mut connection, group);
        let (status, json) = post(&scene.broker, group, "rewind/undo", &json!({}));
        assert!(status.contains("409"), "{status} {json}");
        let expected = format!("group {sentence}: there is no rewind to be undone");
        assert_eq!(json["error"], expected);
    }
}

#[test]
fn what_makes_no_sense_is_refused_with_a_sentence() {
    if is_kafka() {
        return;
    }
    let mut connection = connect();
    let (group, topic) = ("unmoved", "rewound-wrongly");
    read_topic(&mut connection, group, topic);
    let long = "x".repeat(40_000);
    for (group, body, code, sentence) in [
        (group, json!({}), 400, "none is given: exactly one of to_datetime"),
        (group, json!({"to_offset": "two"}), 400, "to_offset=\"two\": allowed is"),
        (group, json!({"to_datetime": "noon"}), 400, "to_datetime=\"noon\": allowed is YYYY"),
        (group, json!({"to_latest": true, "shift_by": 1}), 400, "to_latest and shift_by is given"),
        (
            group,
            json!({"to_latest": true, "topics": ["nowhere"]}),
            400,
            "topics=nowhere: there is no such topic",
        ),
        (
            group,
            json!({"to_latest": true, "topics": ["rewound-wrongly:0,2"]}),
            400,
            "topics=rewound-wrongly:2: the partitions of rewound-wrongly are 0 to 1",
        ),
        ("nobody", json!({"to_latest": true}), 404, "group nobody: the group does not exist"),
        (&long, json!({"to_latest": true}), 404, "group xxx"),
    ] {
        let (status, json) = post(shared(), group, "rewind", &body);
        assert!(status.contains(&code.to_string()), "{body}: {status} {json}");
        let said = json["error"].as_str().unwrap_or_default();
        assert!(said.starts_with(sentence), "{body}: {said}");
    }
    assert_eq!(committed(&mut connection, "unmoved", topic, 0), 8);
    let (status, _) = post(shared(), "nobody", "rewind/undo", &json!({}));
    assert!(status.contains("404"), "{status}");
}

#[test]
fn the_command_shows_before_and_after_and_says_what_is_wrong() {
    if is_kafka() {
        return;
    }
    let mut connection = connect();
    let (group, topic) = ("a group/2", "rewound-by-command");
    read_topic(&mut connection, group, topic);
    let done = command(
        shared(),
        "rewind",
        &[group, "--shift-by", "-3", "--topic", "rewound-by-command:1"],
    );
    let expected = "\
a group/2 (generation 0): rewound
TOPIC               PARTITION  BEFORE  AFTER  NOTE
rewound-by-command          1       8      5
";
    assert_eq!(text_of(&done.stdout), expected, "{}", text_of(&done.stderr));
    assert!(done.status.success());
    let dry = command(shared(), "rewind", &[group, "--to-latest", "--dry-run"]);
    assert!(text_of(&dry.stdout).contains("dry run, nothing is changed"));
    assert_eq!(committed(&mut connection, group, topic, 1), 5);
    let undone = command(shared(), "rewind", &["--undo", group, "--json"]);
    let rows: Vec<Value> = serde_json::from_slice(&undone.stdout).expect("it is JSON");
    assert_eq!(moves(&rows), [(1, Some(5), Some(8))]);

    let again = command(shared(), "rewind", &["--undo", group]);
    assert_eq!(again.status.code(), Some(1));
    let sentence = "highwater: group a group/2: there is no rewind to be undone\n";
    assert_eq!(text_of(&again.stderr), sentence);
    let nobody = command(shared(), "rewind", &["nobody", "--to-earliest"]);
    assert_eq!(nobody.status.code(), Some(1));
    let sentence = "highwater: group nobody: the group does not exist\n";
    assert_eq!(text_of(&nobody.stderr), sentence);
    let usage = command(shared(), "rewind", &[group]);
    assert_eq!(usage.status.code(), Some(2), "as for every wrong command line");
}

fn text_of(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Leaders and copies of the partitions are all over the cluster, and only one broker coordinates
/// the group.
#[test]
fn in_a_cluster_the_coordinator_asks_the_leaders() {
    if is_kafka() {
        return;
    }
    let trio = Trio::start();
    let (group, topic) = ("far-flung", "rewound-all-over");
    let mut connection = trio.anyone();
    // One copy of each partition, so that no broker has all of them.
    let mut create = create_topics(topic, 6, &[]);
    create.topics[0].replication_factor = 1;
    assert_eq!(connection.call(CREATE_TOPICS_VERSION, &create).topics[0].error_code, 0);
    let leaders = eventually("leader of each partition", || {
        let rows = trio.anyone().describe_topic(topic).partitions;
        let leaders: BTreeMap<i32, i32> =
            rows.iter().map(|row| (row.partition_index, row.leader_id.0)).collect();
        (leaders.len() == 6 && leaders.values().all(|id| *id > 0)).then_some(leaders)
    });
    assert!(leaders.values().any(|id| *id != leaders[&0]), "they lead all over: {leaders:?}");
    for (partition, leader) in &leaders {
        eventually("leader that takes records", || {
            let mut connection = trio.brokers[leader].connect();
            let row = connection.produce(topic, *partition, batch(&["x"; 10]));
            (row.error_code == 0).then_some(())
        });
    }
    let find = FindCoordinatorRequest::default().with_coordinator_keys(vec![text(group)]);
    let coordinator = eventually("coordinator", || {
        let found = trio.anyone().call(4, &find).coordinators.remove(0);
        (found.error_code == 0).then_some(found.node_id.0)
    });
    let broker = &trio.brokers[&coordinator];
    let mut connection = broker.connect();
    ensure_coordinator(&mut connection, group);
    for partition in leaders.keys() {
        eventually("coordinator that knows the topic", || {
            let done = commit(&mut connection, group, topic, *partition, 1) == ErrorCode::None;
            done.then_some(())
        });
    }
    let datetime = json!({"to_datetime": datetime(start_ms() + 4)});
    for (asked, after) in [(json!({"to_latest": true}), 10), (datetime, 4)] {
        let moved = rewind(broker, group, &asked);
        assert!(moved.iter().all(|(_, _, to)| *to == Some(after)), "{asked}: {moved:?}");
        assert_eq!(moved.len(), 6);
    }
    let (_, elsewhere) = trio.brokers.iter().find(|(id, _)| **id != coordinator).expect("another");
    let (status, json) = post(elsewhere, group, "rewind", &json!({"to_latest": true}));
    assert!(status.contains("421"), "{status} {json}");
    let sentence = format!("group {group}: its coordinator is broker {coordinator}");
    assert!(json["error"].as_str().is_some_and(|said| said.starts_with(&sentence)), "{json}");
}
