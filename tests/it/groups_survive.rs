//! Groups outlive the broker: it is killed again and again while their members commit, and they go
//! on where they were, without one of them joining again.

use std::thread::{scope, sleep};
use std::time::Duration;

use compat_tests::broker::is_kafka;
use compat_tests::requests::text;
use compat_tests::{Broker, Connection};
use protocol::ErrorCode;

use crate::consumer_client::{Member as ConsumerMember, settle};
use crate::group_client::{Member, commit_request, committed, describe, once_ready};
use crate::harness::{Scene, error};

const CLASSIC: &str = "classic-survivors";
const MODERN: &str = "modern-survivors";
const TOPIC: &str = "outlived";
const MEMBERS: usize = 3;
const KILLS: u64 = 6;

/// A member's commits of one partition.
struct Commits {
    group: &'static str,
    member_id: String,
    epoch: i32,
    partition: i32,
    acknowledged: i64,
    sent: i64,
}

impl Commits {
    /// Commits one offset after the other until the broker is gone.
    fn run(&mut self, connection: &mut Connection) {
        loop {
            self.sent += 1;
            let request = commit_request(self.group, TOPIC, self.partition, self.sent, "")
                .with_generation_id_or_member_epoch(self.epoch)
                .with_member_id(text(&self.member_id));
            let Ok(response) = connection.try_call(9, &request) else { return };
            let code = error(response.topics[0].partitions[0].error_code);
            assert_eq!(code, ErrorCode::None, "{} commits", self.member_id);
            self.acknowledged = self.sent;
        }
    }

    /// What was acknowledged is there, and nothing that was never sent.
    fn verify(&mut self, connection: &mut Connection) {
        let there = committed(connection, self.group, TOPIC, self.partition);
        let possible = self.acknowledged..=self.sent;
        assert!(possible.contains(&there), "{possible:?} of {}: {there}", self.member_id);
        (self.acknowledged, self.sent) = (there, there);
    }
}

/// Members of a classic group, all in one generation.
fn classic_members(broker: &Broker) -> Vec<Member> {
    let mut members: Vec<Member> = (0..MEMBERS).map(|_| Member::new(broker, CLASSIC)).collect();
    members[0].join_alone();
    members[1..].iter_mut().for_each(Member::send_join);
    let mut admin = broker.connect();
    while describe(&mut admin, CLASSIC).members.len() < MEMBERS {
        assert_ne!(members[0].heartbeat(), ErrorCode::UnknownMemberId);
    }
    members[0].join();
    members[1..].iter_mut().for_each(|member| {
        assert_eq!(error(member.receive_join().error_code), ErrorCode::None);
    });
    let ids: Vec<String> = members.iter().map(|member| member.id.clone()).collect();
    let plan: Vec<(&str, &'static [u8])> = ids.iter().map(|id| (&**id, &b"some"[..])).collect();
    assert_eq!(error(members[0].sync(&plan).error_code), ErrorCode::None);
    for member in &mut members[1..] {
        assert_eq!(error(member.sync(&[]).error_code), ErrorCode::None);
    }
    members
}

fn modern_members(broker: &Broker) -> Vec<ConsumerMember> {
    let member = |n: usize| ConsumerMember::new(broker, MODERN, &format!("member-{n}"), TOPIC);
    let mut members: Vec<ConsumerMember> = (0..MEMBERS).map(member).collect();
    for member in &mut members {
        assert_eq!(member.heartbeat(), ErrorCode::None);
    }
    settle(&mut members.iter_mut().collect::<Vec<_>>(), 1);
    // A last round: all are at the same epoch.
    for member in &mut members {
        assert_eq!(member.heartbeat(), ErrorCode::None);
    }
    members
}

/// How many requests of an API the broker has handled since it started.
fn handled(broker: &Broker, api: &str) -> f64 {
    let (_, metrics) = broker.http_get("/metrics").expect("metrics");
    let series = format!("highwater_requests_total{{api=\"{api}\"}} ");
    let values = metrics.lines().filter_map(|line| line.strip_prefix(&series)?.parse::<f64>().ok());
    values.sum()
}

fn commits(classic: &[Member], modern: &[ConsumerMember]) -> Vec<Commits> {
    let of = |group, member_id: &str, epoch, partition| Commits {
        group,
        member_id: member_id.to_owned(),
        epoch,
        partition,
        acknowledged: -1,
        sent: -1,
    };
    let classic = (0..).zip(classic).map(|(n, m)| of(CLASSIC, &m.id, m.generation, n));
    let modern = modern.iter().map(|m| of(MODERN, &m.id, m.epoch, m.owned[0]));
    classic.chain(modern).collect()
}

#[test]
fn no_member_joins_again_however_often_the_broker_is_killed() {
    if is_kafka() {
        return;
    }
    let mut scene = Scene::start();
    scene.broker.connect().create_topic(TOPIC, MEMBERS as i32);
    let mut classic = classic_members(&scene.broker);
    let mut modern = modern_members(&scene.broker);
    let before: Vec<(i32, Vec<i32>)> = modern.iter().map(|m| (m.epoch, m.owned.clone())).collect();
    let mut commits = commits(&classic, &modern);
    for kill in 0..KILLS {
        let mut connections: Vec<Connection> =
            commits.iter().map(|_| scene.broker.connect()).collect();
        scene = scope(|scope| {
            for (commits, connection) in commits.iter_mut().zip(&mut connections) {
                scope.spawn(move || commits.run(connection));
            }
            // A point in the midst of their work, and not a wait for something.
            sleep(Duration::from_millis(20 + 37 * kill % 110));
            scene.restart_after_kill()
        });
        for member in &mut classic {
            member.connection = scene.broker.connect();
            assert_eq!(once_ready(|| member.heartbeat()), ErrorCode::None, "{}", member.id);
        }
        for (member, (epoch, owned)) in modern.iter_mut().zip(&before) {
            member.connection = scene.broker.connect();
            assert_eq!(once_ready(|| member.heartbeat()), ErrorCode::None, "{}", member.id);
            assert_eq!((member.epoch, &member.owned), (*epoch, owned), "it is told nothing new");
        }
        let mut admin = scene.broker.connect();
        commits.iter_mut().for_each(|commits| commits.verify(&mut admin));
        let described = describe(&mut admin, CLASSIC);
        assert_eq!((&*described.group_state, described.members.len()), ("Stable", MEMBERS));
        assert_eq!(
            (handled(&scene.broker, "JoinGroup"), handled(&scene.broker, "SyncGroup")),
            (0.0, 0.0)
        );
    }
    assert!(commits.iter().all(|commits| commits.acknowledged > 0), "each of them committed");
}
