//! Topics and their partitions.
//!
//! Pure: no I/O, no clock, no randomness.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use protocol::types::{BrokerId, PartitionId, TopicId};

use super::apply::MetadataDelta;
use super::command::{CommandOutcome, CommandResult};
use super::image::{METADATA_GROUP, MetadataImage, PartitionImage, TopicImage};
use super::topic_name;
use crate::ClusterError;

/// A topic to be made.
pub(super) struct NewTopic<'a> {
    pub name: &'a str,
    pub id: TopicId,
    pub assignment: &'a [Vec<BrokerId>],
    pub configs: &'a BTreeMap<String, String>,
}

pub(super) fn create(
    image: &mut MetadataImage,
    delta: &mut MetadataDelta,
    new: &NewTopic<'_>,
) -> CommandResult {
    check_name(image, new.name)?;
    if let Some(taken) = image.topic_names.get(&new.id) {
        return Err(ClusterError::TopicExists(taken.clone()));
    }
    check_assignment(image, new.assignment, None)?;
    let mut topic = TopicImage {
        name: new.name.to_owned(),
        id: new.id,
        partitions: Vec::with_capacity(new.assignment.len()),
        configs: new.configs.clone(),
    };
    extend(image, delta, &mut topic, new.assignment)?;
    let partitions = topic.partitions.iter().map(|partition| partition.id).collect();
    Arc::make_mut(&mut image.topic_names).insert(new.id, topic.name.clone());
    Arc::make_mut(&mut image.topics).insert(topic.name.clone(), Arc::new(topic));
    Ok(CommandOutcome::TopicCreated { id: new.id, partitions })
}

pub(super) fn delete(
    image: &mut MetadataImage,
    delta: &mut MetadataDelta,
    id: TopicId,
) -> CommandResult {
    let Some(name) = image.topic_names.get(&id).cloned() else {
        return Err(ClusterError::UnknownTopicId(id.0));
    };
    Arc::make_mut(&mut image.topic_names).remove(&id);
    if let Some(topic) = Arc::make_mut(&mut image.topics).remove(&name) {
        delta.removed_groups.extend(topic.partitions.iter().map(|partition| partition.group));
    }
    delta.topics_changed.push(name);
    Ok(CommandOutcome::Done)
}

pub(super) fn add_partitions(
    image: &mut MetadataImage,
    delta: &mut MetadataDelta,
    id: TopicId,
    added: &[Vec<BrokerId>],
) -> CommandResult {
    let topic = image.topic_by_id(id).ok_or(ClusterError::UnknownTopicId(id.0))?;
    let mut topic = TopicImage::clone(topic);
    let replication_factor = topic.partitions.first().map(|partition| partition.replicas.len());
    check_assignment(image, added, replication_factor)?;
    extend(image, delta, &mut topic, added)?;
    Arc::make_mut(&mut image.topics).insert(topic.name.clone(), Arc::new(topic));
    Ok(CommandOutcome::Done)
}

fn check_name(image: &MetadataImage, name: &str) -> Result<(), ClusterError> {
    topic_name::validate(name).map_err(ClusterError::InvalidTopicName)?;
    if image.topics.contains_key(name) {
        return Err(ClusterError::TopicExists(name.to_owned()));
    }
    if let Some(other) = topic_name::colliding(image, name) {
        return Err(ClusterError::InvalidTopicName(format!(
            "topic '{name}' collides with the topic '{other}': '.' and '_' are not told apart"
        )));
    }
    Ok(())
}

/// Every partition has the same number of replicas, on brokers that exist, on each at most once.
fn check_assignment(
    image: &MetadataImage,
    assignment: &[Vec<BrokerId>],
    replication_factor: Option<usize>,
) -> Result<(), ClusterError> {
    let Some(first) = assignment.first() else {
        return Err(ClusterError::InvalidPartitions("at least one partition is needed".to_owned()));
    };
    let replication_factor = replication_factor.unwrap_or(first.len());
    for replicas in assignment {
        let invalid = |reason: String| Err(ClusterError::InvalidReplicaAssignment(reason));
        if replicas.is_empty() {
            return invalid("a partition without replicas".to_owned());
        }
        if replicas.len() != replication_factor {
            return invalid(format!(
                "a partition with {} replicas beside partitions with {replication_factor}",
                replicas.len()
            ));
        }
        if let Some(unknown) = replicas.iter().find(|id| !image.brokers.contains_key(id)) {
            return invalid(format!("no broker {unknown} is registered"));
        }
        if replicas.iter().collect::<BTreeSet<_>>().len() != replicas.len() {
            return invalid(format!("a broker stands twice in {replicas:?}"));
        }
    }
    Ok(())
}

/// Appends partitions to a topic, each with a Raft group of its own.
fn extend(
    image: &mut MetadataImage,
    delta: &mut MetadataDelta,
    topic: &mut TopicImage,
    assignment: &[Vec<BrokerId>],
) -> Result<(), ClusterError> {
    let known = topic.partitions.len();
    if i32::try_from(known.saturating_add(assignment.len())).is_err() {
        return Err(ClusterError::InvalidPartitions(
            "more partitions than there are numbers".into(),
        ));
    }
    let first_group = image.next_group_id.max(METADATA_GROUP + 1);
    for (index, replicas) in assignment.iter().enumerate() {
        let group = first_group + index as u64;
        topic.partitions.push(PartitionImage {
            id: PartitionId((known + index) as i32),
            group,
            replicas: replicas.clone(),
            ..PartitionImage::default()
        });
        delta.added_groups.push(group);
    }
    image.next_group_id = first_group + assignment.len() as u64;
    delta.topics_changed.push(topic.name.clone());
    Ok(())
}
