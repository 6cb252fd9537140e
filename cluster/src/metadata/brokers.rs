//! The cluster's identity and its brokers.
//!
//! Pure: no I/O, no clock, no randomness.

use std::sync::Arc;

use protocol::types::BrokerId;

use super::apply::MetadataDelta;
use super::command::{CommandOutcome, CommandResult};
use super::image::{BrokerImage, MetadataImage, PartitionImage};
use crate::ClusterError;

/// The first id stays: a second node that starts with another one joins what is there.
pub(super) fn init_cluster(image: &mut MetadataImage, cluster_id: &str) -> CommandResult {
    if image.cluster_id.is_empty() {
        image.cluster_id = cluster_id.to_owned();
    }
    Ok(CommandOutcome::Done)
}

pub(super) fn register(
    image: &mut MetadataImage,
    delta: &mut MetadataDelta,
    broker: &BrokerImage,
) -> CommandResult {
    let before = image.brokers.get(&broker.id);
    if before == Some(broker) {
        return Ok(CommandOutcome::Done);
    }
    let directory_before = before.and_then(|before| before.directory_id.clone());
    if directory_before.is_some() && directory_before != broker.directory_id {
        note_lost_directory(image, delta, broker.id);
    }
    Arc::make_mut(&mut image.brokers).insert(broker.id, broker.clone());
    Ok(CommandOutcome::Done)
}

/// What the broker kept it keeps no more, and what it is given later it never had.
fn note_lost_directory(image: &mut MetadataImage, delta: &mut MetadataDelta, broker: BrokerId) {
    for (name, topic) in Arc::make_mut(&mut image.topics) {
        let is_new = |p: &PartitionImage| {
            p.replicas.contains(&broker) && !p.lost_directories.contains(&broker)
        };
        if topic.partitions.iter().any(is_new) {
            let partitions = &mut Arc::make_mut(topic).partitions;
            for partition in partitions.iter_mut().filter(|p| is_new(p)) {
                partition.lost_directories.push(broker);
            }
            delta.topics_changed.push(name.clone());
        }
    }
}

/// Its replicas stay what they are: who wants them elsewhere reassigns them. Its directory is
/// forgotten, so it may come back with another one.
pub(super) fn unregister(
    image: &mut MetadataImage,
    delta: &mut MetadataDelta,
    broker: BrokerId,
) -> CommandResult {
    if !image.brokers.contains_key(&broker) {
        return Err(ClusterError::UnknownBroker(broker.0));
    }
    note_lost_directory(image, delta, broker);
    Arc::make_mut(&mut image.brokers).remove(&broker);
    Ok(CommandOutcome::Done)
}
