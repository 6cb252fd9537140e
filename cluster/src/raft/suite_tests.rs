//! openraft's own storage suite on the log storage and the state machine.

use std::sync::Arc;

use bytes::Bytes;
use openraft::testing::log::{StoreBuilder, Suite};
use protocol::types::Offset;
use storage::StorageError as StoreError;
use storage::disk::file::FileDisk;
use storage::kv::memory::MemoryKv;
use storage::log_store::{Durability, GroupId, LogStore, LogStoreOptions};

use super::log_storage::{DurabilityCell, LogStorage};
use super::machine::Machine;
use super::state_machine::StateMachine;
use super::type_config::TypeConfig;
use crate::metadata::CommandResult;
use crate::metadata::command::CommandOutcome;

/// A machine whose snapshot is at what is applied, as the suite expects.
struct Image;

impl Machine for Image {
    fn on_committed(&self, _next_offset: Offset) {}
    fn on_leader_entry(&self, _term: u64) {}
    fn advance_log_start(&self, offset: Offset) -> Result<Offset, StoreError> {
        Ok(offset)
    }
    fn apply_metadata(&self, _command: &Bytes) -> CommandResult {
        Ok(CommandOutcome::Done)
    }
    fn image(&self) -> Option<Bytes> {
        Some(Bytes::from_static(b"{}"))
    }
    fn may_vote_without_log(&self) -> bool {
        false
    }

    fn restore(&self, _image: &[u8]) -> Result<(), StoreError> {
        Ok(())
    }
}

struct Builder;

impl StoreBuilder<TypeConfig, LogStorage, StateMachine, tempfile::TempDir> for Builder {
    async fn build(
        &self,
    ) -> Result<(tempfile::TempDir, LogStorage, StateMachine), openraft::StorageError<TypeConfig>>
    {
        let dir = tempfile::tempdir().expect("a directory");
        let disk = Arc::new(FileDisk::open(dir.path()).expect("a disk"));
        let kv = Arc::new(MemoryKv::new());
        let store = LogStore::open(LogStoreOptions::default(), disk, kv).expect("a store");
        let log = store.group(GroupId(1));
        let durability = Arc::new(DurabilityCell::new(Durability::Fsync));
        let storage = LogStorage::new(log.clone(), durability, true, None);
        let machine = StateMachine::open(log, Arc::new(Image), false).await.expect("a machine");
        Ok((dir, storage, machine))
    }
}

#[tokio::test]
async fn openrafts_storage_suite_passes() {
    Suite::test_all(Builder).await.expect("the suite passes");
}
