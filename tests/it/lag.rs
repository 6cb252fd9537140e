//! Consumer lag against truth: what was produced and committed is known, and every figure that is
//! shown of it, as JSON, as metrics and as a table, is compared.

use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use compat_tests::batches::{batch, sealed, start_ms};
use compat_tests::broker::is_kafka;
use compat_tests::requests::{text, topic_name};
use compat_tests::{Broker, Connection};
use kafka_protocol::messages::delete_records_request::{
    DeleteRecordsPartition, DeleteRecordsTopic,
};
use kafka_protocol::messages::{ConsumerGroupHeartbeatRequest, DeleteRecordsRequest};
use protocol::ErrorCode;
use protocol::compression::Codec;
use protocol::consumer_protocol::{Assignment, TopicPartitions};
use protocol::record_batch::BatchBuilder;
use protocol::types::Timestamp;
use serde_json::Value;

use crate::group_client::{Member, commit, commit_request, delete, ensure_coordinator, group_id};
use crate::harness::{BINARY, Scene, command, connect, shared};

/// How long a figure may take to come true.
const WITHIN: Duration = Duration::from_secs(20);

pub fn now_ms() -> i64 {
    let since = std::time::UNIX_EPOCH.elapsed().expect("a clock past 1970");
    since.as_millis() as i64
}

/// The group's rows, by topic and partition; an empty list for a group that is not known.
pub fn lag(broker: &Broker, group: &str) -> Vec<Value> {
    let (status, body) = broker.http_get(&format!("/v1/groups/{group}/lag")).expect("an answer");
    if status.contains("404") {
        return Vec::new();
    }
    assert!(status.contains("200"), "{status}: {body}");
    serde_json::from_str(&body).expect("it is a list of objects")
}

pub fn lag_row(broker: &Broker, group: &str) -> Value {
    let rows = lag(broker, group);
    assert_eq!(rows.len(), 1, "{rows:?}");
    rows.into_iter().next().expect("there is one")
}

pub fn until(what: &str, mut reached: impl FnMut() -> bool) {
    let deadline = Instant::now() + WITHIN;
    while !reached() {
        assert!(Instant::now() < deadline, "{what}");
        sleep(Duration::from_millis(20));
    }
}

pub fn commits(connection: &mut Connection, group: &str, topic: &str, partition: i32, offset: i64) {
    ensure_coordinator(connection, group);
    assert_eq!(commit(connection, group, topic, partition, offset), ErrorCode::None);
}

pub fn delete_before(connection: &mut Connection, topic: &str, offset: i64) {
    let partition = DeleteRecordsPartition::default().with_partition_index(0).with_offset(offset);
    let topic =
        DeleteRecordsTopic::default().with_name(topic_name(topic)).with_partitions(vec![partition]);
    let request = DeleteRecordsRequest::default().with_topics(vec![topic]).with_timeout_ms(20_000);
    assert_eq!(connection.call(2, &request).topics[0].partitions[0].error_code, 0);
}

/// Ten records, ten seconds apart from `first_ms` on.
fn ten_records(codec: Codec, first_ms: i64) -> bytes::Bytes {
    let add = |records: BatchBuilder, at: i64| {
        records.record(Timestamp(first_ms + 10_000 * at), None, Some(b"some value"))
    };
    sealed((0..10).fold(BatchBuilder::new().codec(codec), add))
}

#[test]
fn lag_is_what_was_produced_and_not_committed_also_within_a_compressed_batch() {
    if is_kafka() {
        return;
    }
    let mut connection = connect();
    for (codec, topic) in [(Codec::None, "lag-plain"), (Codec::Zstd, "lag-zstd")] {
        let group = format!("group-of-{topic}");
        let retention = [("retention.ms", "7200000")];
        connection.create_topic_with(topic, 2, &retention);
        connection.append(topic, 0, ten_records(codec, start_ms()));
        connection.append(topic, 0, ten_records(codec, start_ms() + 100_000));
        commits(&mut connection, &group, topic, 0, 4);
        commits(&mut connection, &group, topic, 1, 0);
        let before = now_ms();
        let rows = lag(shared(), &group);
        let after = now_ms();
        assert_eq!(rows.len(), 2);
        let (row, empty) = (&rows[0], &rows[1]);
        assert_eq!((&row["group"], &row["topic"]), (&group.as_str().into(), &topic.into()));
        assert_eq!((&row["partition"], &row["committed_offset"]), (&0.into(), &4.into()));
        assert_eq!((&row["end_offset"], &row["lag_records"]), (&20.into(), &16.into()));
        let made = start_ms() + 40_000;
        let seconds = row["lag_seconds"].as_f64().expect("a number");
        let (least, most) = ((before - made) as f64 / 1e3, (after - made) as f64 / 1e3);
        assert!((least..=most).contains(&seconds), "{least} <= {seconds} <= {most}");
        // Its batch goes when its last record has been there for two hours.
        let goes = start_ms() + 90_000 + 7_200_000;
        let seconds = row["time_to_loss_seconds"].as_f64().expect("a number");
        let (least, most) = ((goes - after) as f64 / 1e3, (goes - before) as f64 / 1e3);
        assert!((least..=most).contains(&seconds), "{least} <= {seconds} <= {most}");
        assert_eq!((&row["status"], &row["lost_records"]), (&"OK".into(), &0.into()));
        assert_eq!(row["member"], Value::Null);
        assert_eq!(row["why"]["member"], "the group has no members");
        assert_eq!((&empty["lag_records"], &empty["lag_seconds"]), (&0.into(), &0.0.into()));
        assert_eq!(empty["why"]["time_to_loss_seconds"], "nothing is unread");
    }
}

#[test]
fn rates_and_the_time_to_drain_are_those_of_the_clients() {
    if is_kafka() {
        return;
    }
    let mut connection = connect();
    connection.create_topic("lag-rates", 1);
    connection.append("lag-rates", 0, batch(&["x"; 1_000]));
    ensure_coordinator(&mut connection, "rated");
    let mut times = Vec::new();
    for round in 0..4 {
        if round > 0 {
            sleep(Duration::from_millis(1_100));
            connection.append("lag-rates", 0, batch(&["x"; 20]));
        }
        times.push(Instant::now());
        commits(&mut connection, "rated", "lag-rates", 0, 100 * (round + 1));
    }
    let row = lag_row(shared(), "rated");
    let seconds = (times[3] - times[0]).as_secs_f64();
    let near = |name: &str, expected: f64| {
        let got = row[name].as_f64().unwrap_or_else(|| panic!("{name} in {row}"));
        assert!((got / expected - 1.0).abs() < 0.1, "{name} is {got} and not {expected}");
    };
    let lag = 1_060.0 - 400.0;
    assert_eq!(row["lag_records"], 660);
    near("commit_rate", 300.0 / seconds);
    near("produce_rate", 60.0 / seconds);
    near("drain_seconds", lag / (240.0 / seconds));
    assert_eq!(row["status"], "OK");
}

#[test]
fn what_is_deleted_unread_is_in_the_ledger_with_its_reason() {
    if is_kafka() {
        return;
    }
    let scene = Scene::start_with(|o| o.with("log.retention.check.interval.ms", "100"));
    let mut connection = scene.broker.connect();
    connection.create_topic("lost", 1);
    connection.append("lost", 0, batch(&["x"; 10]));
    connection.append("lost", 0, batch(&["x"; 10]));
    commits(&mut connection, "loser", "lost", 0, 3);
    commits(&mut connection, "reader", "lost", 0, 20);
    let asked = now_ms();
    delete_before(&mut connection, "lost", 7);
    let row = lag_row(&scene.broker, "loser");
    assert_eq!((&row["lost_records"], &row["lag_records"]), (&4.into(), &13.into()));
    let lost = &row["lost"][0];
    assert_eq!((&lost["from_offset"], &lost["to_offset"]), (&3.into(), &7.into()));
    assert_eq!(lost["cause"], "DeleteRecords");
    assert!((asked..=now_ms()).contains(&lost["at_ms"].as_i64().expect("a time")));

    connection.create_topic_with("expiring", 1, &[("retention.ms", "1000")]);
    // First of all, for what has expired may be gone as soon as it is there.
    commits(&mut connection, "late", "expiring", 0, 2);
    connection.append("expiring", 0, ten_records(Codec::None, now_ms() - 95_000));
    connection.append("expiring", 0, ten_records(Codec::None, now_ms()));
    until("retention takes the first batch", || {
        connection.offset_of("expiring", 0, -2).offset == 10
    });
    let row = lag_row(&scene.broker, "late");
    assert_eq!((&row["lost_records"], &row["lag_records"]), (&8.into(), &10.into()));
    assert_eq!(row["lost"][0]["cause"], "retention.ms");
    assert_eq!(lag_row(&scene.broker, "reader")["lost_records"], 0);
    let lost = scene.broker.metric("highwater_group_lag_lost_records_total");
    assert_eq!(lost, Some(12.0));
}

#[test]
fn time_to_loss_by_size_follows_the_growth_of_the_log() {
    if is_kafka() {
        return;
    }
    let scene = Scene::start_with(|o| o.with("log.retention.check.interval.ms", "100"));
    let mut connection = scene.broker.connect();
    let one = batch(&["x"; 10]);
    let keep = (40 * one.len()).to_string();
    connection.create_topic_with("sized", 1, &[("retention.bytes", &keep), ("retention.ms", "-1")]);
    connection.append("sized", 0, one.clone());
    commits(&mut connection, "sized-group", "sized", 0, 0);
    let started = Instant::now();
    let mut predicted = None;
    let gone = loop {
        sleep(Duration::from_millis(100));
        connection.append("sized", 0, one.clone());
        let row = lag_row(&scene.broker, "sized-group");
        if row["lost_records"] != 0 {
            break started.elapsed().as_secs_f64();
        }
        let seconds = row["time_to_loss_seconds"].as_f64();
        let halfway = row["end_offset"].as_i64() >= Some(200);
        if let (None, Some(seconds), true) = (predicted, seconds, halfway) {
            predicted = Some(started.elapsed().as_secs_f64() + seconds);
        }
        assert!(started.elapsed() < WITHIN, "nothing is deleted: {row}");
    };
    let predicted = predicted.expect("it was predicted halfway");
    // Retention is looked at once a second.
    assert!((gone - predicted).abs() < 1.5 + 0.1 * gone, "predicted {predicted}, gone {gone}");
}

#[test]
fn a_group_is_there_until_it_is_deleted_whatever_its_members_do() {
    if is_kafka() {
        return;
    }
    let scene = Scene::start();
    let mut connection = scene.broker.connect();
    connection.create_topic("owned", 2);
    connection.append("owned", 0, batch(&["a", "b", "c"]));
    let mut member = Member::new(&scene.broker, "kept");
    member.join();
    let assigned = TopicPartitions { topic: "owned".to_owned(), partitions: vec![0, 1] };
    let assignment =
        Assignment { version: 0, assigned_partitions: vec![assigned], user_data: None };
    let id = member.id.clone();
    member.sync(&[(&id, Vec::leak(assignment.encode().to_vec()))]);
    assert_eq!(member.commit("owned", 0, 1), ErrorCode::None);

    let rows = lag(&scene.broker, "kept");
    assert_eq!(rows.len(), 2, "{rows:?}");
    assert_eq!((&rows[0]["member"], &rows[0]["lag_records"]), (&id.as_str().into(), &2.into()));
    assert_eq!(rows[1]["member"], id);
    assert_eq!(rows[1]["why"]["lag_records"], "the group has committed no offset here");
    let series = "highwater_group_lag_records{group=\"kept\",topic=\"owned\",partition=\"0\"} 2";
    let metrics = || scene.broker.http_get("/metrics").expect("metrics").1;
    assert!(metrics().contains(series));

    let mut second = Member::new(&scene.broker, "kept");
    second.send_join();
    member.heartbeat_until(ErrorCode::RebalanceInProgress);
    let row = &lag(&scene.broker, "kept")[0];
    assert_eq!((&row["lag_records"], &row["member"]), (&2.into(), &Value::Null));
    assert_eq!(row["why"]["member"], "the group is rebalancing");
    drop(second);
    member.join();
    member.leave();
    until("all members are gone", || {
        lag(&scene.broker, "kept")[0]["why"]["member"] == "the group has no members"
            || lag(&scene.broker, "kept")[0]["why"]["member"] == "the group is rebalancing"
    });
    assert_eq!(lag(&scene.broker, "kept")[0]["lag_records"], 2);

    commits(&mut connection, "simple", "owned", 0, 3);
    let (_, body) = scene.broker.http_get("/v1/groups").expect("an answer");
    let groups: Vec<Value> = serde_json::from_str(&body).expect("a list");
    let names: Vec<_> = groups.iter().map(|group| &group["group"]).collect();
    assert_eq!(names, ["kept", "simple"]);
    assert_eq!((&groups[1]["lag_records"], &groups[1]["status"]), (&0.into(), &"OK".into()));
    assert_eq!(delete(&mut connection, "simple"), ErrorCode::None);
    assert_eq!(lag(&scene.broker, "simple"), Vec::<Value>::new());
    assert!(!metrics().contains("group=\"simple\""));

    assert_eq!(connection.delete_topic("owned"), 0);
    until("the offsets of a deleted topic are gone", || {
        lag(&scene.broker, "kept").iter().all(|row| row["committed_offset"].is_null())
    });
}

#[test]
fn owners_in_a_kip_848_group_are_those_that_the_broker_assigned() {
    if is_kafka() {
        return;
    }
    let mut connection = connect();
    connection.create_topic("lag-modern", 2);
    connection.append("lag-modern", 1, batch(&["a", "b", "c"]));
    ensure_coordinator(&mut connection, "modern-lag");
    let mut beats = ConsumerGroupHeartbeatRequest::default()
        .with_group_id(group_id("modern-lag"))
        .with_member_id(text("the-member"))
        .with_rebalance_timeout_ms(60_000)
        .with_subscribed_topic_names(Some(vec![topic_name("lag-modern")]))
        .with_topic_partitions(Some(Vec::new()));
    // The coordinator hears of a new topic a moment later.
    until("both partitions are assigned", || {
        let response = connection.call(1, &beats);
        assert_eq!((response.error_code, &response.error_message), (0, &None));
        beats.member_epoch = response.member_epoch;
        let assigned = response.assignment.map(|assignment| assignment.topic_partitions);
        assigned.is_some_and(|topics| topics.iter().any(|topic| topic.partitions.len() == 2))
    });
    let commits = commit_request("modern-lag", "lag-modern", 1, 2, "")
        .with_generation_id_or_member_epoch(beats.member_epoch)
        .with_member_id(text("the-member"));
    assert_eq!(connection.call(9, &commits).topics[0].partitions[0].error_code, 0);
    let rows = lag(shared(), "modern-lag");
    assert_eq!(rows.len(), 2, "{rows:?}");
    assert_eq!(
        (&rows[0]["member"], &rows[1]["member"]),
        (&rows[1]["member"], &"the-member".into())
    );
    assert_eq!((&rows[0]["lag_records"], &rows[1]["lag_records"]), (&Value::Null, &1.into()));
    let (_, body) = shared().http_get("/v1/groups").expect("an answer");
    let groups: Vec<Value> = serde_json::from_str(&body).expect("a list");
    let group = groups.iter().find(|group| group["group"] == "modern-lag").expect("it is there");
    assert_eq!((&group["type"], &group["lag_records"]), (&"consumer".into(), &1.into()));
}

#[test]
fn figures_are_there_at_once_after_a_kill() {
    if is_kafka() {
        return;
    }
    let scene = Scene::start();
    let mut connection = scene.broker.connect();
    connection.create_topic("survives", 1);
    connection.append("survives", 0, ten_records(Codec::Lz4, start_ms()));
    commits(&mut connection, "survivor", "survives", 0, 2);
    sleep(Duration::from_millis(1_200));
    commits(&mut connection, "survivor", "survives", 0, 6);
    commits(&mut connection, "behind", "survives", 0, 1);
    delete_before(&mut connection, "survives", 3);
    let rate = lag_row(&scene.broker, "survivor")["commit_rate"].as_f64().expect("a rate");
    let scene = scene.restart_after_kill();
    ensure_coordinator(&mut scene.broker.connect(), "survivor");
    until("the offsets are read back", || !lag(&scene.broker, "survivor").is_empty());
    let row = lag_row(&scene.broker, "survivor");
    assert_eq!((&row["committed_offset"], &row["lag_records"]), (&6.into(), &4.into()));
    let seconds = row["lag_seconds"].as_f64().expect("a number");
    assert!((seconds - (now_ms() - start_ms() - 60_000) as f64 / 1e3).abs() < 5.0);
    let again = row["commit_rate"].as_f64().expect("a rate");
    // It fades while no commit comes.
    assert!(again > 0.0 && again < rate * 1.1, "{again} after {rate}");
    ensure_coordinator(&mut scene.broker.connect(), "behind");
    until("the offsets are read back", || !lag(&scene.broker, "behind").is_empty());
    let row = lag_row(&scene.broker, "behind");
    assert_eq!((&row["lost_records"], &row["lost"][0]["cause"]), (&2.into(), &"unwatched".into()));
}

#[test]
fn the_command_prints_a_table_and_says_what_is_wrong() {
    if is_kafka() {
        return;
    }
    let scene = Scene::start();
    let empty = command(&scene.broker, "lag", &[]);
    assert_eq!(String::from_utf8_lossy(&empty.stdout), "there are no groups\n");
    let mut connection = scene.broker.connect();
    connection.create_topic("shown", 1);
    connection.append("shown", 0, batch(&["a", "b", "c"]));
    commits(&mut connection, "a group/1", "shown", 0, 1);
    let table = command(&scene.broker, "lag", &["a group/1"]);
    let text = String::from_utf8_lossy(&table.stdout).into_owned();
    let lines: Vec<Vec<&str>> =
        text.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0][..5], ["TOPIC", "PARTITION", "COMMITTED", "END", "LAG"], "{text}");
    assert_eq!(lines[1][..5], ["shown", "0", "1", "3", "2"], "{text}");
    let all = command(&scene.broker, "lag", &[]);
    assert!(String::from_utf8_lossy(&all.stdout).contains("a group/1"));
    let json = command(&scene.broker, "lag", &["a group/1", "--json"]);
    let rows: Vec<Value> = serde_json::from_slice(&json.stdout).expect("it is JSON");
    assert_eq!(rows[0]["lag_records"], 2);

    let unknown = command(&scene.broker, "lag", &["nobody"]);
    assert!(!unknown.status.success());
    let sentence = String::from_utf8_lossy(&unknown.stderr).into_owned();
    assert_eq!(sentence, "highwater: group nobody: the group does not exist\n");
    let admin = "http://127.0.0.1:1";
    let unreachable =
        Command::new(BINARY).args(["lag", "--admin", admin]).output().expect("it runs");
    assert!(!unreachable.status.success());
    let sentence = String::from_utf8_lossy(&unreachable.stderr).into_owned();
    assert!(sentence.starts_with("highwater: no broker answers at http://127.0.0.1:1: "));
}

#[test]
fn series_are_bounded_and_groups_beyond_the_bound_have_one_for_all() {
    if is_kafka() {
        return;
    }
    let scene = Scene::start_with(|options| options.with("highwater.lag.max.series", "2"));
    let mut connection = scene.broker.connect();
    connection.create_topic("many", 3);
    for partition in 0..3 {
        connection.append("many", partition, batch(&["a", "b"]));
        commits(&mut connection, "wide", "many", partition, 0);
    }
    commits(&mut connection, "narrow", "many", 0, 1);
    let (_, metrics) = scene.broker.http_get("/metrics").expect("metrics");
    let series = |line: &&str| line.starts_with("highwater_group_lag_records{");
    let mut series: Vec<&str> = metrics.lines().filter(series).collect();
    series.sort_unstable();
    let narrow = "highwater_group_lag_records{group=\"narrow\",topic=\"many\",partition=\"0\"} 1";
    assert_eq!(series, [narrow, "highwater_group_lag_records{group=\"wide\"} 6"]);
}
