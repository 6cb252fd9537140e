//! (image, command) -> (image, delta, result).
//!
//! Pure: no I/O, no clock, no randomness.
#![allow(missing_docs, unused_variables)]

use super::command::{CommandResult, MetadataCommand};
use super::image::MetadataImage;

/// What changed, for those who open and close replicas.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MetadataDelta {
    pub added_groups: Vec<u64>,
    pub removed_groups: Vec<u64>,
    pub topics_changed: Vec<String>,
}

// CONTRACT (owner: metadata). A refused command leaves the image as it was.
pub fn apply(image: &MetadataImage, command: &MetadataCommand) -> (MetadataImage, MetadataDelta, CommandResult) {
    todo!()
}
