//! The replicas of this broker: made and closed as the metadata image changes, and maintained.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use protocol::types::{PartitionId, Timestamp, TopicId};
use storage::log_store::GroupId;

use super::handle::{LogStartObserver, Replica, ReplicaId};
use super::lifecycle::Environment;
use crate::controller::view::LeaderRow;
use crate::limits::MAINTENANCE_INTERVAL;
use crate::metadata::apply::MetadataDelta;
use crate::metadata::{MetadataImage, PartitionImage, TopicImage};
use crate::options::ReplicaSettings;
use crate::raft::spawn;

type SettingsOf = Arc<dyn Fn(&MetadataImage, &TopicImage) -> ReplicaSettings + Send + Sync>;

/// All replicas of this broker.
pub(crate) struct Registry {
    environment: Arc<Environment>,
    settings: SettingsOf,
    replicas: RwLock<Replicas>,
}

#[derive(Default)]
struct Replicas {
    by_partition: BTreeMap<(TopicId, PartitionId), Arc<Replica>>,
    by_group: BTreeMap<u64, (TopicId, PartitionId)>,
    /// By the number that other replicas call by: its log's, but for the survivor of an unclean
    /// election.
    by_number: BTreeMap<u64, (TopicId, PartitionId)>,
}

impl Registry {
    pub(crate) fn new(environment: Arc<Environment>, settings: SettingsOf) -> Self {
        Registry { environment, settings, replicas: RwLock::default() }
    }

    /// Has `observer` told of every log start that moves from now on. The first one stays.
    pub(crate) fn observe_log_starts(&self, observer: LogStartObserver) {
        self.environment.log_start_observer.get_or_init(|| observer);
    }

    pub(crate) fn get(&self, topic: TopicId, partition: PartitionId) -> Option<Arc<Replica>> {
        self.replicas.read().by_partition.get(&(topic, partition)).cloned()
    }

    pub(crate) fn by_group(&self, group: GroupId) -> Option<Arc<Replica>> {
        let replicas = self.replicas.read();
        let key = replicas.by_group.get(&group.0)?;
        replicas.by_partition.get(key).cloned()
    }

    /// What this broker leads.
    pub(crate) fn led(&self) -> Vec<LeaderRow> {
        self.all().iter().filter_map(|replica| replica.leader_row()).collect()
    }

    /// The replica that is called by that number: none is another's that was here before.
    pub(crate) fn by_number(&self, number: GroupId) -> Option<Arc<Replica>> {
        let replicas = self.replicas.read();
        let key = replicas.by_number.get(&number.0)?;
        replicas.by_partition.get(key).cloned()
    }

    pub(crate) fn all(&self) -> Vec<Arc<Replica>> {
        self.replicas.read().by_partition.values().cloned().collect()
    }

    /// Makes the replicas that a first image asks for, and removes groups whose deletion a crash
    /// cut short.
    pub(crate) fn open_all(&self, image: &MetadataImage) {
        self.environment.throttle.set_rates(image);
        for topic in image.topics.values() {
            self.ensure_topic(image, topic);
        }
        let known = image.log_ids(self.environment.broker_id);
        for group in self.environment.store.group_ids() {
            // A number that this image has not handed out is not for it to judge.
            if group.0 != 0 && group.0 < image.next_group_id && !known.contains(&group.0) {
                self.remove_group(group);
            }
        }
    }

    /// Makes what a change of the image brings, before the image is published.
    pub(crate) fn on_change(
        &self,
        before: &MetadataImage,
        image: &MetadataImage,
        delta: &MetadataDelta,
    ) {
        for name in &delta.topics_changed {
            if let Some(topic) = image.topic(name) {
                self.ensure_topic(image, topic);
            }
        }
        if !Arc::ptr_eq(&before.broker_configs, &image.broker_configs) {
            self.environment.throttle.set_rates(image);
            for topic in image.topics.values() {
                self.ensure_topic(image, topic);
            }
        }
    }

    /// Makes what an image has that replaces the one before at once.
    pub(crate) fn on_snapshot(&self, image: &MetadataImage) {
        self.environment.throttle.set_rates(image);
        for topic in image.topics.values() {
            self.ensure_topic(image, topic);
        }
    }

    /// Removes what the published image no longer has.
    pub(crate) fn remove(&self, groups: impl IntoIterator<Item = u64>) {
        let groups: Vec<u64> = groups.into_iter().collect();
        self.environment.presence.forget(&groups);
        groups.into_iter().for_each(|group| self.remove_replica(group));
    }

    /// Removes replicas that are other brokers' business by the published image.
    pub(crate) fn remove_departed(&self, image: &MetadataImage, topics: &[String]) {
        let own = self.environment.broker_id;
        for topic in topics.iter().filter_map(|name| image.topic(name)) {
            for partition in topic.partitions.iter().filter(|p| !p.replicas.contains(&own)) {
                self.remove_replica(partition.group);
            }
        }
    }

    /// Makes the topic's replicas that are not there, and tells the others what has changed.
    fn ensure_topic(&self, image: &MetadataImage, topic: &TopicImage) {
        let settings = (self.settings)(image, topic);
        let own = self.environment.broker_id;
        for partition in topic.partitions.iter().filter(|p| p.replicas.contains(&own)) {
            if let Some(replica) = self.get(topic.id, partition.id) {
                if replica.log_id().0 == partition.log_id(own) {
                    replica.set_settings(settings.clone());
                    self.call_by(&replica.partition(), partition);
                    replica.set_partition(partition);
                    continue;
                }
                // It was removed and came back between two images.
                self.remove_replica(partition.group);
            }
            let key = (topic.id, partition.id);
            let directory_id = &self.environment.directory_id;
            let replica = Arc::new(Replica::new(
                ReplicaId { topic: topic.id, partition: partition.id },
                partition.clone(),
                image.may_have_lost_log(partition, own, directory_id),
                settings.clone(),
                self.environment.clone(),
            ));
            let mut replicas = self.replicas.write();
            replicas.by_number.insert(partition.call_number(own), key);
            replicas.by_partition.insert(key, replica);
            replicas.by_group.insert(partition.group, key);
        }
    }

    /// Calls by its former number reach a replica no more, once it has another one.
    fn call_by(&self, before: &PartitionImage, now: &PartitionImage) {
        let own = self.environment.broker_id;
        let (former, number) = (before.call_number(own), now.call_number(own));
        if former != number {
            let mut replicas = self.replicas.write();
            if let Some(key) = replicas.by_number.remove(&former) {
                replicas.by_number.insert(number, key);
            }
        }
    }

    fn remove_replica(&self, group: u64) {
        let own = self.environment.broker_id;
        let replica = {
            let mut replicas = self.replicas.write();
            let key = replicas.by_group.remove(&group);
            let removed = key.and_then(|key| replicas.by_partition.remove(&key));
            if let Some(replica) = &removed {
                replicas.by_number.remove(&replica.partition().call_number(own));
            }
            removed
        };
        let Some(replica) = replica else { return };
        let store = self.environment.store.clone();
        tracing::debug!(group, "the replica is not this broker's any more");
        spawn(async move {
            // Its instance must not write any more once the group is gone.
            replica.remove().await;
            remove_from(&store, replica.log_id());
        });
    }

    fn remove_group(&self, group: GroupId) {
        tracing::info!(group = group.0, "removing what a deleted partition left behind");
        remove_from(&self.environment.store, group);
    }

    /// Looks after every replica, round after round.
    pub(crate) async fn run_maintenance(
        &self,
        now: Arc<dyn Fn() -> Timestamp + Send + Sync>,
        retention_check_interval: Duration,
        producer_id_expiration: Duration,
    ) {
        let millis = |d: Duration| i64::try_from(d.as_millis()).unwrap_or(i64::MAX);
        let retention_check_ms = millis(retention_check_interval);
        let producer_expiration_ms = millis(producer_id_expiration);
        let round = MAINTENANCE_INTERVAL.min(retention_check_interval.max(SHORTEST_ROUND));
        loop {
            tokio::time::sleep(round).await;
            for replica in self.all() {
                let shared = &replica.shared;
                shared.maintain(now(), retention_check_ms, producer_expiration_ms).await;
            }
        }
    }

    /// Closes every instance; nothing can be appended any more.
    pub(crate) async fn close(&self) {
        for replica in self.all() {
            replica.remove().await;
        }
    }
}

const SHORTEST_ROUND: Duration = Duration::from_millis(100);

fn remove_from(store: &storage::log_store::LogStore, group: GroupId) {
    let done = Box::new(move |result: Result<(), storage::StorageError>| {
        if let Err(error) = result {
            tracing::warn!(group = group.0, %error, "group was not removed; the next start tries");
        }
    });
    store.remove_group(group, done);
}
