//! Makes one node the only member of a group by its own log, when the others are gone for good and
//! the metadata log has decided so.
//!
//! What the log holds stays, and an entry behind it says who the members are: as it is the latest
//! one, Raft goes by it, and commits it, with all before it, in the term that begins then. The node
//! gets a number that it has never had, so that none of the former members can reach it.

use bytes::Bytes;
use storage::StorageError;
use storage::log_store::{Durability, Entry, EntryBody, EntryId, GroupLog, Vote};

use super::log_storage::{membership_body, wait, waiter};
use super::membership::MembershipRecord;
use super::snapshot::save_latest_membership;
use super::standing::{LogStanding, STANDING_KEY};
use super::type_config::Membership;

/// As which node the log's owner was made the only member last.
const FORCED_KEY: &[u8] = b"forced";

/// Makes `node_id` the only member, from a term above `term` and above all that the log knows of;
/// `false` where that was done before. A crash on the way leaves a log in which it is done again.
pub(crate) async fn force_membership(
    log: &GroupLog,
    node_id: u64,
    term: u64,
) -> Result<bool, StorageError> {
    // Not told by the members that the log sets: this one may have been let go since.
    let mark = Bytes::copy_from_slice(&node_id.to_be_bytes());
    if log.get_state(FORCED_KEY)?.is_some_and(|forced| forced == mark) {
        return Ok(false);
    }
    let state = log.log_state();
    let known = state.vote.map_or(0, |vote| vote.term).max(state.last.map_or(0, |id| id.term));
    let term = term.max(known) + 1;
    let (done, saved) = waiter();
    log.save_vote(Vote { term, node_id: Some(node_id), committed: false }, done)?;
    wait(saved).await?;
    let index = state.last.or(state.last_purged).map_or(0, |id| id.index + 1);
    let only = Membership::new_with_defaults(vec![[node_id].into()], [node_id]);
    let record = MembershipRecord::from_raft(&only);
    let body: EntryBody = membership_body(&record)?;
    let (done, appended) = waiter();
    let entry = Entry { id: EntryId { term, index }, body };
    log.append(vec![entry], Durability::Fsync, None, done)?;
    wait(appended).await?;
    save_latest_membership(log, &record)?;
    // It is decided that this log counts, whatever it may lack.
    log.put_state(STANDING_KEY, LogStanding::Whole.to_bytes(), Box::new(|_| ()))?;
    let (done, marked) = waiter();
    log.put_state(FORCED_KEY, mark, done)?;
    wait(marked).await?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use storage::disk::file::FileDisk;
    use storage::kv::memory::MemoryKv;
    use storage::log_store::{GroupId, LogStore, LogStoreOptions};

    use super::super::snapshot::votes_alone;
    use super::*;

    const OLD: u64 = 2;
    const NEW: u64 = (9 << 32) | 2;

    async fn append(log: &GroupLog, term: u64, index: u64, voters: &[u64]) {
        let set = voters.iter().copied().collect();
        let members = Membership::new_with_defaults(vec![set], voters.iter().copied());
        let record = MembershipRecord::from_raft(&members);
        let entry =
            Entry { id: EntryId { term, index }, body: membership_body(&record).expect("encoded") };
        let (done, appended) = waiter();
        log.append(vec![entry], Durability::Fsync, None, done).expect("queued");
        wait(appended).await.expect("appended");
        save_latest_membership(log, &record).expect("queued");
    }

    #[tokio::test]
    async fn it_is_done_once_for_each_election() {
        let dir = tempfile::tempdir().expect("a directory");
        let disk = Arc::new(FileDisk::open(dir.path()).expect("a disk"));
        let kv = Arc::new(MemoryKv::new());
        let store = LogStore::open(LogStoreOptions::default(), disk, kv).expect("a store");
        let log = store.group(GroupId(1));
        append(&log, 5, 0, &[1, OLD]).await;
        assert!(force_membership(&log, NEW, 1_000).await.expect("done"));
        assert!(votes_alone(&log, NEW) && !votes_alone(&log, OLD));
        let last = log.log_state().last.expect("an entry");
        assert_eq!(last, EntryId { term: 1_001, index: 1 });
        let vote = log.log_state().vote.expect("a vote");
        assert_eq!((vote.term, vote.node_id, vote.committed), (1_001, Some(NEW), false));
        // Who was let go since must not take itself for the only one again.
        append(&log, 1_002, 2, &[1, 3]).await;
        assert!(!force_membership(&log, NEW, 1_000).await.expect("looked"));
        assert_eq!(log.log_state().last.expect("an entry").index, 2);
        // A later election finds the log in a later term than it was told of.
        assert!(force_membership(&log, NEW + (1 << 32), 1_000).await.expect("done"));
        assert_eq!(log.log_state().last.expect("an entry"), EntryId { term: 1_003, index: 3 });
    }
}
