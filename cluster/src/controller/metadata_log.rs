//! The metadata log: one Raft group whose entries are metadata commands, and the image that they
//! yield on this broker.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use parking_lot::Mutex;
use protocol::types::{BrokerId, LeaderEpoch};
use storage::StorageError;
use storage::log_store::{Durability, GroupId, GroupLog, LogStore};
use tokio::sync::watch;

use super::directory;
use crate::ClusterError;
use crate::limits::{FORWARD_TIMEOUT, METADATA_SNAPSHOT_ENTRIES};
use crate::metadata::apply::apply;
use crate::metadata::command::CommandOutcome;
use crate::metadata::{CommandResult, MetadataCommand, MetadataImage};
use crate::raft::{
    Applied, DurabilityCell, GroupCommand, GroupOptions, LeaderState, LogStanding, Machine,
    ProposeError, RaftGroup, SnapshotPolicy, Timing, broker_id, may_vote_without_log,
};
use crate::replica::registry::Registry;
use crate::transport::PeerTransport;

/// The metadata log's group.
pub(crate) const METADATA_GROUP: GroupId = GroupId(0);

/// First byte of an encoded command; a later format gets another.
const COMMAND_VERSION: u8 = 1;

/// The image as this broker has applied it.
pub(crate) struct MetadataMachine {
    voters: usize,
    log: GroupLog,
    image: watch::Sender<Arc<MetadataImage>>,
    /// The last term whose leader has committed an entry.
    settled_term: watch::Sender<u64>,
    /// Follows the image once the broker serves; what is replayed at the start passes it by.
    registry: OnceLock<Arc<Registry>>,
    /// Held while the image changes and the registry follows.
    changes: Mutex<()>,
}

impl MetadataMachine {
    fn new(voters: usize, log: GroupLog) -> Self {
        let image = MetadataImage { next_group_id: 1, ..MetadataImage::default() };
        MetadataMachine {
            voters,
            log,
            image: watch::Sender::new(Arc::new(image)),
            settled_term: watch::Sender::new(0),
            registry: OnceLock::new(),
            changes: Mutex::default(),
        }
    }

    fn image_now(&self) -> Arc<MetadataImage> {
        self.image.borrow().clone()
    }

    fn keep_directories(&self, before: &MetadataImage, image: &MetadataImage) {
        if Arc::ptr_eq(&before.brokers, &image.brokers) {
            return;
        }
        if let Err(error) = directory::keep_known(&self.log, image) {
            // The store has stopped, and the broker with it.
            tracing::debug!(%error, "the brokers' directories were not kept");
        }
    }

    fn carry_out(&self, command: &MetadataCommand) -> CommandResult {
        let _changing = self.changes.lock();
        let before = self.image_now();
        let (image, delta, result) = apply(&before, command);
        if image.version != before.version {
            self.keep_directories(&before, &image);
            // Replicas are made before the image is seen, for who sees it may use them, and go
            // after it: who finds one gone sees that the topic is.
            if let Some(registry) = self.registry.get() {
                registry.on_change(&before, &image, &delta);
            }
            self.image.send_replace(Arc::new(image));
            if let Some(registry) = self.registry.get() {
                registry.remove(delta.removed_groups);
                registry.remove_departed(&self.image_now(), &delta.topics_changed);
            }
        }
        result
    }
}

impl Machine for MetadataMachine {
    fn on_committed(&self, _next_offset: protocol::types::Offset) {}

    fn on_leader_entry(&self, term: u64) {
        self.settled_term.send_replace(term);
    }

    fn advance_log_start(
        &self,
        _offset: protocol::types::Offset,
    ) -> Result<protocol::types::Offset, StorageError> {
        Err(StorageError::Corrupt(String::from("the metadata log holds no records")))
    }

    fn apply_metadata(&self, command: &Bytes) -> CommandResult {
        self.carry_out(&decode(command)?)
    }

    fn image(&self) -> Option<Bytes> {
        serde_json::to_vec(&*self.image_now()).ok().map(Bytes::from)
    }

    fn may_vote_without_log(&self) -> bool {
        may_vote_without_log(self.voters)
    }

    fn restore(&self, image: &[u8]) -> Result<(), StorageError> {
        let image: MetadataImage =
            serde_json::from_slice(image).map_err(|e| StorageError::Corrupt(e.to_string()))?;
        let _changing = self.changes.lock();
        let before = self.image_now();
        let removed = &before.groups() - &image.groups();
        self.keep_directories(&before, &image);
        if let Some(registry) = self.registry.get() {
            registry.on_snapshot(&image);
        }
        self.image.send_replace(Arc::new(image));
        if let Some(registry) = self.registry.get() {
            registry.remove(removed);
            let image = self.image_now();
            let topics: Vec<String> = image.topics.keys().cloned().collect();
            registry.remove_departed(&image, &topics);
        }
        Ok(())
    }
}

fn encode(command: &MetadataCommand) -> Result<Bytes, ClusterError> {
    let mut bytes = vec![COMMAND_VERSION];
    serde_json::to_writer(&mut bytes, command).map_err(|e| ClusterError::Storage(e.to_string()))?;
    Ok(bytes.into())
}

fn decode(bytes: &[u8]) -> Result<MetadataCommand, ClusterError> {
    match bytes.split_first() {
        Some((&COMMAND_VERSION, command)) => {
            serde_json::from_slice(command).map_err(|e| ClusterError::Storage(e.to_string()))
        }
        _ => Err(ClusterError::Storage(String::from("a metadata command of an unknown version"))),
    }
}

/// What the metadata log is opened with.
pub(crate) struct MetadataLogOptions {
    pub(crate) node_id: u64,
    pub(crate) voters: Vec<u64>,
    pub(crate) store: LogStore,
    pub(crate) transport: Arc<dyn PeerTransport>,
    pub(crate) timing: Timing,
}

/// The metadata log on this broker.
pub(crate) struct MetadataLog {
    machine: Arc<MetadataMachine>,
    group: RaftGroup,
    store: LogStore,
}

impl MetadataLog {
    pub(crate) async fn open(options: MetadataLogOptions) -> Result<MetadataLog, ClusterError> {
        let log = options.store.group(METADATA_GROUP);
        let machine = Arc::new(MetadataMachine::new(options.voters.len(), log.clone()));
        let single_voter = options.voters == [options.node_id];
        let group = RaftGroup::open(GroupOptions {
            node_id: options.node_id,
            group: METADATA_GROUP,
            is_single: single_voter,
            founders: options.voters,
            if_empty: if single_voter { LogStanding::Whole } else { LogStanding::New },
            log,
            machine: machine.clone(),
            transport: options.transport,
            durability: Arc::new(DurabilityCell::new(Durability::Fsync)),
            resume: false,
            pacing: None,
            timing: options.timing,
            snapshots: SnapshotPolicy::Every(METADATA_SNAPSHOT_ENTRIES),
        })
        .await
        .map_err(storage_error)?;
        let log = MetadataLog { machine, group, store: options.store };
        if single_voter {
            log.wait_until_settled().await?;
        }
        Ok(log)
    }

    /// Waits until this node's election has been committed, and with it all that was before.
    async fn wait_until_settled(&self) -> Result<(), ClusterError> {
        let mut settled = self.machine.settled_term.subscribe();
        let settled = settled.wait_for(|term| *term > 0);
        let stopped = self.group.watch_leader(|_| ());
        tokio::select! {
            biased;
            settled = settled => settled.map(|_| ()).map_err(|_| ClusterError::ShuttingDown),
            () = stopped => Err(self.stopped()),
        }
    }

    fn stopped(&self) -> ClusterError {
        match self.group.failure() {
            Some(error) => storage_error(error),
            None => ClusterError::ShuttingDown,
        }
    }

    /// A small value that the log keeps.
    pub(crate) fn kept(&self, key: &[u8]) -> Result<Option<Bytes>, StorageError> {
        self.store.group(METADATA_GROUP).get_state(key)
    }

    /// From here on replicas follow the image.
    pub(crate) fn attach(&self, registry: Arc<Registry>) {
        let _changing = self.machine.changes.lock();
        registry.open_all(&self.machine.image_now());
        self.machine.registry.set(registry).ok();
    }

    pub(crate) fn image(&self) -> Arc<MetadataImage> {
        self.machine.image_now()
    }

    pub(crate) fn watch(&self) -> watch::Receiver<Arc<MetadataImage>> {
        self.machine.image.subscribe()
    }

    pub(crate) fn group(&self) -> &RaftGroup {
        &self.group
    }

    /// The leader, and its term.
    pub(crate) fn leader(&self) -> (Option<BrokerId>, LeaderEpoch) {
        let LeaderState { term, leader } = self.group.leader_state();
        let epoch = LeaderEpoch(i32::try_from(term).unwrap_or(i32::MAX));
        (leader.and_then(broker_id), epoch)
    }

    /// Proposes a command on the leader, and waits until it is applied here.
    pub(crate) async fn submit(
        &self,
        command: &MetadataCommand,
    ) -> Result<CommandOutcome, ClusterError> {
        if let Some(reason) = self.store.stopped() {
            return Err(ClusterError::Storage(reason));
        }
        let command = GroupCommand::Metadata(encode(command)?);
        match self.group.propose_and_wait(command).await {
            Ok(Applied::Metadata(result)) => result,
            Ok(_) => Err(ClusterError::Storage(String::from("an answer of another kind"))),
            Err(ProposeError::NotLeader | ProposeError::Discarded) => {
                Err(ClusterError::NoController)
            }
            Err(ProposeError::Stopped) => Err(self.stopped()),
        }
    }

    /// Waits until the image here is of that version or a later one.
    pub(crate) async fn wait_for_version(&self, version: u64) -> Result<(), ClusterError> {
        let mut images = self.watch();
        let seen = images.wait_for(|image| image.version >= version);
        match tokio::time::timeout(FORWARD_TIMEOUT, seen).await {
            Ok(seen) => seen.map(|_| ()).map_err(|_| ClusterError::ShuttingDown),
            Err(_) => Err(ClusterError::Undecided),
        }
    }

    pub(crate) async fn close(&self) {
        self.group.close().await;
    }
}

pub(crate) fn storage_error(error: StorageError) -> ClusterError {
    ClusterError::Storage(error.to_string())
}
