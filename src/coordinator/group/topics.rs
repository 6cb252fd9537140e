//! The topics of the cluster as far as the coordinator needs them: names, ids, partition counts.
//!
//! Pure: no I/O, no clock, no randomness.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use protocol::types::TopicId;

/// One topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicShape {
    /// Its identity.
    pub topic_id: TopicId,
    /// How many partitions it has.
    pub partition_count: i32,
    /// For each partition the racks of its replicas; empty where no broker has a rack.
    pub racks: Vec<Vec<String>>,
}

/// All topics at one moment of the cluster's metadata.
#[derive(Debug, Clone, Default)]
pub struct TopicsSnapshot {
    by_name: BTreeMap<Arc<str>, TopicShape>,
    by_id: HashMap<TopicId, Arc<str>>,
}

impl TopicsSnapshot {
    /// Those topics.
    pub fn new(topics: impl IntoIterator<Item = (String, TopicShape)>) -> TopicsSnapshot {
        let mut snapshot = TopicsSnapshot::default();
        for (name, shape) in topics {
            let name: Arc<str> = Arc::from(name);
            snapshot.by_id.insert(shape.topic_id, name.clone());
            snapshot.by_name.insert(name, shape);
        }
        snapshot
    }

    /// The topic of that name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&TopicShape> {
        self.by_name.get(name)
    }

    /// The topic of that id, with its name.
    #[must_use]
    pub fn by_id(&self, topic_id: TopicId) -> Option<(&Arc<str>, &TopicShape)> {
        let name = self.by_id.get(&topic_id)?;
        self.by_name.get(name).map(|shape| (name, shape))
    }

    /// All of them, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &TopicShape)> {
        self.by_name.iter()
    }
}

impl PartialEq for TopicsSnapshot {
    fn eq(&self, other: &Self) -> bool {
        self.by_name == other.by_name
    }
}

impl Eq for TopicsSnapshot {}
