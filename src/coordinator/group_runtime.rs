//! The group coordinator at work: its machine on `__consumer_offsets`, told of the configuration
//! and of the cluster's topics whenever these change.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use cluster::Cluster;
use cluster::metadata::{MetadataImage, TopicImage};
use futures::future::join_all;
use parking_lot::Mutex;
use protocol::compression::Codec;
use protocol::types::{PartitionId, TopicId};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::group::event::{
    ConsumerGroupConfig, GroupConfig, GroupId, GroupReply, GroupRequest, MigrationPolicy, Rewind,
    RewindTo, TopicShape, TopicsSnapshot,
};
use super::group::{GroupShard, GroupSoft};
use super::observer::Observer;
use super::runtime::{Answer, Coordinator, CoordinatorError};
use crate::config::{BrokerConfig, group};
use crate::limits::{COORDINATOR_FOLLOW_PAUSE, COORDINATOR_TELL_RETRY};
use crate::tasks;

/// The topic that holds groups and offsets.
pub const OFFSETS_TOPIC: &str = "__consumer_offsets";

/// The group coordinator of this broker.
pub struct GroupCoordinator {
    shards: Arc<Coordinator<GroupShard>>,
    cluster: Arc<Cluster>,
    config: Arc<BrokerConfig>,
    /// What a shard that is loaded now starts with.
    surroundings: Arc<Mutex<Surroundings>>,
    unseen: Unseen,
    follower: TaskTracker,
    stop: CancellationToken,
}

/// What groups depend on and is not in their log.
#[derive(Clone)]
struct Surroundings {
    config: Arc<GroupConfig>,
    topics: Arc<TopicsSnapshot>,
}

/// Topics of which offsets were committed before the follower of the metadata had heard of them:
/// it sees one image of many, and a topic may be made and deleted between two.
#[derive(Default)]
struct Unseen {
    topics: Mutex<BTreeMap<TopicId, String>>,
    noted: Notify,
}

impl GroupCoordinator {
    /// The coordinator, which loads nothing before it is started.
    #[must_use]
    pub fn new(cluster: Arc<Cluster>, config: Arc<BrokerConfig>) -> Arc<GroupCoordinator> {
        let image = cluster.metadata();
        let surroundings = Arc::new(Mutex::new(Surroundings {
            config: Arc::new(group_config(&config, &image)),
            topics: Arc::new(topics_snapshot(&image)),
        }));
        let codec = config.effective(&image, "offsets.topic.compression.codec");
        let codec = codec.and_then(|id| Codec::from_id(id.trim().parse().ok()?));
        let known = Arc::clone(&surroundings);
        let new_soft = move || {
            let Surroundings { config, topics } = known.lock().clone();
            GroupSoft::new(config, topics)
        };
        let shards =
            Coordinator::new(OFFSETS_TOPIC, cluster.clone(), codec.unwrap_or_default(), new_soft);
        let (follower, stop) = (TaskTracker::new(), CancellationToken::new());
        let unseen = Unseen::default();
        Arc::new(GroupCoordinator { shards, cluster, config, surroundings, unseen, follower, stop })
    }

    /// Has `observer` told of every record; to be called before `start`.
    pub fn observe(&self, observer: Arc<dyn Observer<GroupShard>>) {
        self.shards.observe(observer);
    }

    /// Loads what there is, and follows the metadata until the coordinator is stopped.
    pub fn start(self: &Arc<Self>) {
        self.shards.start();
        let coordinator = Arc::clone(self);
        tasks::spawn(&self.follower, async move {
            tokio::select! {
                () = coordinator.stop.cancelled() => {}
                () = coordinator.follow() => {}
            }
        });
    }

    /// Answers everyone who waits, and ends the tasks. The cluster must still be open.
    pub async fn stop(&self) {
        self.stop.cancel();
        self.follower.close();
        self.follower.wait().await;
        self.shards.stop().await;
    }

    /// The partition whose leader is the group's coordinator; `None` while there is no topic.
    #[must_use]
    pub fn partition_for(&self, group_id: &str) -> Option<PartitionId> {
        self.shards.partition_for(group_id)
    }

    /// Hands a request to the group's shard; it is queued when this returns.
    pub fn call(
        &self,
        group_id: &str,
        request: GroupRequest,
    ) -> impl Future<Output = Answer<GroupShard>> + Send + use<> {
        match &request {
            GroupRequest::OffsetCommit(commit) => {
                self.note_topics(commit.topics.iter().map(|of| (of.topic_id, &of.topic)));
            }
            GroupRequest::Rewind(Rewind { to: RewindTo::Places(places), .. }) => {
                self.note_topics(places.iter().map(|of| (of.topic_id, &of.topic)));
            }
            _ => {}
        }
        let partition = self.shards.partition_for(group_id);
        let answer = partition.map(|partition| self.shards.call(partition, request));
        async move {
            match answer {
                Some(answer) => answer.await,
                None => Err(CoordinatorError::NotCoordinator),
            }
        }
    }

    /// Asks every shard that this broker has.
    pub fn call_all(
        &self,
        request: &GroupRequest,
    ) -> impl Future<Output = Vec<Answer<GroupShard>>> + Send + use<> {
        let partitions = self.shards.partitions().into_iter();
        join_all(partitions.map(|partition| self.shards.call(partition, request.clone())))
    }

    fn note_topics<'a>(&self, topics: impl Iterator<Item = (TopicId, &'a String)>) {
        let seen = Arc::clone(&self.surroundings.lock().topics);
        for (topic_id, topic) in topics.filter(|(topic_id, _)| seen.by_id(*topic_id).is_none()) {
            self.unseen.topics.lock().insert(topic_id, topic.clone());
            self.unseen.noted.notify_one();
        }
    }

    /// Tells the shards what has changed, image after image.
    async fn follow(&self) {
        let mut images = self.cluster.watch_metadata();
        loop {
            tokio::select! {
                changed = images.changed() => if changed.is_err() { return },
                () = self.unseen.noted.notified() => {}
            }
            // Topics are often made in numbers.
            tokio::time::sleep(COORDINATOR_FOLLOW_PAUSE).await;
            let image = images.borrow_and_update().clone();
            let now = Surroundings {
                config: Arc::new(group_config(&self.config, &image)),
                topics: Arc::new(topics_snapshot(&image)),
            };
            let before = std::mem::replace(&mut *self.surroundings.lock(), now.clone());
            if before.config != now.config {
                self.tell(GroupRequest::Configure(now.config)).await;
            }
            let mut deleted = deleted_topics(&before.topics, &now.topics);
            let unseen = std::mem::take(&mut *self.unseen.topics.lock()).into_iter();
            let gone = unseen.filter(|(id, _)| now.topics.by_id(*id).is_none());
            deleted.extend(gone.map(|(_, name)| name));
            if before.topics != now.topics {
                self.tell(GroupRequest::TopicsChanged(now.topics)).await;
            }
            if !deleted.is_empty() {
                self.tell(GroupRequest::TopicsDeleted(deleted)).await;
            }
        }
    }

    /// Tells every shard; one that is loading is told when it has loaded.
    async fn tell(&self, news: GroupRequest) {
        let told = self.shards.partitions().into_iter().map(|partition| {
            let news = &news;
            async move {
                while let Err(CoordinatorError::Loading | CoordinatorError::Busy) =
                    self.shards.call(partition, news.clone()).await
                {
                    tokio::time::sleep(COORDINATOR_TELL_RETRY).await;
                }
            }
        });
        join_all(told).await;
    }
}

/// Waits for a shard's answer, and takes out what is in it.
pub async fn answered<T>(
    answer: impl Future<Output = Answer<GroupShard>>,
    take: impl FnOnce(GroupReply) -> Option<T>,
) -> Result<Option<T>, CoordinatorError> {
    Ok(take(answer.await?))
}

fn topics_snapshot(image: &MetadataImage) -> TopicsSnapshot {
    let has_racks = image.brokers.values().any(|broker| broker.rack.is_some());
    let shape = |topic: &TopicImage| TopicShape {
        topic_id: topic.id,
        partition_count: i32::try_from(topic.partitions.len()).unwrap_or(i32::MAX),
        racks: if has_racks { racks(image, topic) } else { Vec::new() },
    };
    TopicsSnapshot::new(image.topics.iter().map(|(name, topic)| (name.clone(), shape(topic))))
}

fn racks(image: &MetadataImage, topic: &TopicImage) -> Vec<Vec<String>> {
    let rack = |id| image.brokers.get(id).and_then(|broker| broker.rack.clone());
    topic.partitions.iter().map(|p| p.replicas.iter().filter_map(rack).collect()).collect()
}

/// Topics that are gone, or others by now.
fn deleted_topics(before: &TopicsSnapshot, now: &TopicsSnapshot) -> Vec<String> {
    let is_gone = |name: &str, shape: &TopicShape| {
        now.get(name).is_none_or(|other| other.topic_id != shape.topic_id)
    };
    before
        .iter()
        .filter(|(name, shape)| is_gone(name, shape))
        .map(|(name, _)| name.to_string())
        .collect()
}

fn group_config(config: &BrokerConfig, image: &MetadataImage) -> GroupConfig {
    let number = |key: &str| -> i64 {
        let value = config.effective(image, key);
        value.and_then(|value| value.trim().parse().ok()).unwrap_or_default()
    };
    let int = |key: &str| i32::try_from(number(key)).unwrap_or(i32::MAX);
    let count = |key: &str| usize::try_from(number(key)).unwrap_or_default();
    let text = |key: &str| config.effective(image, key).unwrap_or_default().to_owned();
    let delay_key = "group.initial.rebalance.delay.ms";
    let delay_is_chosen = config.values.get(delay_key).is_some_and(|value| value.is_static)
        || image.dynamic_broker_config(config.node_id, delay_key).is_some();
    // The delay is for many members that start together with a cluster; who runs a single broker
    // waits for it at each test.
    let no_delay = !delay_is_chosen && image.brokers.len() <= 1;
    GroupConfig {
        min_session_timeout_ms: int("group.min.session.timeout.ms"),
        max_session_timeout_ms: int("group.max.session.timeout.ms"),
        initial_rebalance_delay_ms: if no_delay { 0 } else { int(delay_key) },
        max_size: count("group.max.size"),
        offset_metadata_max_bytes: count("offset.metadata.max.bytes"),
        offsets_retention_ms: minutes_to_ms(number("offsets.retention.minutes")),
        offsets_retention_check_interval_ms: number("offsets.retention.check.interval.ms"),
        consumer_session_timeout_ms: int("group.consumer.session.timeout.ms"),
        consumer_heartbeat_interval_ms: int("group.consumer.heartbeat.interval.ms"),
        consumer_assignment_interval_ms: int("group.consumer.assignment.interval.ms"),
        consumer_max_size: count("group.consumer.max.size"),
        consumer_assignors: text("group.consumer.assignors")
            .split(',')
            .map(|name| name.trim().to_owned())
            .filter(|name| !name.is_empty())
            .collect(),
        consumer_migration_policy: match &*text("group.consumer.migration.policy").to_lowercase() {
            "disabled" => MigrationPolicy::Disabled,
            "downgrade" => MigrationPolicy::Downgrade,
            "upgrade" => MigrationPolicy::Upgrade,
            _ => MigrationPolicy::Bidirectional,
        },
        consumer_groups: image
            .group_configs
            .iter()
            .map(|(group_id, own)| (GroupId::from(group_id.as_str()), of_group(own, config, image)))
            .collect(),
    }
}

fn of_group(
    own: &BTreeMap<String, String>,
    config: &BrokerConfig,
    image: &MetadataImage,
) -> ConsumerGroupConfig {
    let number = |key: &str| {
        let bound = |key: &str| config.effective(image, key).map(str::to_owned);
        group::effective(own, key, bound).map(|number| i32::try_from(number).unwrap_or(i32::MAX))
    };
    ConsumerGroupConfig {
        session_timeout_ms: number("consumer.session.timeout.ms"),
        heartbeat_interval_ms: number("consumer.heartbeat.interval.ms"),
        assignment_interval_ms: number("consumer.assignment.interval.ms"),
    }
}

fn minutes_to_ms(minutes: i64) -> i64 {
    let minutes = u64::try_from(minutes).unwrap_or_default();
    let duration = Duration::from_secs(minutes.saturating_mul(60));
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use cluster::metadata::{BrokerImage, MetadataCommand, apply};
    use protocol::types::BrokerId;
    use uuid::Uuid;

    use super::*;

    fn image(brokers: i32) -> MetadataImage {
        (1..=brokers).fold(MetadataImage::default(), |image, id| {
            let broker = BrokerImage {
                id: BrokerId(id),
                rack: None,
                endpoints: Vec::new(),
                peer_address: None,
                directory_id: None,
            };
            apply(&image, &MetadataCommand::RegisterBroker { broker }).0
        })
    }

    fn config(overrides: &[&str], image: &MetadataImage) -> GroupConfig {
        let overrides: Vec<_> = overrides.iter().map(|pair| (*pair).to_owned()).collect();
        let config = BrokerConfig::from_sources("", &[], &overrides).expect("it loads").0;
        group_config(&config, image)
    }

    #[test]
    fn the_defaults_are_kafkas() {
        assert_eq!(config(&[], &image(2)), GroupConfig::default());
    }

    #[test]
    fn a_broker_that_runs_alone_does_not_wait_for_members_unless_told_to() {
        assert_eq!(config(&[], &image(1)).initial_rebalance_delay_ms, 0);
        let chosen = config(&["group.initial.rebalance.delay.ms=3000"], &image(1));
        assert_eq!(chosen.initial_rebalance_delay_ms, 3000);
    }

    #[test]
    fn keys_are_read() {
        let set = config(
            &[
                "offsets.retention.minutes=2",
                "group.consumer.assignors=range",
                "group.consumer.migration.policy=UPGRADE",
                "group.max.size=7",
            ],
            &image(1),
        );
        assert_eq!((set.offsets_retention_ms, set.max_size), (120_000, 7));
        assert_eq!(set.consumer_assignors, ["range"]);
        assert_eq!(set.consumer_migration_policy, MigrationPolicy::Upgrade);
    }

    #[test]
    fn what_is_set_on_a_group_is_kept_within_the_brokers_bounds() {
        let configs = [
            ("consumer.session.timeout.ms", "50000"),
            ("consumer.heartbeat.interval.ms", "1"),
            ("share.session.timeout.ms", "50000"),
        ];
        let configs = configs.map(|(key, value)| (key.to_owned(), value.to_owned()));
        let command =
            MetadataCommand::SetGroupConfigs { group: "g".to_owned(), configs: configs.into() };
        let config = config(&[], &apply(&image(1), &command).0);
        let expected = ConsumerGroupConfig {
            session_timeout_ms: Some(50_000),
            heartbeat_interval_ms: Some(5_000),
            assignment_interval_ms: None,
        };
        assert_eq!(config.consumer_groups, BTreeMap::from([("g".into(), expected)]));
    }

    #[test]
    fn a_topic_that_was_made_anew_was_deleted() {
        let snapshot = |topics: &[(&str, u128)]| {
            TopicsSnapshot::new(topics.iter().map(|(name, id)| {
                let topic_id = TopicId(Uuid::from_u128(*id));
                let shape = TopicShape { topic_id, partition_count: 1, racks: Vec::new() };
                ((*name).to_owned(), shape)
            }))
        };
        let before = snapshot(&[("gone", 1), ("kept", 2), ("anew", 3)]);
        let now = snapshot(&[("kept", 2), ("anew", 4), ("new", 5)]);
        assert_eq!(deleted_topics(&before, &now), ["anew", "gone"]);
    }
}
