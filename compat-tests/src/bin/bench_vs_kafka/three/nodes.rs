//! Three brokers as processes of a cluster: started, signalled, asked who leads and who is in
//! sync.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use compat_tests::cluster::{ALLOWED_ERRORS, Addresses, IDS};
use compat_tests::requests::{
    CREATE_TOPICS_VERSION, LIST_OFFSETS_VERSION, create_topics, list_offsets,
};
use compat_tests::{Broker, BrokerOptions, Connection};
use kafka_protocol::messages::ElectLeadersRequest;
use kafka_protocol::messages::list_offsets_request::ListOffsetsPartition;
use kafka_protocol::messages::metadata_response::MetadataResponseTopic;

use crate::Settings;
use crate::race::{Durability, Who, configured};

/// How long something of a cluster may take that it does by itself.
const WITHIN: Duration = Duration::from_secs(180);
/// How often it is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// How long one answer may take.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);
/// ElectLeaders with the kind of election.
const ELECT_LEADERS_VERSION: i16 = 2;
/// Partitions by the broker that leads them.
pub type Leaders = BTreeMap<i32, Vec<i32>>;

/// The brokers of a cluster.
pub struct Nodes {
    /// Where clients find them.
    pub addresses: BTreeMap<i32, SocketAddr>,
    who: Who,
    options: BTreeMap<i32, BrokerOptions>,
    running: BTreeMap<i32, Broker>,
}

impl Nodes {
    /// Three brokers that know of one another.
    pub fn start(
        settings: &Settings,
        who: Who,
        durability: Durability,
        dir: &Path,
    ) -> Result<Nodes, String> {
        let addresses = Addresses::on_loopback().map_err(|error| error.to_string())?;
        let options = IDS.into_iter().map(|id| {
            let dir = dir.join(id.to_string());
            let options = match who {
                Who::Highwater => addresses.highwater(id, &settings.binary, &dir),
                Who::Kafka => addresses.kafka(id, &dir),
            };
            let options = configured(options, who, durability).with("min.insync.replicas", "2");
            (id, ALLOWED_ERRORS.iter().fold(options, |options, text| options.allow_error(text)))
        });
        let (options, running) = (options.collect(), BTreeMap::new());
        let mut nodes = Nodes { addresses: addresses.clients, who, options, running };
        IDS.into_iter().try_for_each(|id| nodes.spawn(id))?;
        IDS.into_iter().try_for_each(|id| nodes.wait_until_ready(id))?;
        nodes.wait_until("takes topics", |nodes| Ok(nodes.all()?.len() == IDS.len()))?;
        Ok(nodes)
    }

    fn spawn(&mut self, id: i32) -> Result<(), String> {
        let broker = Broker::spawn(self.options[&id].clone()).map_err(|error| error.to_string())?;
        self.running.insert(id, broker);
        Ok(())
    }

    fn wait_until_ready(&mut self, id: i32) -> Result<(), String> {
        let broker = self.running.get_mut(&id).ok_or("the broker is down")?;
        broker.wait_until_ready().map_err(|error| error.to_string())
    }

    /// Starts a broker again, and waits until it takes connections.
    pub fn restart(&mut self, id: i32) -> Result<(), String> {
        self.spawn(id)?;
        self.wait_until_ready(id)
    }

    /// kill -9.
    pub fn kill(&mut self, id: i32) {
        if let Some(broker) = self.running.remove(&id) {
            broker.kill();
        }
    }

    /// SIGTERM, and waits until it has ended.
    pub fn terminate(&mut self, id: i32) -> Result<(), String> {
        let Some(broker) = self.running.remove(&id) else { return Ok(()) };
        let status = broker.terminate();
        if status.success() { Ok(()) } else { Err(format!("broker {id} ended with {status}")) }
    }

    /// Signals a broker.
    pub fn signal(&self, id: i32, signal: i32) {
        if let Some(broker) = self.running.get(&id) {
            broker.signal(signal);
        }
    }

    /// Processor time of all of them.
    pub fn cpu_time(&self) -> Duration {
        self.running.values().map(Broker::cpu_time).sum()
    }

    /// Those that run.
    pub fn brokers(&self) -> impl Iterator<Item = &Broker> {
        self.running.values()
    }

    /// A new connection to a broker.
    pub fn connect(&self, id: i32) -> Result<Connection, String> {
        let address = self.addresses[&id];
        Connection::open_within(address, ANSWER_WITHIN)
            .map_err(|error| format!("no connection to broker {id}: {error}"))
    }

    /// Makes a topic with three replicas, and waits until all its leaders serve and all its
    /// replicas are in sync.
    pub fn create_topic(&self, name: &str, partitions: i32) -> Result<(), String> {
        let request = create_topics(name, partitions, &[]);
        let mut connection = self.connect(IDS[0])?;
        let answer = connection.try_call(CREATE_TOPICS_VERSION, &request);
        let answer = answer.map_err(|error| format!("{name} is not created: {error}"))?;
        let topic = &answer.topics[0];
        if topic.error_code != 0 {
            return Err(format!("{name} is not created: {:?}", topic.error_message));
        }
        self.wait_in_sync(&[(name, partitions)])?;
        self.wait_until(&format!("serves {name}"), |nodes| nodes.is_servable(name))
    }

    /// Deletes a topic.
    pub fn delete_topic(&self, name: &str) -> Result<(), String> {
        self.connect(IDS[0])?.delete_topic(name);
        Ok(())
    }

    /// Who leads which partitions of a topic.
    pub fn leaders(&self, topic: &str) -> Result<Leaders, String> {
        let mut leaders: Leaders = IDS.into_iter().map(|id| (id, Vec::new())).collect();
        let id = self.running.keys().next().ok_or("no broker runs")?;
        for row in self.connect(*id)?.describe_topic(topic).partitions {
            leaders.entry(row.leader_id.0).or_default().push(row.partition_index);
        }
        Ok(leaders)
    }

    /// Waits until every broker says that all replicas of the topics are in sync, and is ready.
    pub fn wait_in_sync(&self, topics: &[(&str, i32)]) -> Result<(), String> {
        self.wait_until("has all replicas in sync", |nodes| {
            if nodes.who == Who::Highwater {
                let ready = |broker: &Broker| {
                    broker.http_get("/health/ready").is_ok_and(|(status, _)| status.contains("200"))
                };
                if !nodes.brokers().all(ready) {
                    return Ok(false);
                }
            }
            for (topic, partitions) in topics {
                let rows = nodes.all_say(topic)?;
                if !rows.iter().all(|row| in_sync(row, *partitions)) {
                    return Ok(false);
                }
            }
            Ok(true)
        })
    }

    /// Gives every partition to the first of its replicas.
    pub fn elect_preferred_leaders(&self) -> Result<(), String> {
        let request =
            ElectLeadersRequest::default().with_topic_partitions(None).with_timeout_ms(10_000);
        let answer = self.connect(IDS[0])?.try_call(ELECT_LEADERS_VERSION, &request);
        // Partitions that need no election come with an error of their own.
        answer.map(drop).map_err(|error| format!("no election: {error}"))
    }

    fn all(&self) -> Result<Vec<MetadataResponseTopic>, String> {
        self.all_say("no-such-topic")
    }

    fn all_say(&self, topic: &str) -> Result<Vec<MetadataResponseTopic>, String> {
        let ids = self.running.keys();
        ids.map(|id| Ok(self.connect(*id)?.describe_topic(topic))).collect()
    }

    /// Whether each leader knows that it is one.
    fn is_servable(&self, topic: &str) -> Result<bool, String> {
        for (id, partitions) in self.leaders(topic)? {
            if partitions.is_empty() {
                continue;
            }
            let mut request = list_offsets(topic, 0, -1);
            let row = |partition: i32| {
                ListOffsetsPartition::default()
                    .with_partition_index(partition)
                    .with_current_leader_epoch(-1)
                    .with_timestamp(-1)
            };
            request.topics[0].partitions = partitions.into_iter().map(row).collect();
            let answer = self.connect(id)?.try_call(LIST_OFFSETS_VERSION, &request);
            let answer = answer.map_err(|error| error.to_string())?;
            if answer.topics[0].partitions.iter().any(|row| row.error_code != 0) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn wait_until(
        &self,
        what: &str,
        is: impl Fn(&Nodes) -> Result<bool, String>,
    ) -> Result<(), String> {
        let deadline = Instant::now() + WITHIN;
        loop {
            let answer = is(self);
            if matches!(answer, Ok(true)) {
                return Ok(());
            }
            if Instant::now() > deadline {
                let why = answer.err().unwrap_or_default();
                return Err(format!("{:?} never {what} {why}", self.who));
            }
            thread::sleep(LOOK_EVERY);
        }
    }
}

fn in_sync(topic: &MetadataResponseTopic, partitions: i32) -> bool {
    let in_sync = topic.partitions.iter().filter(|row| {
        row.error_code == 0 && row.leader_id.0 >= 0 && row.isr_nodes.len() == IDS.len()
    });
    topic.error_code == 0 && in_sync.count() == partitions as usize
}
