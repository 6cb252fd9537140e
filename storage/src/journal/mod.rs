//! The journal: one append-only sequence of files for all groups of the broker, and the log that
//! everything else is rebuilt from.

pub(crate) mod file;
pub(crate) mod queue;
pub mod record;
pub(crate) mod recovery;
pub(crate) mod writer;
