//! Blocks of producer ids: no id is ever handed out twice.
//!
//! Pure: no I/O, no clock, no randomness.

use protocol::types::BrokerId;

use super::command::{CommandOutcome, CommandResult};
use super::image::MetadataImage;
use crate::ClusterError;

/// Hands out what is asked for, less where the numbers run out (not in this universe's time).
pub(super) fn allocate(image: &mut MetadataImage, broker: BrokerId, count: i64) -> CommandResult {
    if !image.brokers.contains_key(&broker) {
        return Err(ClusterError::UnknownBroker(broker.0));
    }
    let first = image.next_producer_id;
    let count = count.clamp(0, i64::MAX - first);
    image.next_producer_id = first + count;
    Ok(CommandOutcome::ProducerIds { first, count })
}
