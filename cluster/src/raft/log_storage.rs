//! openraft's log storage on one group's log: entries, vote, truncation, purge.
//!
//! Entries are handed to the journal's writer and are readable at once; their completion is what
//! the writer calls back. Reading for apply never touches record bytes.

use std::collections::Bound;
use std::fmt::Debug;
use std::io;
use std::ops::{Range, RangeBounds, RangeInclusive};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use futures::{Stream, stream};
use openraft::entry::RaftEntry as _;
use openraft::storage::{IOFlushed, LogState, RaftLogReader, RaftLogStorage};
use openraft::{EntryPayload, OptionalSend};
use parking_lot::Mutex;
use protocol::types::Offset;
use storage::StorageError;
use storage::log_store::{Completion, Durability, Entry, EntryBody, EntryHead, EntryId, GroupLog};
use tokio::sync::oneshot;

use super::command::{AppendObserver, GroupCommand};
use super::membership::MembershipRecord;
use super::snapshot::save_latest_membership;
use super::type_config::{
    LogId, RaftEntry, RaftVote, TypeConfig, entry_id, log_id, raft_vote, stored_vote,
};

/// Bytes of entries that one replication message takes at most (one entry always goes).
const REPLICATION_READ_BYTES: usize = 1024 * 1024;
/// Bytes read at once where opaque entries are wanted.
const OPAQUE_READ_BYTES: usize = 4 * 1024 * 1024;

const KIND_BLANK: u8 = 0;
const KIND_MEMBERSHIP: u8 = 1;
const KIND_ADVANCE_LOG_START: u8 = 2;
const KIND_METADATA: u8 = 3;

/// A group's durability, changed while it runs.
#[derive(Debug)]
pub(crate) struct DurabilityCell(AtomicBool);

impl DurabilityCell {
    pub(crate) fn new(durability: Durability) -> Self {
        DurabilityCell(AtomicBool::new(durability == Durability::Os))
    }

    pub(crate) fn set(&self, durability: Durability) {
        self.0.store(durability == Durability::Os, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> Durability {
        if self.0.load(Ordering::Relaxed) { Durability::Os } else { Durability::Fsync }
    }
}

/// The log storage of one group; clones share what is behind it.
#[derive(Clone)]
pub(super) struct LogStorage {
    log: GroupLog,
    durability: Arc<DurabilityCell>,
    volatile: Arc<Volatile>,
}

/// What is kept in memory only.
struct Volatile {
    /// Whether the stored vote is read as not granted: the log may have lost an unsynced tail
    /// since, so a leader must be elected anew rather than go on in its old term.
    demote_vote: AtomicBool,
    /// Replaying is idempotent, so this need not survive.
    committed: Mutex<Option<LogId>>,
    /// Why the instance stopped, for those whose appends it took along.
    failure: Mutex<Option<StorageError>>,
}

impl LogStorage {
    /// `resume` = this process had the group open before and its log is whole since.
    /// `committed` = what is known to be committed from the start.
    pub(super) fn new(
        log: GroupLog,
        durability: Arc<DurabilityCell>,
        resume: bool,
        committed: Option<LogId>,
    ) -> Self {
        let volatile = Volatile {
            demote_vote: AtomicBool::new(!resume),
            committed: Mutex::new(committed),
            failure: Mutex::new(None),
        };
        LogStorage { log, durability, volatile: Arc::new(volatile) }
    }

    /// The storage error that stopped the group, if one did.
    pub(super) fn failure(&self) -> Option<StorageError> {
        self.volatile.failure.lock().clone()
    }

    pub(super) fn is(&self, other: &LogStorage) -> bool {
        Arc::ptr_eq(&self.volatile, &other.volatile)
    }

    fn fail(&self, error: StorageError) -> io::Error {
        self.volatile.failure.lock().get_or_insert_with(|| error.clone());
        io_error(error)
    }

    /// Entries as applying them needs them: record batches by their offsets only.
    fn light_entries(&self, range: Range<u64>) -> Result<Vec<RaftEntry>, io::Error> {
        let heads = self.log.heads(range).map_err(io_error)?;
        let mut entries = Vec::with_capacity(heads.len());
        let mut position = 0;
        while position < heads.len() {
            let head = &heads[position];
            if head.opaque_kind.is_none() {
                entries.push(stored_entry(head));
                position += 1;
                continue;
            }
            let run = heads[position..].iter().take_while(|h| h.opaque_kind.is_some()).count();
            let until = head.id.index + run as u64;
            let read = self.log.entries(head.id.index..until, OPAQUE_READ_BYTES);
            let read = read.map_err(io_error)?;
            if read.is_empty() {
                return Err(io::Error::other(format!("entry {} cannot be read", head.id.index)));
            }
            position += read.len();
            for entry in read {
                entries.push(raft_entry(entry)?);
            }
        }
        Ok(entries)
    }

    fn clamp(&self, range: &impl RangeBounds<u64>) -> Range<u64> {
        let start = match range.start_bound() {
            Bound::Included(start) => *start,
            Bound::Excluded(start) => start + 1,
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(end) => end + 1,
            Bound::Excluded(end) => *end,
            Bound::Unbounded => u64::MAX,
        };
        let state = self.log.log_state();
        let first = match state.last_purged {
            Some(id) => id.index + 1,
            // Our own logs begin at 0; what openraft's suite writes does not have to.
            None if start == 0 => self.log.term_starts().first().map_or(0, |id| id.index),
            None => 0,
        };
        let behind = state.last.map_or(0, |id| id.index + 1);
        let (start, end) = (start.max(first), end.min(behind));
        start..end.max(start)
    }
}

impl RaftLogReader<TypeConfig> for LogStorage {
    async fn entries_stream<RB>(
        &mut self,
        range: RB,
    ) -> impl Stream<Item = Result<RaftEntry, io::Error>> + OptionalSend
    where
        RB: RangeBounds<u64> + Clone + Debug + OptionalSend,
    {
        let items: Vec<Result<RaftEntry, io::Error>> = match self.light_entries(self.clamp(&range))
        {
            Ok(entries) => entries.into_iter().map(Ok).collect(),
            Err(error) => vec![Err(error)],
        };
        stream::iter(items)
    }

    /// Without record bytes: openraft looks here for log ids and memberships, and replays what is
    /// committed; replication reads through `limited_get_log_entries`.
    async fn try_get_log_entries<RB: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: RB,
    ) -> Result<Vec<RaftEntry>, io::Error> {
        self.light_entries(self.clamp(&range))
    }

    async fn read_vote(&mut self) -> Result<Option<RaftVote>, io::Error> {
        let Some(mut vote) = self.log.log_state().vote else { return Ok(None) };
        if self.volatile.demote_vote.load(Ordering::Relaxed) {
            vote.committed = false;
        }
        Ok(raft_vote(vote))
    }

    async fn limited_get_log_entries(
        &mut self,
        start: u64,
        end: u64,
    ) -> Result<Vec<RaftEntry>, io::Error> {
        let entries = self.log.entries(start..end, REPLICATION_READ_BYTES).map_err(io_error)?;
        entries.into_iter().map(raft_entry).collect()
    }

    async fn get_key_log_ids(
        &mut self,
        range: RangeInclusive<LogId>,
    ) -> Result<Vec<LogId>, io::Error> {
        Ok(key_log_ids(&self.log, range.start(), *range.end()))
    }
}

impl RaftLogStorage<TypeConfig> for LogStorage {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> Result<LogState<TypeConfig>, io::Error> {
        let state = self.log.log_state();
        Ok(LogState {
            last_purged_log_id: state.last_purged.map(log_id),
            last_log_id: state.last.map(log_id),
        })
    }

    async fn get_log_reader(&mut self) -> Self {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &RaftVote) -> Result<(), io::Error> {
        let (done, saved) = waiter();
        self.log.save_vote(stored_vote(vote), done).map_err(|e| self.fail(e))?;
        wait(saved).await.map_err(|e| self.fail(e))?;
        self.volatile.demote_vote.store(false, Ordering::Relaxed);
        Ok(())
    }

    async fn save_committed(&mut self, committed: Option<LogId>) -> Result<(), io::Error> {
        *self.volatile.committed.lock() = committed;
        Ok(())
    }

    async fn read_committed(&mut self) -> Result<Option<LogId>, io::Error> {
        Ok(*self.volatile.committed.lock())
    }

    async fn append<I>(
        &mut self,
        entries: I,
        callback: IOFlushed<TypeConfig>,
    ) -> Result<(), io::Error>
    where
        I: IntoIterator<Item = RaftEntry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let mut first_offset = self.log.offsets().log_end_offset;
        let mut observers: Vec<Arc<dyn AppendObserver>> = Vec::new();
        let mut to_append = Vec::new();
        // A crash between the two must not leave a node that takes itself for the only one and is
        // not: such a change is noted behind its entry, every other one before.
        let mut now_of_one: Option<MembershipRecord> = None;
        for entry in entries {
            let id = entry_id(&entry.log_id);
            if let EntryPayload::Membership(membership) = &entry.payload {
                let record = MembershipRecord::from_raft(membership);
                if record.is_of_one() {
                    now_of_one = Some(record);
                } else {
                    save_latest_membership(&self.log, &record).map_err(|e| self.fail(e))?;
                    now_of_one = None;
                }
            }
            let (body, observer) = stored_body(entry.payload)?;
            if let Some(observer) = observer {
                observer.on_placed(first_offset);
                observers.push(observer);
            }
            first_offset = first_offset.plus(record_count(&body));
            to_append.push(Entry { id, body });
        }
        let written: Option<Completion> = if observers.is_empty() {
            None
        } else {
            let observers = observers.clone();
            Some(Box::new(move |result| {
                for observer in observers {
                    observer.on_written(result.clone());
                }
            }))
        };
        let storage = self.clone();
        let durable: Completion = Box::new(move |result| {
            callback.io_completed(result.map_err(|error| storage.fail(error)));
        });
        self.log
            .append(to_append, self.durability.get(), written, durable)
            .map_err(|error| self.fail(error))?;
        if let Some(record) = now_of_one {
            save_latest_membership(&self.log, &record).map_err(|error| self.fail(error))?;
        }
        for observer in observers {
            observer.on_appended();
        }
        Ok(())
    }

    async fn truncate_after(&mut self, last: Option<LogId>) -> Result<(), io::Error> {
        let (done, truncated) = waiter();
        self.log.truncate_after(last.map(|id| id.index), done).map_err(|e| self.fail(e))?;
        wait(truncated).await.map_err(|e| self.fail(e))
    }

    async fn purge(&mut self, upto: LogId) -> Result<(), io::Error> {
        // Nobody waits for it: a purge that a crash undoes is done again.
        self.log.purge(entry_id(&upto), Box::new(|_| ())).map_err(|e| self.fail(e))
    }
}

/// A completion, and what it completes.
pub(crate) fn waiter() -> (Completion, oneshot::Receiver<Result<(), StorageError>>) {
    let (sender, receiver) = oneshot::channel();
    let done: Completion = Box::new(move |result| {
        sender.send(result).ok();
    });
    (done, receiver)
}

/// Waits for a completion; one that was dropped means that the store has stopped.
pub(crate) async fn wait(
    done: oneshot::Receiver<Result<(), StorageError>>,
) -> Result<(), StorageError> {
    done.await.unwrap_or_else(|_| Err(StorageError::Stopped("a write was dropped".into())))
}

pub(super) fn io_error(error: StorageError) -> io::Error {
    io::Error::other(error)
}

fn record_count(body: &EntryBody) -> i64 {
    match body {
        EntryBody::Batches(batches) => {
            batches.iter().map(|batch| i64::from(batch.header().last_offset_delta) + 1).sum()
        }
        EntryBody::Opaque { .. } => 0,
    }
}

/// A membership as the log holds it.
pub(super) fn membership_body(record: &MembershipRecord) -> Result<EntryBody, StorageError> {
    let bytes = serde_json::to_vec(record).map_err(|e| StorageError::Corrupt(e.to_string()))?;
    Ok(EntryBody::Opaque { kind: KIND_MEMBERSHIP, bytes: bytes.into() })
}

type StoredBody = (EntryBody, Option<Arc<dyn AppendObserver>>);

fn stored_body(payload: EntryPayload<GroupCommand, u64, ()>) -> Result<StoredBody, io::Error> {
    let opaque = |kind, bytes| Ok((EntryBody::Opaque { kind, bytes }, None));
    match payload {
        EntryPayload::Blank => opaque(KIND_BLANK, Bytes::new()),
        EntryPayload::Membership(membership) => {
            let record = MembershipRecord::from_raft(&membership);
            Ok((membership_body(&record).map_err(io_error)?, None))
        }
        EntryPayload::Normal(GroupCommand::Batches { batches, observer }) => {
            Ok((EntryBody::Batches(batches), observer))
        }
        EntryPayload::Normal(GroupCommand::AdvanceLogStart { offset }) => {
            opaque(KIND_ADVANCE_LOG_START, Bytes::copy_from_slice(&offset.0.to_be_bytes()))
        }
        EntryPayload::Normal(GroupCommand::Metadata(bytes)) => opaque(KIND_METADATA, bytes),
        EntryPayload::Normal(GroupCommand::Stored { .. }) => {
            Err(io::Error::other("an entry without its record batches cannot be appended"))
        }
    }
}

fn stored_entry(head: &EntryHead) -> RaftEntry {
    RaftEntry::new_normal(log_id(head.id), GroupCommand::Stored { next_offset: head.next_offset })
}

/// An entry of the log as openraft wants it.
pub(super) fn raft_entry(entry: Entry) -> Result<RaftEntry, io::Error> {
    let payload = match entry.body {
        EntryBody::Batches(batches) => {
            EntryPayload::Normal(GroupCommand::Batches { batches, observer: None })
        }
        EntryBody::Opaque { kind: KIND_BLANK, .. } => EntryPayload::Blank,
        EntryBody::Opaque { kind: KIND_MEMBERSHIP, bytes } => {
            let record: MembershipRecord = serde_json::from_slice(&bytes)?;
            EntryPayload::Membership(record.to_raft())
        }
        EntryBody::Opaque { kind: KIND_ADVANCE_LOG_START, bytes } => {
            let offset = <[u8; 8]>::try_from(&bytes[..])
                .map_err(|_| io::Error::other("a log start entry is not eight bytes"))?;
            let offset = Offset(i64::from_be_bytes(offset));
            EntryPayload::Normal(GroupCommand::AdvanceLogStart { offset })
        }
        EntryBody::Opaque { kind: KIND_METADATA, bytes } => {
            EntryPayload::Normal(GroupCommand::Metadata(bytes))
        }
        EntryBody::Opaque { kind, .. } => {
            return Err(io::Error::other(format!("unknown kind of entry: {kind}")));
        }
    };
    Ok(RaftEntry::new(log_id(entry.id), payload))
}

/// The last entry of each term in `first..=last` (openraft's description speaks of the first ones;
/// its own implementation and suite want the last).
fn key_log_ids(log: &GroupLog, first: &LogId, last: LogId) -> Vec<LogId> {
    let mut keys = Vec::new();
    let mut term = first.leader_id.term;
    for start in log.term_starts() {
        if start.index > first.index && start.index <= last.index && start.term != term {
            keys.push(log_id(EntryId { term, index: start.index - 1 }));
            term = start.term;
        }
    }
    keys.push(last);
    keys
}
