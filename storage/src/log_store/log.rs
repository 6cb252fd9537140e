//! One group's log: what changes it, and what is known of it without reading.

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::MutexGuard;
use protocol::types::{LeaderEpoch, Offset, Timestamp};

use super::open::Handle;
use super::shared::Shared;
use super::state::{Group, GroupState};
use super::{
    Completion, Durability, Entry, EntryBody, EntryId, GroupId, LogOffsets, LogState, Vote,
};
use crate::StorageError;
use crate::index::epochs::{TermStart, TermTable};
use crate::index::rows::Mark;
use crate::journal::queue::{AppendItem, ControlItem, Item};
use crate::journal::record::{
    Payload, PurgePoint, RecordHeader, log_start_record, state_record, truncate_record, vote_record,
};
use crate::kv::ColumnFamily;
use crate::producer_state::ProducerState;

/// One group's log; a cheap handle.
#[derive(Clone)]
pub struct GroupLog {
    pub(super) handle: Arc<Handle>,
    pub(super) group: Arc<Group>,
}

impl std::fmt::Debug for GroupLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("GroupLog").field(&self.group.id.0).finish()
    }
}

/// A record to queue, and how.
struct Control {
    record: (RecordHeader, Bytes),
    payload: Payload,
    sync: bool,
    overlay: u64,
}

/// Bytes of the payloads. What may not be queued is refused here, before the group is locked and
/// anything of it has changed.
fn checked_payload_bytes(entries: &[Entry]) -> u64 {
    let mut total = 0;
    for (at, entry) in entries.iter().enumerate() {
        let follows = entry.id.index == entries[0].id.index + at as u64;
        assert!(follows, "entry {} does not follow on the one before it", entry.id.index);
        let bytes = match &entry.body {
            EntryBody::Batches(batches) => {
                let whole = batches.iter().all(|batch| batch.header().last_offset_delta >= 0);
                assert!(whole, "a batch of entry {} takes no offsets", entry.id.index);
                batches.iter().map(|batch| batch.size_in_bytes()).sum::<usize>()
            }
            EntryBody::Opaque { kind, bytes } => {
                assert!(*kind < 16, "an opaque kind is below 16");
                bytes.len()
            }
        };
        let fits = bytes <= crate::limits::RECORD_PAYLOAD_BYTES as usize;
        assert!(fits, "entry {} is too large", entry.id.index);
        total += bytes as u64;
    }
    total
}

impl GroupLog {
    pub(super) fn shared(&self) -> &Shared {
        &self.handle.shared
    }

    fn lock(&self) -> Result<MutexGuard<'_, GroupState>, StorageError> {
        self.shared().check_stopped()?;
        self.group.lock_alive()
    }

    /// Queues a record. Called with the group locked, so that the queue's order is the group's.
    fn queue(&self, control: Control, done: Option<Completion>) {
        let Control { record: (header, bytes), payload, sync, overlay } = control;
        self.shared().push(Item::Control(ControlItem {
            group: self.group.clone(),
            header,
            bytes,
            payload,
            overlay,
            sync,
            done,
        }));
    }

    /// Which group it is.
    #[must_use]
    pub fn id(&self) -> GroupId {
        self.group.id
    }

    /// Queues entries. They are readable when this returns (before they are durable). `written` is
    /// called when the operating system has the bytes, `durable` when `durability` is met.
    /// Indexes must follow on from the last one. Waits while the queue is at its bound.
    ///
    /// # Errors
    /// `NoSpace`, `Stopped` or `GroupGone`: nothing was taken in, and nothing is called.
    ///
    /// # Panics
    /// If an index does not follow on from the one before it, or an entry is none that may be.
    pub fn append(
        &self,
        entries: Vec<Entry>,
        durability: Durability,
        written: Option<Completion>,
        durable: Completion,
    ) -> Result<(), StorageError> {
        let shared = self.shared();
        shared.check_stopped()?;
        let bytes = checked_payload_bytes(&entries);
        // Metadata commands (deletions above all), memberships and blank entries are small, and
        // live in the reserve.
        if entries.iter().any(|entry| matches!(entry.body, EntryBody::Batches(_))) {
            shared.space.admit(&*shared.disk, bytes)?;
        }
        if matches!(shared.options.writer, super::WriterMode::Thread) {
            shared.queue.wait_for_room();
        }
        let mut state = self.lock()?;
        let entries = state.append(entries);
        let generation = self.group.generation();
        shared.stats.payload_bytes.fetch_add(bytes, std::sync::atomic::Ordering::Relaxed);
        shared.push(Item::Append(AppendItem {
            group: self.group.clone(),
            entries,
            generation,
            durability,
            written,
            durable,
        }));
        Ok(())
    }

    /// Drops every entry behind `index`; offsets go back with it. `None` drops all that are left.
    ///
    /// # Errors
    /// `Stopped`, `GroupGone`, or what the index answers.
    pub fn truncate_after(&self, index: Option<u64>, done: Completion) -> Result<(), StorageError> {
        let mut state = self.lock()?;
        let gone = state.row.last_index().filter(|last| index.is_none_or(|index| index < *last));
        if gone.is_some() {
            let kept = index.filter(|index| *index >= state.row.first_index);
            let mark = match kept {
                Some(index) => self.group.mark_at(&state, &*self.shared().kv, index)?,
                None => state.row.start,
            };
            state.truncate(mark);
        }
        let record = truncate_record(self.group.id.0, index);
        let payload = Payload::Truncate(index);
        self.queue(Control { record, payload, sync: true, overlay: 0 }, Some(done));
        Ok(())
    }

    /// Drops every entry up to `id`, inclusive. The log start offset moves at least behind them.
    ///
    /// # Errors
    /// `Stopped`, `GroupGone`, or what the index answers.
    pub fn purge(&self, id: EntryId, done: Completion) -> Result<(), StorageError> {
        let mut state = self.lock()?;
        if state.row.start.id.is_some_and(|start| start.index >= id.index) {
            drop(state);
            done(Ok(()));
            return Ok(());
        }
        let kv = &*self.shared().kv;
        let end = state.row.end;
        let mark = match end.id {
            Some(last) if id.index < last.index && id.index >= state.row.first_index => {
                self.group.mark_at(&state, kv, id.index)?
            }
            _ => Mark { id: Some(id), ..end },
        };
        let producers = self.group.producers_at(&state, kv, id.index)?;
        let terms = state.row.terms.up_to(id.index);
        let point = purge_point(id, mark, terms, &producers);
        state.purge(Mark { id: Some(id), ..mark });
        let overlay = state.put_start_producers(id, point.producers.clone());
        let record = point.record(self.group.id.0);
        let payload = Payload::Purge(point);
        self.queue(Control { record, payload, sync: false, overlay }, Some(done));
        Ok(())
    }

    /// Saves the vote, always synced.
    ///
    /// # Errors
    /// `Stopped` or `GroupGone`.
    pub fn save_vote(&self, vote: Vote, done: Completion) -> Result<(), StorageError> {
        let mut state = self.lock()?;
        state.row.vote = Some(vote);
        state.exists = true;
        let record = vote_record(self.group.id.0, vote);
        let payload = Payload::Vote(vote);
        self.queue(Control { record, payload, sync: true, overlay: 0 }, Some(done));
        Ok(())
    }

    /// A small durable value of this group (snapshot metadata, membership, ...), through the
    /// journal. It can be read when this returns.
    ///
    /// # Errors
    /// `Stopped` or `GroupGone`.
    pub fn put_state(
        &self,
        key: &[u8],
        value: Bytes,
        done: Completion,
    ) -> Result<(), StorageError> {
        let mut state = self.lock()?;
        let record = state_record(self.group.id.0, key, &value);
        let payload = Payload::State(key.to_vec(), value.to_vec());
        let overlay = state.put_overlay(key, value);
        self.queue(Control { record, payload, sync: true, overlay }, Some(done));
        Ok(())
    }

    /// The last value of the key.
    ///
    /// # Errors
    /// What the index answers.
    pub fn get_state(&self, key: &[u8]) -> Result<Option<Bytes>, StorageError> {
        if let Some(value) = self.group.lock_alive()?.overlay(key) {
            return Ok(Some(value));
        }
        let key = crate::index::state_key(self.group.id.0, key);
        Ok(self.shared().kv.get(ColumnFamily::State, &key)?.map(Bytes::from))
    }

    /// Raises the log start offset (also to within an entry); never lowers it.
    ///
    /// # Errors
    /// `Stopped`, `GroupGone`, or `OffsetOutOfRange` beyond the log's end.
    pub fn set_log_start_offset(
        &self,
        offset: Offset,
        done: Completion,
    ) -> Result<(), StorageError> {
        let mut state = self.lock()?;
        if offset.0 > state.row.end.next_offset {
            return Err(out_of_range(offset, &state));
        }
        if offset.0 <= state.row.log_start {
            drop(state);
            done(Ok(()));
            return Ok(());
        }
        state.row.log_start = offset.0;
        let record = log_start_record(self.group.id.0, offset.0);
        let payload = Payload::LogStart(offset.0);
        self.queue(Control { record, payload, sync: true, overlay: 0 }, Some(done));
        Ok(())
    }

    /// Replaces the log by nothing up to `id` (snapshot install): the next entry follows `id`,
    /// offsets continue at `next_offset`.
    ///
    /// # Errors
    /// `Stopped`, `GroupGone`, or `Corrupt` for producers that do not decode.
    pub fn install_snapshot(
        &self,
        id: EntryId,
        next_offset: Offset,
        producers: Bytes,
        epochs: Vec<(LeaderEpoch, Offset)>,
        done: Completion,
    ) -> Result<(), StorageError> {
        let state_of_producers = match producers.is_empty() {
            true => ProducerState::default(),
            false => ProducerState::decode(&producers)?,
        };
        let mut state = self.lock()?;
        let starts = epochs.into_iter().map(|(epoch, offset)| TermStart {
            term: u64::try_from(epoch.0).unwrap_or(0),
            index: id.index,
            offset: offset.0,
        });
        let point = PurgePoint {
            id,
            reset: true,
            next_offset: next_offset.0,
            max_timestamp: state.row.end.max_timestamp,
            terms: TermTable::from_starts(starts.collect()),
            producers,
        };
        state.recent.clear();
        state.row.on_reset(&point);
        state.on_entries_gone();
        state.set_producers(state_of_producers);
        let overlay = state.put_start_producers(id, point.producers.clone());
        let record = point.record(self.group.id.0);
        let payload = Payload::Purge(point);
        self.queue(Control { record, payload, sync: true, overlay }, Some(done));
        Ok(())
    }

    pub(super) fn remove(&self, done: Completion) {
        let mut state = self.group.lock();
        if state.removed || !state.exists {
            state.removed = true;
            drop(state);
            return done(Ok(()));
        }
        state.removed = true;
        state.recent.clear();
        state.on_entries_gone();
        self.handle.queue_removal(&self.group, done);
    }

    /// The ends of the Raft log, and the vote.
    #[must_use]
    pub fn log_state(&self) -> LogState {
        let state = self.group.lock();
        let row = &state.row;
        LogState { last_purged: row.start.id, last: row.end.id, vote: row.vote }
    }

    /// The ends of the partition's offsets.
    #[must_use]
    pub fn offsets(&self) -> LogOffsets {
        let state = self.group.lock();
        LogOffsets {
            log_start_offset: Offset(state.row.log_start),
            log_end_offset: Offset(state.row.end.next_offset),
        }
    }

    /// Bytes of the entries that are not purged.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.group.lock().row.payload_bytes()
    }

    /// The first entry of each term that is in the log, oldest first, and the last entry: what
    /// openraft wants to know of a log without searching it.
    #[must_use]
    pub fn term_starts(&self) -> Vec<EntryId> {
        let state = self.group.lock();
        let row = &state.row;
        let Some(last) = row.last_index() else { return Vec::new() };
        let in_log = row.terms.starts().iter();
        let mut ids: Vec<EntryId> = in_log
            .map(|start| EntryId { term: start.term, index: start.index.max(row.first_index) })
            .filter(|id| id.index <= last && row.terms.term_at(id.index) == Some(id.term))
            .collect();
        ids.extend(row.end.id.filter(|end| ids.last() != Some(end)));
        ids
    }

    /// The leader epochs and where each begins, oldest first, as a snapshot carries them.
    #[must_use]
    pub fn epochs(&self) -> Vec<(LeaderEpoch, Offset)> {
        let state = self.group.lock();
        let epochs = state.row.terms.epochs(state.row.log_start);
        epochs.map(|(epoch, offset)| (LeaderEpoch(epoch), Offset(offset))).collect()
    }

    /// KIP-320: the largest epoch <= `epoch`, and the start offset of the next one or the log end
    /// (`LeaderEpochFileCache.endOffsetFor`); `None` = unknown (-1, -1).
    #[must_use]
    pub fn end_offset_for_epoch(&self, epoch: LeaderEpoch) -> Option<(LeaderEpoch, Offset)> {
        let state = self.group.lock();
        let row = &state.row;
        let found = row.terms.end_offset_for(epoch.0, row.log_start, row.end.next_offset);
        found.map(|(epoch, offset)| (LeaderEpoch(epoch), Offset(offset)))
    }

    /// The newest epoch that the log knows, be it of a blank entry only.
    #[must_use]
    pub fn latest_epoch(&self) -> Option<LeaderEpoch> {
        self.group.lock().row.terms.latest_epoch().map(LeaderEpoch)
    }

    /// Epoch of the batch at `offset`.
    #[must_use]
    pub fn epoch_for_offset(&self, offset: Offset) -> Option<LeaderEpoch> {
        self.group.lock().row.terms.epoch_for_offset(offset.0).map(LeaderEpoch)
    }

    /// The leader's view of the producers: a copy, as of the last appended entry.
    ///
    /// # Errors
    /// What the index answers.
    pub fn producer_state(&self) -> Result<ProducerState, StorageError> {
        let mut state = self.group.lock_alive()?;
        self.group.producers(&mut state, &*self.shared().kv).cloned()
    }

    /// Forgets producers whose last batch is older than `expiration_ms`.
    ///
    /// # Errors
    /// What the index answers.
    pub fn expire_producers(&self, now: Timestamp, expiration_ms: i64) -> Result<(), StorageError> {
        let mut state = self.group.lock_alive()?;
        self.group.producers(&mut state, &*self.shared().kv)?.expire(now, expiration_ms);
        Ok(())
    }

    /// Serialised producer state as of entry `index`, for a snapshot.
    ///
    /// # Errors
    /// What the index answers.
    pub fn producer_snapshot_at(&self, index: u64) -> Result<Bytes, StorageError> {
        let state = self.group.lock_alive()?;
        Ok(self.group.producers_at(&state, &*self.shared().kv, index)?.encode())
    }
}

fn purge_point(id: EntryId, mark: Mark, terms: TermTable, producers: &ProducerState) -> PurgePoint {
    PurgePoint {
        id,
        reset: false,
        next_offset: mark.next_offset,
        max_timestamp: mark.max_timestamp,
        terms,
        producers: if producers.is_empty() { Bytes::new() } else { producers.encode() },
    }
}

pub(super) fn out_of_range(offset: Offset, state: &GroupState) -> StorageError {
    StorageError::OffsetOutOfRange {
        requested: offset.0,
        log_start_offset: state.row.log_start,
        log_end_offset: state.row.end.next_offset,
    }
}
