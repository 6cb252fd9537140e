//! What the cluster decides for itself: the metadata log, where partitions go, producer ids.

pub(crate) mod directory;
pub mod elections;
pub(crate) mod failover;
pub(crate) mod forwarding;
pub(crate) mod isolation;
pub(crate) mod members;
pub(crate) mod metadata_log;
pub(crate) mod placement;
pub(crate) mod presence;
pub(crate) mod producer_ids;
pub mod quorum;
pub(crate) mod reassignment;
pub(crate) mod survivors;
pub(crate) mod unclean;
pub(crate) mod view;
