//! The cluster's metadata: one more log, and the image that replaying it yields.
pub mod apply;
pub mod command;
pub mod image;
pub use command::{CommandResult, MetadataCommand};
pub use image::{BrokerImage, EndpointImage, MetadataImage, PartitionImage, TopicImage};
