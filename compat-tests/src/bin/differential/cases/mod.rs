//! All cases, by what they are about.

use crate::case::Case;

mod api_versions;
mod cluster;
mod configs;
mod consumer_groups;
mod coordinators;
mod fetch;
mod groups;
mod list_offsets;
mod log_ends;
mod metadata;
mod produce;
mod produce_idempotent;
mod replicas;
mod topic_changes;
mod topics;

/// Every case.
pub fn all() -> Vec<Case> {
    [
        api_versions::cases(),
        metadata::cases(),
        cluster::cases(),
        topics::cases(),
        replicas::cases(),
        topic_changes::cases(),
        configs::cases(),
        produce::cases(),
        produce_idempotent::cases(),
        list_offsets::cases(),
        log_ends::cases(),
        fetch::cases(),
        coordinators::cases(),
        groups::cases(),
        consumer_groups::cases(),
    ]
    .into_iter()
    .flatten()
    .collect()
}
