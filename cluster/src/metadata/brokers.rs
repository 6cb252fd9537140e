//! The cluster's identity and its brokers.
//!
//! Pure: no I/O, no clock, no randomness.

use std::sync::Arc;

use super::command::{CommandOutcome, CommandResult};
use super::image::{BrokerImage, MetadataImage};

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
