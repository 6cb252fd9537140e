//! What a Raft entry carries, what applying it answers, and why a proposal fails.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use protocol::record_batch::RecordBatch;
use protocol::types::Offset;
use storage::StorageError;

use crate::metadata::CommandResult;

/// Told what became of a proposal's record batches on the leader, before they are committed.
pub(crate) trait AppendObserver: Send + Sync + 'static {
    /// They get this place in the log: the first record's offset.
    fn on_placed(&self, first_offset: Offset);
    /// They are in the log, and readable.
    fn on_appended(&self);
    /// The operating system has them, or the write failed. Called from the journal's writer.
    fn on_written(&self, result: Result<(), StorageError>);
}

/// The payload of an entry, of a partition's group or of the metadata group.
#[derive(Clone)]
pub(crate) enum GroupCommand {
    /// Record batches to append.
    Batches {
        /// In order; the store assigns their offsets.
        batches: Vec<RecordBatch>,
        /// Only on the node that proposed them.
        observer: Option<Arc<dyn AppendObserver>>,
    },
    /// Record batches that lie in the log: all that applying them needs.
    Stored {
        /// The offset behind them.
        next_offset: Offset,
    },
    /// Raises the log start offset.
    AdvanceLogStart {
        /// The new first offset.
        offset: Offset,
    },
    /// A metadata command, encoded.
    Metadata(Bytes),
}

impl fmt::Debug for GroupCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for GroupCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GroupCommand::Batches { batches, .. } => write!(f, "{} batches", batches.len()),
            GroupCommand::Stored { next_offset } => write!(f, "batches up to {next_offset}"),
            GroupCommand::AdvanceLogStart { offset } => write!(f, "log start {offset}"),
            GroupCommand::Metadata(bytes) => write!(f, "metadata, {} bytes", bytes.len()),
        }
    }
}

/// What applying an entry says back to its proposer.
#[derive(Debug, Clone)]
pub(crate) enum Applied {
    /// Blank and membership entries.
    Nothing,
    /// Record batches: they are committed.
    Batches,
    /// The log start offset as it is now.
    LogStart(Result<Offset, StorageError>),
    /// The metadata command's answer.
    Metadata(CommandResult),
}

/// Why a proposal was not carried out, or not known to be.
#[derive(Debug, Clone)]
pub(crate) enum ProposeError {
    /// Refused before it was appended.
    NotLeader,
    /// It was appended, then dropped for another leader's log; it may yet be committed there.
    Discarded,
    /// The group's Raft instance has stopped.
    Stopped,
}
