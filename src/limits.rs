//! The named limits of the rim: queues, buffers and waits between the sockets and the handlers.
//! What an operator may want to change is a config key instead.

use std::time::Duration;

/// Replies of one connection that are not yet written; at the limit its socket is no longer read.
pub const CONNECTION_OUTSTANDING_REPLIES: usize = 256;

/// Bytes of requests of one connection that are not yet answered; at the limit its socket is no
/// longer read. A single larger request passes alone.
pub const CONNECTION_IN_FLIGHT_BYTES: usize = 32 * 1024 * 1024;

/// Bytes of requests of all connections up to which a connection reads ahead of its answers. Beyond
/// them each has one request in work: more would not be done sooner, and memory that is written
/// anew all the time costs more than what it brings.
pub const READ_AHEAD_BYTES: i64 = 32 * 1024 * 1024;

/// The most that one read takes from a socket. The broker's budget is looked at before each read
/// and charged after it, so every connection may overrun the budget by this much, and no more.
pub const SOCKET_READ_BYTES: usize = 1024 * 1024;

/// How long a connection that was let past the spent budget, so that its half-read request can
/// become whole, may send nothing before another one gets its turn.
pub const COMPLETION_TURN_STALL: Duration = Duration::from_secs(5);

/// Buffers handed to the kernel in one vectored write (Linux takes 1024).
pub const WRITE_BUFFERS: usize = 64;

/// The most that one `sendfile` is asked for, so that one consumer does not keep a worker.
pub const SENDFILE_BYTES: usize = 1024 * 1024;

/// What a blocking task brings into the page cache for one consumer at once.
pub const CACHE_LOAD_BYTES: usize = 4 * 1024 * 1024;

/// Connections that the kernel may hold before they are accepted.
pub const LISTEN_BACKLOG: i32 = 1024;

/// First and longest pause after `accept` failed (too many open files, say).
pub const ACCEPT_BACKOFF_MIN: Duration = Duration::from_millis(5);
/// See [`ACCEPT_BACKOFF_MIN`].
pub const ACCEPT_BACKOFF_MAX: Duration = Duration::from_secs(1);

/// How long requests in flight have to finish when the broker shuts down.
pub const SHUTDOWN_DRAIN: Duration = Duration::from_secs(5);

/// How long threads that wait for something outside (an answer from a name server, say) may keep
/// the process of a broker that has shut down.
pub const SHUTDOWN_THREADS: Duration = Duration::from_secs(1);

/// Pause between requests being served and the exporter's histograms being folded; no timer runs
/// while nothing is served.
pub const METRICS_UPKEEP_DELAY: Duration = Duration::from_secs(5);

/// What a request that waits for replicas gives this broker's own disk at the least.
pub const OWN_DISK_WAIT: Duration = Duration::from_secs(5);

/// How often it is looked at whether the store has stopped for good.
pub const STORE_WATCH_INTERVAL: Duration = Duration::from_secs(1);

/// Requests that wait for one shard of a coordinator; beyond them clients are told to try again.
pub const COORDINATOR_QUEUED_CALLS: usize = 4096;

/// Requests that a shard decides on before it looks at anything else.
pub const COORDINATOR_CALLS_AT_ONCE: usize = 64;

/// Batches of one shard that are not yet committed; at the limit it takes no more requests.
pub const COORDINATOR_APPENDS_IN_FLIGHT: usize = 1024;

/// What a load of a shard reads at once.
pub const COORDINATOR_LOAD_PIECE_BYTES: usize = 4 * 1024 * 1024;

/// Bytes of one batch of a coordinator's log, decompressed.
pub const COORDINATOR_BATCH_BYTES: usize = 256 * 1024 * 1024;

/// Pause before a partition that could not be loaded is tried again.
pub const COORDINATOR_LOAD_RETRY: Duration = Duration::from_secs(5);

/// How long a shard that is stopped waits for its appends.
pub const COORDINATOR_STOP_DRAIN: Duration = Duration::from_secs(2);

/// A coordinator's log is compacted when it is larger than this,
pub const COORDINATOR_COMPACTION_MIN_BYTES: u64 = 16 * 1024 * 1024;
/// and this many times as large as the state that it holds.
pub const COORDINATOR_COMPACTION_GROWTH: u64 = 4;

/// What compaction appends at once: requests are decided between two pieces.
pub const COORDINATOR_COMPACTION_PIECE_BYTES: usize = 256 * 1024;

/// How long further changes of the metadata are waited for before coordinators are told of them.
pub const COORDINATOR_FOLLOW_PAUSE: Duration = Duration::from_millis(50);

/// Pause before a shard that is loading is told of a change again.
pub const COORDINATOR_TELL_RETRY: Duration = Duration::from_millis(100);

/// Pairs of a group and a partition whose lag is watched; each takes half a kilobyte. Commits of
/// further ones are counted, and a warning says so.
pub const LAG_GROUP_PARTITIONS: usize = 100_000;

/// How often one question about lag looks again for the next record of a group that commits
/// meanwhile.
pub const LAG_LOOK_ROUNDS: usize = 3;

/// Partitions whose leaders a rewind asks at once.
pub const REWIND_LOOKUPS: usize = 32;

/// Pause before the bootstrap servers are asked again for the voters.
pub const BOOTSTRAP_RETRY_DELAY: Duration = Duration::from_millis(500);
