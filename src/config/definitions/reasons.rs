//! Why a key that Kafka knows has no effect here.
//!
//! Pure: a table.

pub(super) const GROUP_PROTOCOLS: &str = "a broker speaks all the group protocols that it knows";
pub(super) const GROUP_WRITES: &str =
    "the coordinator writes at once, and answers when it is committed";
pub(super) const SHARE_GROUPS: &str = "share groups are not built";
pub(super) const STREAMS_GROUPS: &str = "streams groups are not built";
pub(super) const TRANSACTIONS: &str = "transactions are not built yet";
pub(super) const TIERED_STORAGE: &str = "tiered storage is not built";
pub(super) const COMPACTION: &str = "compaction is not built yet";
pub(super) const RAFT_REPLICATES: &str = "a partition is replicated by its Raft group";
pub(super) const METADATA_LOG: &str = "the metadata log is a Raft group among the brokers";
pub(super) const SECURITY: &str = "TLS for clients and SASL are not built yet";
pub(super) const PEER_PROTOCOL: &str =
    "brokers reach each other by the controllers' listener, and its protocol counts";
pub(super) const PEM_ONLY: &str = "stores are read in PEM, and PEM without a password only";
pub(super) const READ_AT_START: &str = "certificates are read at start";
pub(super) const TLS_VERSIONS: &str = "ssl.enabled.protocols says which versions there are";
pub(super) const ACCESS_CONTROL: &str = "access control is not built yet";
pub(super) const TOKENS: &str = "delegation tokens are not built";
pub(super) const JVM: &str = "there is no JVM to load a class into";
pub(super) const NO_SEGMENTS: &str = "there are no segment, index and checkpoint files";
pub(super) const METRICS: &str = "metrics are Prometheus's, over HTTP";
pub(super) const QUOTAS: &str = "quotas are not built yet";
pub(super) const NO_PURGATORY: &str = "a wait that is over leaves nothing to purge";
pub(super) const NO_THREAD_POOLS: &str = "the runtime sizes itself by the machine's cores";
pub(super) const TELEMETRY: &str = "clients' metrics are not collected";
pub(super) const DURABILITY: &str = "highwater.durability says when a sync is due";
pub(super) const LEVELS: &str = "every codec has its default level";
