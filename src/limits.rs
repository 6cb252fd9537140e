//! The named limits of the rim: queues, buffers and waits between the sockets and the handlers.
//! What an operator may want to change is a config key instead.

use std::time::Duration;

/// Replies of one connection that are not yet written; at the limit its socket is no longer read.
pub const CONNECTION_OUTSTANDING_REPLIES: usize = 256;

/// Bytes of requests of one connection that are not yet answered; at the limit its socket is no
/// longer read. A single larger request passes alone.
pub const CONNECTION_IN_FLIGHT_BYTES: usize = 32 * 1024 * 1024;

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

/// Pause between requests being served and the exporter's histograms being folded; no timer runs
/// while nothing is served.
pub const METRICS_UPKEEP_DELAY: Duration = Duration::from_secs(5);

/// How often it is looked at whether the store has stopped for good.
pub const STORE_WATCH_INTERVAL: Duration = Duration::from_secs(1);
