//! Three processes form one cluster, lose one of them, and lose nothing of what they acknowledged.

use std::collections::BTreeMap;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use compat_tests::batches::batch;
use compat_tests::broker::{free_ports, is_kafka};
use compat_tests::requests::{CREATE_TOPICS_VERSION, METADATA_VERSION, create_topics, metadata};
use compat_tests::{Broker, BrokerOptions, Connection};
use kafka_protocol::messages::create_topics_request::CreatableReplicaAssignment;
use kafka_protocol::messages::metadata_response::MetadataResponsePartition;
use kafka_protocol::messages::{BrokerId, CreateTopicsRequest, ElectLeadersRequest};
use protocol::ErrorCode;
use tempfile::TempDir;

use crate::harness::{BINARY, error, temp_dir};

pub const IDS: [i32; 3] = [1, 2, 3];
pub const TOPIC: &str = "replicated";
pub const PARTITIONS: i32 = 6;
const PATIENCE: Duration = Duration::from_secs(60);
const LINES_TOLD: usize = 30;

/// Three brokers that are one cluster.
pub struct Trio {
    // By node id; dropped before the directory that they write to.
    pub brokers: BTreeMap<i32, Broker>,
    voters: String,
    dir: TempDir,
}

impl Trio {
    pub fn start() -> Trio {
        let (mut trio, options) = Trio::prepare();
        trio.start_again(options);
        trio
    }

    /// The same before its brokers are started.
    pub fn prepare() -> (Trio, Vec<BrokerOptions>) {
        let dir = temp_dir();
        let ports: [u16; 3] = free_ports().expect("free ports");
        let voters = IDS.iter().zip(ports).map(|(id, port)| format!("{id}@127.0.0.1:{port}"));
        let voters = voters.collect::<Vec<_>>().join(",");
        let options = IDS.map(|id| voter_options(BINARY, dir.path(), id, &voters));
        (Trio { brokers: BTreeMap::new(), voters, dir }, options.to_vec())
    }

    /// Starts brokers together: each of them waits for another before it is ready.
    pub fn start_again(&mut self, options: Vec<BrokerOptions>) {
        self.start_apart(options, Duration::ZERO);
    }

    /// Starts brokers in this order, with a gap between them.
    pub fn start_apart(&mut self, options: Vec<BrokerOptions>, gap: Duration) {
        let brokers: Vec<_> = thread::scope(|scope| {
            let start = |(number, options): (u32, BrokerOptions)| {
                scope.spawn(move || {
                    thread::sleep(gap * number);
                    Broker::start(options)
                })
            };
            let starting: Vec<_> = (0..).zip(options).map(start).collect();
            starting.into_iter().map(|broker| broker.join().expect("started")).collect()
        });
        for broker in brokers {
            let id = broker.connect().try_call(METADATA_VERSION, &metadata(&[], false));
            let id = id.unwrap_or_else(|error| panic!("{error}, and it logged {}", broker.log()));
            let port = i32::from(broker.options().port());
            let own = id.brokers.iter().find(|row| row.port == port).expect("it knows itself");
            self.brokers.insert(own.node_id.0, broker);
        }
    }

    /// Waits until a broker says of the topic's partitions what is expected.
    pub fn see(
        &self,
        what: &str,
        id: i32,
        check: impl Fn(&[MetadataResponsePartition]) -> bool,
    ) -> Vec<MetadataResponsePartition> {
        let mut connection = self.brokers[&id].connect();
        let mut last = Vec::new();
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            last = connection.describe_topic(TOPIC).partitions;
            last.sort_by_key(|row| row.partition_index);
            if !last.is_empty() && check(&last) {
                return last;
            }
            thread::sleep(Duration::from_millis(10));
        }
        panic!("no {what} at broker {id}: {last:?}");
    }

    /// Makes [`TOPIC`], with replicas everywhere.
    pub fn create_topic(&self) {
        let request = create_topics(TOPIC, PARTITIONS, &[]);
        let created = self.anyone().call(CREATE_TOPICS_VERSION, &request);
        assert_eq!(error(created.topics[0].error_code), ErrorCode::None);
    }

    /// Signals all of them, and does not wait.
    pub fn signal_all(&self, signal: i32) {
        self.brokers.values().for_each(|broker| broker.signal(signal));
    }

    /// A connection to a partition's leader.
    pub fn leader_connection(&self, partition: i32) -> Option<Connection> {
        self.leader_of(partition).map(Broker::connect)
    }

    /// kill -9 of all of them.
    pub fn kill_all(&mut self) -> Vec<BrokerOptions> {
        std::mem::take(&mut self.brokers).into_values().map(Broker::kill).collect()
    }

    /// Waits until every replica of the topic is in sync.
    pub fn see_all_in_sync(&self) {
        eventually("replica that follows again", || {
            let rows = self.anyone().describe_topic(TOPIC).partitions;
            rows.iter().all(|row| row.isr_nodes.len() == IDS.len()).then_some(())
        });
    }

    /// A broker that votes on nothing, and is told one of those that do.
    pub fn fourth(&self) -> BrokerOptions {
        let voter = self.voters.split(',').next().expect("three").split_once('@').expect("an id");
        BrokerOptions::new(BINARY, self.dir.path().join("4"))
            .with("node.id", "4")
            .with("process.roles", "broker")
            .with("controller.quorum.bootstrap.servers", voter.1)
            .with("highwater.peer.listener", "127.0.0.1:0")
    }

    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    pub fn anyone(&self) -> Connection {
        self.brokers.values().next().expect("one is left").connect()
    }

    /// The broker that says of itself that it leads a partition: in the latest epoch, should a
    /// former one not know yet.
    fn leader_of(&self, partition: i32) -> Option<&Broker> {
        let epoch = |(id, broker): &(&i32, &Broker)| {
            let rows = broker.connect().describe_topic(TOPIC).partitions;
            let row = rows.into_iter().find(|row| row.partition_index == partition)?;
            (row.leader_id.0 == **id).then_some(row.leader_epoch)
        };
        let leaders = self.brokers.iter().filter_map(|broker| Some((epoch(&broker)?, broker.1)));
        leaders.max_by_key(|(epoch, _)| *epoch).map(|(_, broker)| broker)
    }

    /// Produces with acks=all, looking for the leader as long as there is none.
    pub fn append(&self, partition: i32, value: &str) -> i64 {
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

    pub fn values_of(&self, partition: i32) -> Vec<String> {
        eventually("leader to read from", || {
            let mut connection = self.leader_of(partition)?.connect();
            let records = connection.read_all(TOPIC, partition, 0).ok()?;
            let texts = records.iter().map(|(_, value)| String::from_utf8_lossy(value).into());
            Some(texts.collect())
        })
    }
}

/// One of the voters, in a directory of its own.
pub fn voter_options(binary: impl AsRef<Path>, dir: &Path, id: i32, voters: &str) -> BrokerOptions {
    BrokerOptions::new(binary.as_ref(), dir.join(id.to_string()))
        .with("node.id", &id.to_string())
        .with("controller.quorum.voters", voters)
        .with("default.replication.factor", "3")
}

/// What failed is told by the brokers' logs.
impl Drop for Trio {
    fn drop(&mut self) {
        if thread::panicking() {
            for (id, broker) in &self.brokers {
                let log = broker.log();
                let last: Vec<&str> = log.lines().rev().take(LINES_TOLD).collect();
                eprintln!("broker {id} logged at last, the latest first:\n{}", last.join("\n"));
            }
        }
    }
}

/// A topic whose replicas are where the test wants them.
pub fn assigned(name: &str, placed: &[&[i32]]) -> CreateTopicsRequest {
    let assignment = placed.iter().enumerate().map(|(index, ids)| {
        CreatableReplicaAssignment::default()
            .with_partition_index(index as i32)
            .with_broker_ids(ids.iter().copied().map(BrokerId).collect())
    });
    let mut request = create_topics(name, -1, &[]);
    request.topics[0].assignments = assignment.collect();
    request
}

/// How often something is done: a few times, or what `LOOPS` says.
pub fn loops() -> usize {
    std::env::var("LOOPS").ok().and_then(|loops| loops.parse().ok()).unwrap_or(3)
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
    trio.create_topic();
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
    trio.see_all_in_sync();
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

#[test]
fn every_broker_says_who_leads_and_who_is_gone() {
    if is_kafka() {
        return;
    }
    let mut trio = Trio::start();
    // Two replicas each, so that one broker has none of a partition.
    let placed: [&[i32]; 3] = [&[1, 2], &[2, 3], &[3, 1]];
    let created = trio.anyone().call(CREATE_TOPICS_VERSION, &assigned(TOPIC, &placed));
    assert_eq!(error(created.topics[0].error_code), ErrorCode::None);
    for id in IDS {
        trio.see("preferred leaders with their followers", id, |rows| {
            rows.iter().zip(placed).all(|(row, placed)| {
                row.leader_id.0 == placed[0] && row.isr_nodes.len() == 2 && row.leader_epoch > 0
            })
        });
    }
    let killed = trio.brokers.remove(&1).expect("there").kill();
    for id in [2, 3] {
        trio.see("two brokers", id, |rows| {
            rows.iter().zip(placed).all(|(row, placed)| {
                let offline: Vec<i32> = row.offline_replicas.iter().map(|id| id.0).collect();
                let was_here = placed.contains(&1);
                offline == if was_here { vec![1] } else { vec![] }
                    && row.isr_nodes.len() == if was_here { 1 } else { 2 }
            })
        });
        let all = trio.brokers[&id].connect().call(METADATA_VERSION, &metadata(&[], false));
        assert_eq!(all.brokers.len(), 2, "{:?}", all.brokers);
    }
    trio.brokers.insert(1, Broker::start(killed));
    for id in IDS {
        trio.see("all in sync again", id, |rows| {
            rows.iter().all(|row| {
                let is_led = row.leader_id.0 > 0;
                is_led && row.isr_nodes.len() == 2 && row.offline_replicas.is_empty()
            })
        });
    }
    // The broker that came back leads nothing until it is asked to, by any broker.
    let request = ElectLeadersRequest::default().with_topic_partitions(None).with_timeout_ms(9_000);
    eventually("election of the preferred replicas", || {
        let elected = trio.brokers[&3].connect().call(2, &request);
        assert_eq!(error(elected.error_code), ErrorCode::None);
        let mut rows = elected.replica_election_results.iter().flat_map(|r| &r.partition_result);
        rows.all(|row| error(row.error_code) == ErrorCode::None).then_some(())
    });
    trio.see("preferred leaders", 2, |rows| {
        rows.iter().zip(placed).all(|(row, placed)| row.leader_id.0 == placed[0])
    });
}

#[test]
fn two_of_three_that_are_left_stop_cleanly_and_come_back_with_everything() {
    if is_kafka() {
        return;
    }
    let mut trio = Trio::start();
    trio.create_topic();
    for partition in 0..PARTITIONS {
        assert_eq!(trio.append(partition, "before"), 0);
    }
    let mut stopped = vec![trio.brokers.remove(&1).expect("there").kill()];
    for partition in 0..PARTITIONS {
        assert_eq!(trio.append(partition, "without one"), 1);
    }
    for id in [2, 3] {
        let broker = trio.brokers.remove(&id).expect("there");
        stopped.push(broker.options().clone());
        let status = broker.terminate();
        assert!(status.success(), "{status}");
    }
    trio.start_again(stopped);
    for partition in 0..PARTITIONS {
        assert_eq!(trio.append(partition, "after"), 2);
        assert_eq!(trio.values_of(partition), ["before", "without one", "after"]);
    }
}
