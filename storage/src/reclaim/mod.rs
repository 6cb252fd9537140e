//! Giving disk space back: journal files in which no entry lives are unlinked.
//!
//! Votes and state do not hold a file: once a checkpoint covers them the index has them. But the
//! journal must stay able to rebuild a lost index, so before a file goes, the groups of which it
//! said something beside entries have that written again, in one record each (`GroupHead`).

pub(crate) mod cleaner;
pub(crate) mod plan;
