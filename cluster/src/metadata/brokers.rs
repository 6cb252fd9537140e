//! The cluster's identity and its brokers.
//!
//! Pure: no I/O, no clock, no randomness.

use std::sync::Arc;

use protocol::types::BrokerId;

use super::command::{CommandOutcome, CommandResult};
use super::image::{BrokerImage, MetadataImage};
use crate::ClusterError;

/// The first id stays: a second node that starts with another one joins what is there.
pub(super) fn init_cluster(image: &mut MetadataImage, cluster_id: &str) -> CommandResult {
    if image.cluster_id.is_empty() {
        image.cluster_id = cluster_id.to_owned();
    }
    Ok(CommandOutcome::Done)
}

pub(super) fn register(image: &mut MetadataImage, broker: &BrokerImage) -> CommandResult {
    if image.brokers.get(&broker.id) != Some(broker) {
        Arc::make_mut(&mut image.brokers).insert(broker.id, broker.clone());
    }
    Ok(CommandOutcome::Done)
}

/// Its replicas stay what they are: who wants them elsewhere reassigns them.
pub(super) fn unregister(image: &mut MetadataImage, broker: BrokerId) -> CommandResult {
    if !image.brokers.contains_key(&broker) {
        return Err(ClusterError::UnknownBroker(broker.0));
    }
    Arc::make_mut(&mut image.brokers).remove(&broker);
    Ok(CommandOutcome::Done)
}
