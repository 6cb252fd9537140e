//! A member of a consumer group of the new protocol (KIP-848): the coordinator assigns, partition
//! by partition; the member gives up, commits, takes on, and reports.

use std::collections::BTreeMap;
use std::thread;
use std::time::Instant;

use compat_tests::requests::{METADATA_VERSION, metadata, text, topic_name};
use kafka_protocol::messages::ConsumerGroupHeartbeatRequest;
use kafka_protocol::messages::consumer_group_heartbeat_request::TopicPartitions;
use protocol::ErrorCode;
use uuid::Uuid;

use crate::client::{BACKOFF, Client, Failure, Shared};
use crate::consumer::Reading;
use crate::history::{History, Partition};
use crate::offsets::{
    HEARTBEAT_EVERY, Membership, REST, by_topic, commit, committed, find_coordinator, group_id, ok,
    positions,
};

/// Members name themselves.
const HEARTBEAT_VERSION: i16 = 1;
/// How long a member may take to give partitions up.
const REBALANCE_TIMEOUT_MS: i32 = 5_000;
struct Member<'a> {
    client: Client<'a>,
    group: u16,
    id: String,
    /// 0 before it has joined.
    epoch: i32,
    coordinator: i32,
    topic_ids: BTreeMap<String, Uuid>,
    /// What the coordinator wants it to have.
    target: Vec<Partition>,
    readings: Vec<Reading>,
    reported_at: Instant,
}

/// Takes part until the run is over, or says that everything is to be read to its end.
pub fn run(shared: &Shared, group: u16, seed: u64) -> History {
    let mut member = Member {
        client: Client::new(shared, seed),
        group,
        id: String::new(),
        epoch: 0,
        coordinator: -1,
        topic_ids: BTreeMap::new(),
        target: Vec::new(),
        readings: Vec::new(),
        reported_at: Instant::now(),
    };
    while !shared.is_over() && !shared.is_read_by_group(group) {
        let result = if member.epoch <= 0 { member.join() } else { member.work() };
        if let Err(failure) = result {
            member.failed(&failure);
        }
    }
    member.give_up(|_| true);
    member.client.history
}

impl Member<'_> {
    fn failed(&mut self, failure: &Failure) {
        self.client.history.error(format!("consumer group: {}", failure.name()));
        thread::sleep(BACKOFF);
        match failure.code() {
            // Told with the next report.
            Some(ErrorCode::CoordinatorLoadInProgress | ErrorCode::StaleMemberEpoch) => {}
            Some(ErrorCode::NotCoordinator | ErrorCode::CoordinatorNotAvailable) => {
                self.coordinator = -1;
            }
            // As in the classic protocol: a commit without an answer may be carried out late.
            _ => {
                (self.epoch, self.coordinator) = (0, -1);
                self.id.clear();
                self.target.clear();
                self.give_up(|_| true);
            }
        }
    }

    fn give_up(&mut self, gives_up: impl Fn(Partition) -> bool) {
        for reading in std::mem::take(&mut self.readings) {
            if gives_up(reading.session.partition) {
                reading.end(&mut self.client.history);
            } else {
                self.readings.push(reading);
            }
        }
    }

    fn join(&mut self) -> Result<(), Failure> {
        if self.topic_ids.is_empty() {
            self.learn_topic_ids()?;
        }
        if self.id.is_empty() {
            self.id = format!("member-{:016x}", self.client.dice.roll());
        }
        self.report()
    }

    fn learn_topic_ids(&mut self) -> Result<(), Failure> {
        let topics = self.client.shared.topics.iter().map(|(topic, _)| topic.as_str());
        let topics: Vec<&str> = topics.collect();
        let broker = self.client.anyone();
        let answer = self.client.call(broker, METADATA_VERSION, &metadata(&topics, false))?;
        for topic in answer.topics {
            ok(topic.error_code)?;
            let name = topic.name.map(|name| name.to_string()).unwrap_or_default();
            self.topic_ids.insert(name, topic.topic_id);
        }
        Ok(())
    }

    fn coordinator(&mut self) -> Result<i32, Failure> {
        if self.coordinator < 0 {
            self.coordinator = find_coordinator(&mut self.client, self.group)?;
        }
        Ok(self.coordinator)
    }

    /// One round of polls, with reports in between.
    fn work(&mut self) -> Result<(), Failure> {
        let mut some = false;
        for index in 0..self.readings.len() {
            some |= self.readings[index].poll(&mut self.client);
            if self.reported_at.elapsed() > HEARTBEAT_EVERY {
                self.commit()?;
                // The readings may be others then.
                return self.report();
            }
        }
        if !some {
            thread::sleep(REST);
        }
        if self.reported_at.elapsed() > HEARTBEAT_EVERY {
            self.report()?;
        }
        Ok(())
    }

    fn commit(&mut self) -> Result<(), Failure> {
        let coordinator = self.coordinator()?;
        let member = Membership { group: self.group, member_id: text(&self.id), epoch: self.epoch };
        commit(&mut self.client, &member, coordinator, &positions(&self.readings))
    }

    /// Says what it has, hears what it shall have, and sees to it.
    fn report(&mut self) -> Result<(), Failure> {
        self.reported_at = Instant::now();
        let shared = self.client.shared;
        let own = self.readings.iter().map(|reading| reading.session.partition);
        let owned = by_topic(shared, own).map(|(topic, partitions)| {
            TopicPartitions::default()
                .with_topic_id(self.topic_ids.get(topic).copied().unwrap_or_default())
                .with_partitions(partitions.into_iter().map(|(_, index)| index).collect())
        });
        let topics = shared.topics.iter().map(|(topic, _)| topic_name(topic)).collect();
        let request = ConsumerGroupHeartbeatRequest::default()
            .with_group_id(group_id(self.group))
            .with_member_id(text(&self.id))
            .with_member_epoch(self.epoch)
            .with_rebalance_timeout_ms(REBALANCE_TIMEOUT_MS)
            .with_subscribed_topic_names(Some(topics))
            .with_topic_partitions(Some(owned.collect()));
        let coordinator = self.coordinator()?;
        let answer = self.client.call(coordinator, HEARTBEAT_VERSION, &request)?;
        ok(answer.error_code)?;
        self.epoch = answer.member_epoch;
        if let Some(assignment) = answer.assignment {
            self.target.clear();
            for topic in assignment.topic_partitions {
                let name = self.topic_ids.iter().find(|(_, id)| **id == topic.topic_id);
                let Some((name, _)) = name else { continue };
                let own = topic.partitions.iter();
                self.target.extend(own.filter_map(|index| shared.partition(name, *index)));
            }
        }
        self.reconcile()
    }

    fn reconcile(&mut self) -> Result<(), Failure> {
        let target = self.target.clone();
        if self.readings.iter().any(|r| !target.contains(&r.session.partition)) {
            // Whatever comes of it: the partitions are given up.
            let committed = self.commit();
            self.give_up(|partition| !target.contains(&partition));
            committed?;
        }
        let has = |p: &Partition| self.readings.iter().any(|r| r.session.partition == *p);
        let new: Vec<Partition> = target.iter().copied().filter(|p| !has(p)).collect();
        if new.is_empty() {
            return Ok(());
        }
        let coordinator = self.coordinator()?;
        let offsets = committed(&mut self.client, self.group, coordinator, &new)?;
        for (partition, offset) in offsets {
            self.readings.push(Reading::new(self.group, partition, offset));
        }
        Ok(())
    }
}
