//! What several handlers share.

pub mod config_resource;
pub mod deadline;
pub mod groups;
pub mod isolation;
pub mod leadership;
pub mod nodes;
pub mod operations;
pub mod partition_leader;
pub mod produce_checks;
pub mod produce_rows;
pub mod resolve;
pub mod topic_creation;
pub mod topic_errors;
pub mod voters;
pub mod wire;
