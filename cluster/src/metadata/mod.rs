//! The cluster's metadata: one more log, and the image that replaying it yields.

pub mod apply;
mod brokers;
pub mod command;
mod configs;
pub mod image;
mod producer_ids;
mod reassignments;
#[cfg(test)]
mod tests;
pub mod topic_name;
mod topics;
mod unclean;

pub use apply::{MetadataDelta, apply};
pub use command::{CommandOutcome, CommandResult, MetadataCommand};
pub use image::{BrokerImage, EndpointImage, MetadataImage, PartitionImage, Survivor, TopicImage};
