//! What several handlers share.

pub mod isolation;
pub mod leadership;
pub mod produce_rows;
pub mod resolve;
pub mod topic_errors;
