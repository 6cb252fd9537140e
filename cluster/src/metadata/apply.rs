//! (image, command) -> (image, delta, result).
//!
//! Pure: no I/O, no clock, no randomness.

use super::command::{CommandResult, MetadataCommand};
use super::image::MetadataImage;
use super::{brokers, configs, producer_ids, reassignments, topics, unclean};

/// What changed, for those who open and close replicas.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MetadataDelta {
    /// Raft groups of partitions that are new.
    pub added_groups: Vec<u64>,
    /// Raft groups of partitions that are gone.
    pub removed_groups: Vec<u64>,
    /// Topics that were made, deleted, or whose partitions or configs changed.
    pub topics_changed: Vec<String>,
}

/// Carries out one command. Refused commands leave the image as it was; so do commands that say
/// what is so already.
pub fn apply(
    image: &MetadataImage,
    command: &MetadataCommand,
) -> (MetadataImage, MetadataDelta, CommandResult) {
    let mut next = image.clone();
    let mut delta = MetadataDelta::default();
    let result = apply_to(&mut next, &mut delta, command);
    if result.is_err() {
        return (image.clone(), MetadataDelta::default(), result);
    }
    if next != *image {
        next.version += 1;
    }
    (next, delta, result)
}

fn apply_to(
    image: &mut MetadataImage,
    delta: &mut MetadataDelta,
    command: &MetadataCommand,
) -> CommandResult {
    match command {
        MetadataCommand::InitCluster { cluster_id } => brokers::init_cluster(image, cluster_id),
        MetadataCommand::RegisterBroker { broker } => brokers::register(image, delta, broker),
        MetadataCommand::UnregisterBroker { broker } => brokers::unregister(image, delta, *broker),
        MetadataCommand::CreateTopic { name, id, assignment, configs } => {
            let new = topics::NewTopic { name, id: *id, assignment, configs };
            topics::create(image, delta, &new)
        }
        MetadataCommand::DeleteTopic { id } => topics::delete(image, delta, *id),
        MetadataCommand::CreatePartitions { topic, added } => {
            topics::add_partitions(image, delta, *topic, added)
        }
        MetadataCommand::AlterPartitionReassignment { topic, partition, target } => {
            reassignments::alter(image, delta, *topic, *partition, target.as_deref())
        }
        MetadataCommand::CompletePartitionReassignment { topic, partition, altered_at } => {
            reassignments::complete(image, delta, *topic, *partition, *altered_at)
        }
        MetadataCommand::ElectUncleanLeader { topic, partition, survivor, epoch, altered_at } => {
            let election = unclean::Election {
                topic: *topic,
                partition: *partition,
                survivor: *survivor,
                epoch: *epoch,
                altered_at: *altered_at,
            };
            unclean::elect(image, delta, &election)
        }
        MetadataCommand::SetTopicConfigs { topic, configs } => {
            configs::set_topic(image, delta, *topic, configs)
        }
        MetadataCommand::SetBrokerConfigs { broker, configs } => {
            configs::set_broker(image, delta, *broker, configs)
        }
        MetadataCommand::SetGroupConfigs { group, configs } => {
            configs::set_group(image, group, configs)
        }
        MetadataCommand::AllocateProducerIds { broker, count } => {
            producer_ids::allocate(image, *broker, *count)
        }
    }
}
