//! Who is told what a coordinator's log says, record by record, beside the machine that decides.

use std::sync::{Arc, OnceLock};

use protocol::types::PartitionId;

use super::shard::Shard;

/// Where a record comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// It was decided just now. Should its append fail, the shard is unloaded and read back.
    Decided,
    /// It is read back from the log, in the log's order.
    ReadBack,
}

/// Is told of every record that a machine replays. Called from the shards' tasks: must not block.
pub trait Observer<S: Shard>: Send + Sync {
    /// A record was replayed.
    fn on_record(&self, shard: PartitionId, origin: Origin, record: &S::Record);

    /// What was told of the shard counts no more: it is read back from the beginning, or is no
    /// longer this broker's.
    fn on_unloaded(&self, shard: PartitionId);
}

/// The place of a coordinator's observer, which comes after it and stays.
pub(super) type ObserverCell<S> = Arc<OnceLock<Arc<dyn Observer<S>>>>;

/// An observer's view of one shard.
pub(super) struct ObservedShard<S: Shard> {
    observer: ObserverCell<S>,
    shard: PartitionId,
}

impl<S: Shard> Clone for ObservedShard<S> {
    fn clone(&self) -> Self {
        ObservedShard { observer: Arc::clone(&self.observer), shard: self.shard }
    }
}

impl<S: Shard> ObservedShard<S> {
    pub(super) fn new(observer: ObserverCell<S>, shard: PartitionId) -> Self {
        ObservedShard { observer, shard }
    }

    pub(super) fn on_record(&self, origin: Origin, record: &S::Record) {
        if let Some(observer) = self.observer.get() {
            observer.on_record(self.shard, origin, record);
        }
    }

    pub(super) fn on_unloaded(&self) {
        if let Some(observer) = self.observer.get() {
            observer.on_unloaded(self.shard);
        }
    }
}
