//! A member of a KIP-848 group, request by request.

use std::time::{Duration, Instant};

use compat_tests::requests::{text, topic_name};
use compat_tests::{Broker, Connection};
use kafka_protocol::messages::consumer_group_heartbeat_request::TopicPartitions;
use kafka_protocol::messages::{ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse};
use protocol::ErrorCode;

use crate::group_client::{commit_request, ensure_coordinator, group_id};
use crate::harness::error;

const VERSION: i16 = 1;
/// The first version that knows member epochs.
const COMMIT_VERSION: i16 = 9;
/// The epoch of a member that leaves.
pub const LEAVES: i32 = -1;

/// A member that owns at once what it is told to.
pub struct Member {
    pub connection: Connection,
    pub id: String,
    pub epoch: i32,
    pub owned: Vec<i32>,
    group: String,
    topic: &'static str,
}

impl Member {
    pub fn new(broker: &Broker, group: &str, id: &str, topic: &'static str) -> Member {
        let mut connection = broker.connect();
        ensure_coordinator(&mut connection, group);
        let (group, id) = (group.to_owned(), id.to_owned());
        Member { connection, group, id, epoch: 0, topic, owned: Vec::new() }
    }

    pub fn send(&mut self, epoch: i32) -> ConsumerGroupHeartbeatResponse {
        let topic_id = self.connection.describe_topic(self.topic).topic_id;
        let owned =
            TopicPartitions::default().with_topic_id(topic_id).with_partitions(self.owned.clone());
        let owned = if self.owned.is_empty() { Vec::new() } else { vec![owned] };
        let request = ConsumerGroupHeartbeatRequest::default()
            .with_group_id(group_id(&self.group))
            .with_member_id(text(&self.id))
            .with_member_epoch(epoch)
            .with_rebalance_timeout_ms(60_000)
            .with_subscribed_topic_names(Some(vec![topic_name(self.topic)]))
            .with_topic_partitions(Some(owned));
        self.connection.call(VERSION, &request)
    }

    pub fn heartbeat(&mut self) -> ErrorCode {
        let response = self.send(self.epoch);
        if response.error_code == 0 {
            self.epoch = response.member_epoch;
        }
        if let Some(assignment) = response.assignment {
            let topics = assignment.topic_partitions.into_iter();
            self.owned = topics.flat_map(|topic| topic.partitions).collect();
            self.owned.sort_unstable();
        }
        error(response.error_code)
    }

    /// Commits as a member of that epoch.
    pub fn commit(&mut self, epoch: i32, partition: i32, offset: i64) -> ErrorCode {
        let request = commit_request(&self.group, self.topic, partition, offset, "")
            .with_generation_id_or_member_epoch(epoch)
            .with_member_id(text(&self.id));
        let response = self.connection.call(COMMIT_VERSION, &request);
        error(response.topics[0].partitions[0].error_code)
    }
}

/// Sends heartbeats of all until each owns as many partitions as this.
pub fn settle(members: &mut [&mut Member], each: usize) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while members.iter().any(|member| member.owned.len() != each) {
        assert!(Instant::now() < deadline, "the group settles");
        for member in members.iter_mut() {
            assert_eq!(member.heartbeat(), ErrorCode::None, "{}", member.id);
        }
    }
}
