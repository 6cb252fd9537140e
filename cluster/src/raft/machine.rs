//! `Machine`: what applying a group's log drives, a partition's watermark or the metadata image.

use bytes::Bytes;
use protocol::types::Offset;
use storage::StorageError;

use crate::metadata::CommandResult;

/// What a group's committed entries act upon. Called in log order, one call at a time.
pub(crate) trait Machine: Send + Sync + 'static {
    /// Offsets below are committed.
    fn on_committed(&self, next_offset: Offset);
    /// A leader of `term` has committed its first entry, so everything before it is committed too.
    fn on_leader_entry(&self, term: u64);
    /// Raises the log start offset; answers with what it is now.
    fn advance_log_start(&self, offset: Offset) -> Result<Offset, StorageError>;
    /// Carries out a metadata command.
    fn apply_metadata(&self, command: &Bytes) -> CommandResult;
    /// The whole state, for groups whose snapshots are their state; `None` for a partition, whose
    /// snapshot is anchored at its log start and holds no records.
    fn image(&self) -> Option<Bytes>;
    /// Whether this node may vote although its log is lost.
    fn may_vote_without_log(&self) -> bool;
    /// Replaces the state by what `image` gave once.
    fn restore(&self, image: &[u8]) -> Result<(), StorageError>;
}
