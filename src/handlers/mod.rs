//! One file per API, and the table of them: dispatch, ApiVersions, metrics and the documents read
//! it, so that what is advertised is what is implemented.
//!
//! A handler's file has `pub const SPEC: ApiSpec` and
//! `pub async fn handle(&Arc<Services>, &RequestContext, XxxRequest) -> Reply`; its row in
//! [`TABLE`] is all that is needed for it to be served, advertised, measured and documented.

use std::sync::Arc;

use futures::future::BoxFuture;
use kafka_protocol::messages::{RequestKind, ResponseKind};
use protocol::ApiSpec;
use storage::log_store::RecordSlice;

use crate::context::{RequestContext, Services};

pub mod add_raft_voter;
pub mod alter_configs;
pub mod alter_partition_reassignments;
pub mod api_versions;
pub mod common;
pub mod consumer_group_describe;
pub mod consumer_group_heartbeat;
pub mod create_partitions;
pub mod create_topics;
pub mod delete_groups;
pub mod delete_records;
pub mod delete_topics;
pub mod describe_cluster;
pub mod describe_configs;
pub mod describe_groups;
pub mod describe_log_dirs;
pub mod describe_quorum;
pub mod describe_topic_partitions;
pub mod elect_leaders;
pub mod fetch;
pub mod find_coordinator;
pub mod heartbeat;
pub mod incremental_alter_configs;
pub mod init_producer_id;
pub mod join_group;
pub mod leave_group;
pub mod list_config_resources;
pub mod list_groups;
pub mod list_offsets;
pub mod list_partition_reassignments;
pub mod metadata;
pub mod offset_commit;
pub mod offset_delete;
pub mod offset_fetch;
pub mod offset_for_leader_epoch;
pub mod produce;
pub mod remove_raft_voter;
pub mod sync_group;
pub mod unregister_broker;

/// What a handler answers with.
pub enum Reply {
    /// The answer.
    Now(ResponseBody),
    /// The answer comes later; the next request of the connection starts meanwhile. What fixes the
    /// order (queueing an append, say) happened before this was returned.
    Later(BoxFuture<'static, ResponseBody>),
    /// No answer at all (Produce with acks=0); once the future is done, the result says whether
    /// the connection must be closed (Kafka closes it on an error).
    Silent(BoxFuture<'static, Result<(), String>>),
    /// The connection is closed, for this reason.
    Close(String),
}

/// The body of an answer.
pub enum ResponseBody {
    /// Encoded by `protocol::response`.
    Message(Box<ResponseKind>),
    /// A fetch, whose record bytes go to the socket by reference or `sendfile`.
    Fetch(Box<FetchBody>),
}

/// A fetch response without its record bytes, and the bytes for the gaps.
pub struct FetchBody {
    /// `records` is `None` in every partition.
    pub response: kafka_protocol::messages::FetchResponse,
    /// Per topic, per partition, in the order of `response`: the records (empty = no bytes).
    pub records: Vec<Vec<Vec<RecordSlice>>>,
}

/// A handler, behind one type for all of them.
pub type Handle =
    for<'a> fn(&'a Arc<Services>, &'a RequestContext, RequestKind) -> BoxFuture<'a, Reply>;

/// A row of [`TABLE`].
pub struct Row {
    /// Name of the handler's file and module.
    pub file: &'static str,
    /// What is implemented and advertised.
    pub spec: ApiSpec,
    /// Handles a request, up to its [`Reply`].
    pub handle: Handle,
}

/// Builds [`TABLE`] from `module: Variant` rows, the variant being the one of `RequestKind`.
macro_rules! table {
    ($($module:ident: $variant:ident,)*) => {
        /// Every API of the broker, by key.
        pub static TABLE: &[Row] = &[$(
            Row {
                file: stringify!($module),
                spec: $module::SPEC,
                handle: |services, context, request| match request {
                    RequestKind::$variant(request) => {
                        Box::pin($module::handle(services, context, request))
                    }
                    // The request is decoded by the key of this row's spec.
                    _ => Box::pin(std::future::ready(Reply::Close(
                        concat!("not a request of ", stringify!($variant)).to_owned(),
                    ))),
                },
            },
        )*];

        /// For every key, one more than its index in [`TABLE`]; 0 where there is no row.
        static ROW_BY_KEY: [u8; KEY_LIMIT] = {
            let codes: &[i16] = &[$($module::SPEC.code(),)*];
            let mut rows = [0; KEY_LIMIT];
            let mut index = 0;
            while index < codes.len() {
                assert!(
                    index == 0 || codes[index - 1] < codes[index],
                    "rows stand in the order of their keys"
                );
                rows[codes[index] as usize] = index as u8 + 1;
                index += 1;
            }
            rows
        };
    };
}

/// Above every key of Kafka's.
const KEY_LIMIT: usize = 128;

table! {
    produce: Produce,
    fetch: Fetch,
    list_offsets: ListOffsets,
    metadata: Metadata,
    offset_commit: OffsetCommit,
    offset_fetch: OffsetFetch,
    find_coordinator: FindCoordinator,
    join_group: JoinGroup,
    heartbeat: Heartbeat,
    leave_group: LeaveGroup,
    sync_group: SyncGroup,
    describe_groups: DescribeGroups,
    list_groups: ListGroups,
    api_versions: ApiVersions,
    create_topics: CreateTopics,
    delete_topics: DeleteTopics,
    delete_records: DeleteRecords,
    init_producer_id: InitProducerId,
    offset_for_leader_epoch: OffsetForLeaderEpoch,
    describe_configs: DescribeConfigs,
    alter_configs: AlterConfigs,
    describe_log_dirs: DescribeLogDirs,
    create_partitions: CreatePartitions,
    delete_groups: DeleteGroups,
    elect_leaders: ElectLeaders,
    incremental_alter_configs: IncrementalAlterConfigs,
    alter_partition_reassignments: AlterPartitionReassignments,
    list_partition_reassignments: ListPartitionReassignments,
    offset_delete: OffsetDelete,
    describe_quorum: DescribeQuorum,
    describe_cluster: DescribeCluster,
    unregister_broker: UnregisterBroker,
    consumer_group_heartbeat: ConsumerGroupHeartbeat,
    consumer_group_describe: ConsumerGroupDescribe,
    list_config_resources: ListConfigResources,
    describe_topic_partitions: DescribeTopicPartitions,
    add_raft_voter: AddRaftVoter,
    remove_raft_voter: RemoveRaftVoter,
}

/// Where the row of an API key stands in [`TABLE`], if the API is implemented.
#[must_use]
pub fn row_index(api_key: i16) -> Option<usize> {
    let place = *ROW_BY_KEY.get(usize::try_from(api_key).ok()?)?;
    usize::from(place).checked_sub(1)
}

/// The row of an API key, if it is implemented.
#[must_use]
pub fn row(api_key: i16) -> Option<&'static Row> {
    TABLE.get(row_index(api_key)?)
}
