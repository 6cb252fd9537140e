//! A group's snapshot and how it is kept.
//!
//! A partition's snapshot is anchored at its log start, not at what is applied: a follower's log
//! is cut up to the snapshot's entry when it installs one, so a snapshot at the applied entry
//! would throw away all records there. It holds what was known as of that entry: the next offset,
//! the producers, the epochs; never records. The metadata group's snapshot is its image.

use bytes::Bytes;
use openraft::alias::SnapshotMetaOf;
use protocol::types::{LeaderEpoch, Offset};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use storage::StorageError;
use storage::log_store::GroupLog;

use super::log_storage::{wait, waiter};
use super::membership::{IdRecord, MembershipRecord, StoredMembershipRecord};
use super::type_config::{LogId, StoredMembership, TypeConfig, entry_id, log_id};

const SNAPSHOT_KEY: &[u8] = b"snapshot";
const MEMBERSHIPS_KEY: &[u8] = b"memberships";
const LATEST_MEMBERSHIP_KEY: &[u8] = b"latest membership";

type Saved = tokio::sync::oneshot::Receiver<Result<(), StorageError>>;

pub(super) type SnapshotMeta = SnapshotMetaOf<TypeConfig>;

/// A snapshot, its meta data and its content.
#[derive(Clone)]
pub(super) struct Snapshot {
    pub(super) meta: SnapshotMeta,
    pub(super) data: Bytes,
}

#[derive(Serialize, Deserialize)]
struct MetaRecord {
    last: Option<IdRecord>,
    membership: StoredMembershipRecord,
}

/// What a partition's snapshot says, but for the producers' state behind it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PartitionSnapshot {
    pub(super) next_offset: Offset,
    pub(super) log_start_offset: Offset,
    pub(super) epochs: Vec<(LeaderEpoch, Offset)>,
}

/// Puts a JSON value before raw bytes.
pub(super) fn frame<T: Serialize>(head: &T, tail: &[u8]) -> Result<Bytes, StorageError> {
    let head = serde_json::to_vec(head).map_err(corrupt)?;
    let head_len = u32::try_from(head.len()).map_err(corrupt)?;
    let mut framed = Vec::with_capacity(4 + head.len() + tail.len());
    framed.extend_from_slice(&head_len.to_be_bytes());
    framed.extend_from_slice(&head);
    framed.extend_from_slice(tail);
    Ok(framed.into())
}

/// Takes apart what `frame` put together.
pub(super) fn unframe<T: DeserializeOwned>(framed: &Bytes) -> Result<(T, Bytes), StorageError> {
    let cut_short = || StorageError::Corrupt("a snapshot is cut short".into());
    let head_len = framed.first_chunk::<4>().ok_or_else(cut_short)?;
    let end = 4 + u32::from_be_bytes(*head_len) as usize;
    let head = framed.get(4..end).ok_or_else(cut_short)?;
    Ok((serde_json::from_slice(head).map_err(corrupt)?, framed.slice(end..)))
}

fn corrupt(error: impl std::fmt::Display) -> StorageError {
    StorageError::Corrupt(error.to_string())
}

impl Snapshot {
    pub(super) fn load(log: &GroupLog) -> Result<Option<Snapshot>, StorageError> {
        let Some(framed) = log.get_state(SNAPSHOT_KEY)? else { return Ok(None) };
        let (meta, data) = unframe::<MetaRecord>(&framed)?;
        let meta = SnapshotMeta {
            last_log_id: meta.last.map(IdRecord::to_log_id),
            last_membership: meta.membership.to_raft(),
        };
        Ok(Some(Snapshot { meta, data }))
    }

    fn encode(&self) -> Result<Bytes, StorageError> {
        let record = MetaRecord {
            last: self.meta.last_log_id.as_ref().map(IdRecord::from_log_id),
            membership: StoredMembershipRecord::from_raft(&self.meta.last_membership),
        };
        frame(&record, &self.data)
    }

    /// Queues it for the journal; resolves once it is durable.
    pub(super) fn begin_save(&self, log: &GroupLog) -> Result<Saved, StorageError> {
        let (done, saved) = waiter();
        log.put_state(SNAPSHOT_KEY, self.encode()?, done)?;
        Ok(saved)
    }

    /// Returns once it is durable.
    pub(super) async fn save(&self, log: &GroupLog) -> Result<(), StorageError> {
        wait(self.begin_save(log)?).await
    }
}

/// The entry that a partition's snapshot is anchored at: the last one that lies wholly below the
/// log start, so that purging up to it drops no record that may be read.
pub(super) fn anchor(log: &GroupLog) -> Result<Option<LogId>, StorageError> {
    let below = log.last_entry_below(log.offsets().log_start_offset)?;
    let purged = log.log_state().last_purged;
    Ok(below.max(purged).map(log_id))
}

/// The content of a partition's snapshot at `anchor`.
pub(super) fn partition_data(
    log: &GroupLog,
    anchor: Option<&LogId>,
) -> Result<Bytes, StorageError> {
    let log_start_offset = log.offsets().log_start_offset;
    let Some(anchor) = anchor else {
        let nothing =
            PartitionSnapshot { next_offset: Offset::ZERO, log_start_offset, epochs: Vec::new() };
        return frame(&nothing, &[]);
    };
    let index = entry_id(anchor).index;
    match log.heads(index..index + 1) {
        Ok(heads) if !heads.is_empty() => {
            let next_offset = heads[0].next_offset;
            let producers = log.producer_snapshot_at(index)?;
            let epochs = log.epochs().into_iter().filter(|(_, start)| *start < next_offset);
            let epochs = epochs.collect();
            frame(&PartitionSnapshot { next_offset, log_start_offset, epochs }, &producers)
        }
        // Purged already, so a snapshot says what was known as of that entry.
        Ok(_) | Err(StorageError::Purged { .. }) => {
            let stored =
                Snapshot::load(log)?.filter(|s| s.meta.last_log_id.as_ref() == Some(anchor));
            let missing = || StorageError::Corrupt(format!("no snapshot stands for entry {index}"));
            let (known, producers) =
                unframe::<PartitionSnapshot>(&stored.ok_or_else(missing)?.data)?;
            frame(&PartitionSnapshot { log_start_offset, ..known }, &producers)
        }
        Err(error) => Err(error),
    }
}

/// Remembers the memberships and the entries that set them; durable with the next sync.
pub(super) fn save_memberships(
    log: &GroupLog,
    memberships: &[StoredMembership],
) -> Result<(), StorageError> {
    let records: Vec<_> = memberships.iter().map(StoredMembershipRecord::from_raft).collect();
    let records = serde_json::to_vec(&records).map_err(corrupt)?;
    log.put_state(MEMBERSHIPS_KEY, records.into(), Box::new(|_| ()))
}

/// Remembers the members that an entry sets: whoever opens the log later must not take itself for
/// the only one where it is not.
pub(super) fn save_latest_membership(
    log: &GroupLog,
    membership: &MembershipRecord,
) -> Result<(), StorageError> {
    let record = serde_json::to_vec(membership).map_err(corrupt)?;
    log.put_state(LATEST_MEMBERSHIP_KEY, record.into(), Box::new(|_| ()))
}

/// Whether a node is the only voter of a group by its log, or the log is empty.
pub(crate) fn votes_alone(log: &GroupLog, node_id: u64) -> bool {
    if log.log_state().last.is_none() {
        return true;
    }
    let latest = || -> Result<bool, StorageError> {
        if let Some(record) = log.get_state(LATEST_MEMBERSHIP_KEY)? {
            let record: MembershipRecord = serde_json::from_slice(&record).map_err(corrupt)?;
            return Ok(record.votes_alone(node_id));
        }
        let memberships = load_memberships(log)?;
        Ok(memberships.last().is_none_or(|last| last.voter_ids().eq([node_id])))
    };
    // What cannot be read is found out by the group's own means.
    latest().unwrap_or(false)
}

pub(super) fn load_memberships(log: &GroupLog) -> Result<Vec<StoredMembership>, StorageError> {
    let Some(bytes) = log.get_state(MEMBERSHIPS_KEY)? else { return Ok(Vec::new()) };
    let records: Vec<StoredMembershipRecord> = serde_json::from_slice(&bytes).map_err(corrupt)?;
    Ok(records.iter().map(StoredMembershipRecord::to_raft).collect())
}

/// Lets go of the entries below the log start of a partition whose instance is not open: the
/// snapshot that stands for them goes to the journal before the purge does.
pub(crate) fn purge_dormant(log: &GroupLog) -> Result<(), StorageError> {
    let Some(last_log_id) = anchor(log)? else { return Ok(()) };
    if log.log_state().last_purged >= Some(entry_id(&last_log_id)) {
        return Ok(());
    }
    let memberships = load_memberships(log)?;
    let in_force = memberships.iter().rfind(|m| m.log_id().as_ref() <= Some(&last_log_id));
    let snapshot = Snapshot {
        data: partition_data(log, Some(&last_log_id))?,
        meta: SnapshotMeta {
            last_log_id: Some(last_log_id),
            last_membership: in_force.cloned().unwrap_or_default(),
        },
    };
    log.put_state(SNAPSHOT_KEY, snapshot.encode()?, Box::new(|_| ()))?;
    log.purge(entry_id(&last_log_id), Box::new(|_| ()))
}
