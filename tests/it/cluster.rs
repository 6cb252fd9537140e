//! Three processes form one cluster, lose one of them, and lose nothing of what they acknowledged.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use compat_tests::batches::batch;
use compat_tests::broker::{free_ports, is_kafka};
use compat_tests::requests::{CREATE_TOPICS_VERSION, create_topics};
use compat_tests::{Broker, BrokerOptions, Connection};
use protocol::ErrorCode;
use tempfile::TempDir;

use crate::harness::{BINARY, error, temp_dir};

const IDS: [i32; 3] = [1, 2, 3];
const TOPIC: &str = "replicated";
const PARTITIONS: i32 = 6;
const PATIENCE: Duration = Duration::from_secs(60);

/// Three brokers that are one cluster.
pub struct Trio {
    // By node id; dropped before the directory that they write to.
    pub brokers: BTreeMap<i32, Broker>,
    _dir: TempDir,
}

impl Trio {
    pub fn start() -> Trio {
        let dir = temp_dir();
        let ports: [u16; 3] = free_ports().expect("free ports");
        let voters = IDS.iter().zip(ports).map(|(id, port)| format!("{id}@127.0.0.1:{port}"));
        let voters = voters.collect::<Vec<_>>().join(",");
        let options = IDS.map(|id| {
            BrokerOptions::new(BINARY, dir.path().join(id.to_string()))
                .with("node.id", &id.to_string())
                .with("controller.quorum.voters", &voters)
                .with("default.replication.factor", "3")
        });
        // Each of them waits for another before it is ready.
        let brokers = thread::scope(|scope| {
            let starting = options.map(|options| scope.spawn(|| Broker::start(options)));
            starting.map(|broker| broker.join().expect("started"))
        });
        Trio { brokers: IDS.into_iter().zip(brokers).collect(), _dir: dir }
    }

    pub fn anyone(&self) -> Connection {
        self.brokers.values().next().expect("one is left").connect()
    }

    /// The broker that leads a partition, as the first of them says.
    fn leader_of(&self, partition: i32) -> Option<&Broker> {
        let described = self.anyone().describe_topic(TOPIC);
        let row = described.partitions.iter().find(|row| row.partition_index == partition)?;
        self.brokers.get(&row.leader_id.0)
    }

    /// Produces with acks=all, looking for the leader as long as there is none.
    fn append(&self, partition: i32, value: &str) -> i64 {
        eventually("leader that takes a record", || {
            let mut connection = self.leader_of(partition)?.connect();
            let row = connection.produce(TOPIC, partition, batch(&[value]));
            match error(row.error_code) {
                ErrorCode::None => Some(row.base_offset),
                ErrorCode::NotLeaderOrFollower => None,
                other => panic!("{other:?}"),
            }
        })
    }

    fn values_of(&self, partition: i32) -> Vec<String> {
        eventually("leader to read from", || {
            let mut connection = self.leader_of(partition)?.connect();
            let records = connection.read_all(TOPIC, partition, 0).ok()?;
            let texts = records.iter().map(|(_, value)| String::from_utf8_lossy(value).into());
            Some(texts.collect())
        })
    }
}

pub fn eventually<T>(what: &str, mut check: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = check() {
            return found;
        }
        assert!(Instant::now() < deadline, "no {what} in time");
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn what_was_acknowledged_outlives_a_killed_broker() {
    if is_kafka() {
        return;
    }
    let mut trio = Trio::start();
    let created = trio.anyone().call(CREATE_TOPICS_VERSION, &create_topics(TOPIC, PARTITIONS, &[]));
    assert_eq!(error(created.topics[0].error_code), ErrorCode::None);
    let replicas = trio.anyone().describe_topic(TOPIC).partitions;
    assert!(replicas.iter().all(|row| row.replica_nodes.len() == IDS.len()), "{replicas:?}");

    for partition in 0..PARTITIONS {
        for n in 0..5 {
            assert_eq!(trio.append(partition, &format!("before {n}")), n);
        }
    }
    let killed = trio.brokers.remove(&IDS[0]).expect("there").kill();
    for partition in 0..PARTITIONS {
        for n in 5..10 {
            assert_eq!(trio.append(partition, &format!("without {n}")), n);
        }
    }
    trio.brokers.insert(IDS[0], Broker::start(killed));
    eventually("replica that follows again", || {
        let rows = trio.anyone().describe_topic(TOPIC).partitions;
        rows.iter().all(|row| row.isr_nodes.len() == IDS.len()).then_some(())
    });
    for partition in 0..PARTITIONS {
        assert_eq!(trio.append(partition, "after 10"), 10);
        let expected = (0..11).map(|n| match n {
            0..5 => format!("before {n}"),
            5..10 => format!("without {n}"),
            _ => format!("after {n}"),
        });
        assert_eq!(trio.values_of(partition), expected.collect::<Vec<_>>());
    }
}
