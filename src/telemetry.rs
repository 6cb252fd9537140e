//! Every metric of the broker: name, kind, labels, help; and the set-up of logs.
//!
//! What is counted on the way of a request has its handle made once, so that counting is one atomic
//! addition and no look-up.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{LazyLock, OnceLock};
use std::time::Duration;

use metrics::{Counter, Gauge, Histogram};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use storage::log_store::StoreStats;
use tokio::sync::Notify;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::config::BrokerConfig;
use crate::handlers::TABLE;
use crate::limits::METRICS_UPKEEP_DELAY;

pub mod lag;

/// What kind of series a metric is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricKind {
    /// Only ever grows.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts by buckets.
    Histogram,
}

impl MetricKind {
    /// As Prometheus writes it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
            MetricKind::Histogram => "histogram",
        }
    }
}

/// A row of [`METRICS`].
#[derive(Debug)]
pub struct MetricSpec {
    /// Its name in `/metrics`.
    pub name: &'static str,
    /// Its kind.
    pub kind: MetricKind,
    /// Names of its labels.
    pub labels: &'static [&'static str],
    /// What it says.
    pub help: &'static str,
}

macro_rules! metrics_table {
    ($($constant:ident = $name:literal $kind:ident [$($label:literal),*] $help:literal;)*) => {
        $(const $constant: &str = $name;)*
        /// Every metric of the broker.
        pub const METRICS: &[MetricSpec] = &[$(MetricSpec {
            name: $name,
            kind: MetricKind::$kind,
            labels: &[$($label),*],
            help: $help,
        },)*];
    };
}

metrics_table! {
    REQUESTS = "highwater_requests_total" Counter ["api"]
        "Requests that were handled.";
    REQUEST_DURATION = "highwater_request_duration_seconds" Histogram ["api"]
        "Time from a request being read whole to its response being ready to be written.";
    REQUEST_BYTES = "highwater_request_bytes_total" Counter ["api"]
        "Bytes of requests, headers included.";
    RESPONSE_BYTES = "highwater_response_bytes_total" Counter ["api"]
        "Bytes of responses, headers included.";
    REQUESTS_REFUSED = "highwater_requests_refused_total" Counter ["reason"]
        "Requests that could not be decoded (malformed, unknown_key, unsupported_version) or whose \
         handler failed (panic); all but an ApiVersions of an unknown version cost the connection.";
    REQUEST_BYTES_IN_FLIGHT = "highwater_request_bytes_in_flight" Gauge []
        "Bytes of requests that are not yet answered, bounded by queued.max.request.bytes.";
    CONNECTIONS = "highwater_connections" Gauge ["listener"]
        "Client connections that are open.";
    CONNECTIONS_ACCEPTED = "highwater_connections_accepted_total" Counter ["listener"]
        "Client connections that were accepted.";
    CONNECTIONS_REFUSED = "highwater_connections_refused_total" Counter ["listener"]
        "Client connections closed at once because of max.connections.per.ip.";
    CONNECTIONS_CLOSED = "highwater_connections_closed_total" Counter ["reason"]
        "Connections that ended, by reason: client, idle, shutdown, request, io.";
    ACCEPT_ERRORS = "highwater_accept_errors_total" Counter ["listener"]
        "Connections that could not be accepted (too many open files, say).";
    SENDFILE_BYTES = "highwater_sendfile_bytes_total" Counter []
        "Record bytes that went from a journal file to a socket without passing through memory.";
    SENDFILE_COLD = "highwater_sendfile_cold_total" Counter []
        "Times that records were not in the page cache and were read ahead off the request path.";
    RECORD_BYTES_COPIED = "highwater_record_bytes_copied_total" Counter []
        "Record bytes copied in memory between socket and journal: 0 but for a defect.";
    APPENDED_BYTES = "highwater_appended_bytes_total" Counter []
        "Bytes of appended entries, records above all.";
    JOURNAL_BYTES = "highwater_journal_bytes_total" Counter []
        "Bytes written to the journal.";
    JOURNAL_WRITES = "highwater_journal_writes_total" Counter []
        "Writes to the journal; each takes everything that waits.";
    JOURNAL_SYNCS = "highwater_journal_syncs_total" Counter []
        "Syncs of the journal.";
    JOURNAL_FILES = "highwater_journal_files" Gauge []
        "Files of the journal.";
    JOURNAL_LIVE_BYTES = "highwater_journal_live_bytes" Gauge []
        "Bytes of the journal that are not deleted.";
    INDEX_BYTES = "highwater_index_bytes_total" Counter []
        "Bytes of keys and values written to the index.";
    CHECKPOINTS = "highwater_checkpoints_total" Counter []
        "Times that the index was flushed, so that a start need not replay what is older.";
    TAIL_BYTES = "highwater_tail_bytes" Gauge []
        "Record bytes that are kept in memory for readers near the end of their partition.";
    QUEUED_BYTES = "highwater_journal_queued_bytes" Gauge []
        "Bytes that wait to be written to the journal.";
    DISK_FULL = "highwater_disk_full" Gauge []
        "1 while appends are refused because the disk has no room, else 0.";
    FETCH_SESSIONS = "highwater_fetch_sessions" Gauge []
        "Incremental fetch sessions that are open.";
    COORDINATOR_SHARDS = "highwater_coordinator_shards" Gauge []
        "Partitions of coordinators' topics that are loaded here.";
    COORDINATOR_LOAD_DURATION = "highwater_coordinator_load_duration_seconds" Histogram []
        "Time that a partition of a coordinator's topic took to load.";
    COORDINATOR_APPEND_FAILURES = "highwater_coordinator_append_failures_total" Counter []
        "Times that a coordinator could not write, and loaded its state anew.";
    COORDINATOR_COMPACTIONS = "highwater_coordinator_compactions_total" Counter []
        "Times that a coordinator's log was replaced by the state that it holds.";
    UNCLEAN_LEADER_ELECTIONS = "highwater_unclean_leader_elections_total" Counter []
        "Partitions that go on with one replica since this broker was asked for that, the majority \
         being gone: what only the others had is lost.";
    GROUP_LAG_RECORDS = "highwater_group_lag_records" Gauge ["group", "topic", "partition"]
        "Records that the group has not read, up to the high watermark. Like the other metrics of \
         lag it has no topic and partition where it is of a group as a whole, which is so for \
         groups beyond highwater.lag.max.series; this one is then the sum.";
    GROUP_LAG_SECONDS = "highwater_group_lag_seconds" Gauge ["group", "topic", "partition"]
        "Age of the next unread record, 0 without one; of a whole group the largest.";
    GROUP_TIME_TO_LOSS = "highwater_group_lag_time_to_loss_seconds" Gauge
        ["group", "topic", "partition"]
        "Until retention deletes the next unread record; absent where it will not; of a whole \
         group the least.";
    GROUP_DRAIN = "highwater_group_lag_drain_seconds" Gauge ["group", "topic", "partition"]
        "Until everything is read at the present rates; absent where it never is; of a whole group \
         the largest.";
    GROUP_LAG_STATUS = "highwater_group_lag_status" Gauge ["group", "topic", "partition"]
        "Burrow's verdict: 1 OK, 2 WARN, 4 STOP, 5 STALL, 6 REWIND; of a whole group the worst.";
    GROUP_LOST_RECORDS = "highwater_group_lag_lost_records_total" Counter
        ["group", "topic", "partition"]
        "Records that were deleted before the group had read them, since this broker watches it; \
         of a whole group the sum.";
    GROUP_LAG_WATCHED = "highwater_group_lag_watched" Gauge []
        "Pairs of a group and a partition whose lag is watched.";
    GROUP_LAG_REFUSED = "highwater_group_lag_unwatched_commits_total" Counter []
        "Commits of groups and partitions beyond the limit of what is watched.";
    TOPICS = "highwater_topics" Gauge []
        "Topics of the cluster.";
    PARTITIONS = "highwater_partitions" Gauge []
        "Partitions of the cluster.";
    READY = "highwater_ready" Gauge []
        "1 when a produce would succeed, else 0: what /health/ready says.";
    BUILD_INFO = "highwater_build_info" Gauge ["version"]
        "Always 1.";
    RESIDENT_MEMORY = "process_resident_memory_bytes" Gauge []
        "Resident memory of the process.";
    CPU_SECONDS = "process_cpu_seconds_total" Gauge []
        "Processor time of the process, user and system, fractions included.";
    OPEN_FILES = "process_open_fds" Gauge []
        "File descriptors that the process has open.";
}

/// Buckets of every histogram, in seconds: from a reply out of memory to a long poll.
const DURATION_BUCKETS: &[f64] = &[
    0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5,
    5.0, 10.0, 30.0,
];

/// The recorder of the process: there can be one, however many brokers a test starts.
static RECORDER: OnceLock<PrometheusHandle> = OnceLock::new();

/// Installs the recorder, once per process, and describes every metric to it.
pub fn install_metrics() -> PrometheusHandle {
    RECORDER
        .get_or_init(|| {
            let matcher = Matcher::Suffix("_seconds".to_owned());
            let builder = PrometheusBuilder::new();
            let builder = match builder.set_buckets_for_metric(matcher, DURATION_BUCKETS) {
                Ok(builder) => builder,
                // Only for no buckets at all, and the constant above has some.
                Err(_) => PrometheusBuilder::new(),
            };
            let recorder = builder.build_recorder();
            let handle = recorder.handle();
            // Fails where a recorder of another library is installed: then that one is kept.
            let _ = metrics::set_global_recorder(recorder);
            describe();
            handle
        })
        .clone()
}

fn describe() {
    for metric in METRICS {
        match metric.kind {
            MetricKind::Counter => metrics::describe_counter!(metric.name, metric.help),
            MetricKind::Gauge => metrics::describe_gauge!(metric.name, metric.help),
            MetricKind::Histogram => metrics::describe_histogram!(metric.name, metric.help),
        }
    }
    metrics::gauge!(BUILD_INFO, "version" => env!("CARGO_PKG_VERSION")).set(1);
}

/// The metrics of one API.
pub struct ApiMetrics {
    requests: Counter,
    duration: Histogram,
    request_bytes: Counter,
    response_bytes: Counter,
}

impl ApiMetrics {
    /// Counts an answered request.
    pub fn answered(&self, took: Duration, response_bytes: usize) {
        self.requests.increment(1);
        self.response_bytes.increment(response_bytes as u64);
        self.duration.record(took);
        note_activity();
    }

    /// Counts what came in.
    pub fn received(&self, request_bytes: usize) {
        self.request_bytes.increment(request_bytes as u64);
    }
}

static API_METRICS: LazyLock<Vec<ApiMetrics>> = LazyLock::new(|| {
    let of_row = |row: &crate::handlers::Row| {
        let api = format!("{:?}", row.spec.key);
        ApiMetrics {
            requests: metrics::counter!(REQUESTS, "api" => api.clone()),
            duration: metrics::histogram!(REQUEST_DURATION, "api" => api.clone()),
            request_bytes: metrics::counter!(REQUEST_BYTES, "api" => api.clone()),
            response_bytes: metrics::counter!(RESPONSE_BYTES, "api" => api),
        }
    };
    TABLE.iter().map(of_row).collect()
});

/// The metrics of the API in that row of the table.
#[must_use]
pub fn api_metrics(row_index: usize) -> &'static ApiMetrics {
    &API_METRICS[row_index]
}

/// Counts a request that was refused.
pub fn request_refused(reason: &'static str) {
    metrics::counter!(REQUESTS_REFUSED, "reason" => reason).increment(1);
}

/// The metrics of one listener.
#[derive(Clone)]
pub struct ListenerMetrics {
    /// Open now.
    pub connections: Gauge,
    /// Accepted since the start.
    pub accepted: Counter,
    /// Closed at once.
    pub refused: Counter,
    /// `accept` failed.
    pub accept_errors: Counter,
}

/// The metrics of the listener of that name.
#[must_use]
pub fn listener_metrics(listener: &str) -> ListenerMetrics {
    let listener = listener.to_owned();
    ListenerMetrics {
        connections: metrics::gauge!(CONNECTIONS, "listener" => listener.clone()),
        accepted: metrics::counter!(CONNECTIONS_ACCEPTED, "listener" => listener.clone()),
        refused: metrics::counter!(CONNECTIONS_REFUSED, "listener" => listener.clone()),
        accept_errors: metrics::counter!(ACCEPT_ERRORS, "listener" => listener),
    }
}

/// Counts a connection that ended.
pub fn connection_closed(reason: &'static str) {
    metrics::counter!(CONNECTIONS_CLOSED, "reason" => reason).increment(1);
}

static SENDFILE_BYTES_COUNTER: LazyLock<Counter> =
    LazyLock::new(|| metrics::counter!(SENDFILE_BYTES));
static SENDFILE_COLD_COUNTER: LazyLock<Counter> =
    LazyLock::new(|| metrics::counter!(SENDFILE_COLD));

/// Counts bytes that `sendfile` sent.
pub fn sendfile_bytes(bytes: usize) {
    SENDFILE_BYTES_COUNTER.increment(bytes as u64);
}

/// Counts a wait for the disk before a `sendfile`.
pub fn sendfile_cold() {
    SENDFILE_COLD_COUNTER.increment(1);
}

/// Records that a partition of a coordinator's topic was loaded.
pub fn coordinator_loaded(took: Duration) {
    metrics::histogram!(COORDINATOR_LOAD_DURATION).record(took);
    note_activity();
}

/// Counts a loaded partition of a coordinator's topic, until it is dropped.
pub struct CoordinatorServing(Gauge);

/// See [`CoordinatorServing`].
#[must_use]
pub fn coordinator_serving() -> CoordinatorServing {
    let gauge = metrics::gauge!(COORDINATOR_SHARDS);
    gauge.increment(1);
    CoordinatorServing(gauge)
}

impl Drop for CoordinatorServing {
    fn drop(&mut self) {
        self.0.decrement(1);
    }
}

/// Counts a failed write of a coordinator.
pub fn coordinator_append_failed() {
    metrics::counter!(COORDINATOR_APPEND_FAILURES).increment(1);
}

/// Counts unclean elections that were held.
pub fn unclean_leader_elections_held(count: u64) {
    metrics::counter!(UNCLEAN_LEADER_ELECTIONS).increment(count);
}

/// Counts a compaction of a coordinator's log.
pub fn coordinator_compacted() {
    metrics::counter!(COORDINATOR_COMPACTIONS).increment(1);
}

/// What is looked up when `/metrics` is asked for, rather than kept.
#[derive(Debug, Clone)]
pub struct ScrapedValues {
    /// See the metric of that name.
    pub request_bytes_in_flight: i64,
    /// See the metric of that name.
    pub topics: usize,
    /// See the metric of that name.
    pub partitions: usize,
    /// See the metric of that name.
    pub ready: bool,
    /// See the metric of that name.
    pub fetch_sessions: usize,
    /// What the store has counted.
    pub store: StoreStats,
}

/// Brings up to date what is looked up rather than kept.
pub fn set_scraped(values: &ScrapedValues) {
    metrics::gauge!(REQUEST_BYTES_IN_FLIGHT).set(values.request_bytes_in_flight as f64);
    metrics::gauge!(TOPICS).set(values.topics as f64);
    metrics::gauge!(PARTITIONS).set(values.partitions as f64);
    metrics::gauge!(READY).set(f64::from(u8::from(values.ready)));
    metrics::gauge!(FETCH_SESSIONS).set(values.fetch_sessions as f64);
    set_store_stats(&values.store);
    if let Some(process) = process_usage() {
        metrics::gauge!(RESIDENT_MEMORY).set(process.resident_bytes as f64);
        metrics::gauge!(CPU_SECONDS).set(process.cpu_seconds);
        metrics::gauge!(OPEN_FILES).set(process.open_files as f64);
    }
}

fn set_store_stats(stats: &StoreStats) {
    metrics::counter!(RECORD_BYTES_COPIED).absolute(stats.record_bytes_copied);
    metrics::counter!(APPENDED_BYTES).absolute(stats.appended_bytes);
    metrics::counter!(JOURNAL_BYTES).absolute(stats.journal_bytes);
    metrics::counter!(JOURNAL_WRITES).absolute(stats.round_count);
    metrics::counter!(JOURNAL_SYNCS).absolute(stats.sync_count);
    metrics::gauge!(JOURNAL_FILES).set(stats.journal_file_count as f64);
    metrics::gauge!(JOURNAL_LIVE_BYTES).set(stats.live_bytes as f64);
    metrics::counter!(INDEX_BYTES).absolute(stats.index_bytes);
    metrics::counter!(CHECKPOINTS).absolute(stats.checkpoint_count);
    metrics::gauge!(TAIL_BYTES).set(stats.tail_bytes as f64);
    metrics::gauge!(QUEUED_BYTES).set(stats.queued_bytes as f64);
    metrics::gauge!(DISK_FULL).set(f64::from(u8::from(stats.is_full)));
}

struct ProcessUsage {
    resident_bytes: u64,
    cpu_seconds: f64,
    open_files: usize,
}

fn process_usage() -> Option<ProcessUsage> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let resident_kib: u64 = resident.trim().trim_end_matches(" kB").parse().ok()?;
    // SAFETY: `rusage` is plain numbers, for which zeroes are valid, and the call only fills it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &raw mut usage);
        usage
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    Some(ProcessUsage {
        resident_bytes: resident_kib * 1024,
        cpu_seconds: seconds(usage.ru_utime) + seconds(usage.ru_stime),
        open_files: std::fs::read_dir("/proc/self/fd").ok()?.count(),
    })
}

/// Whether anything was recorded since the last upkeep, and who waits for that.
static ACTIVE: AtomicBool = AtomicBool::new(false);
static ACTIVITY: Notify = Notify::const_new();

fn note_activity() {
    // Looked at first, so that a busy broker does not write the same cache line on every request.
    if !ACTIVE.load(Ordering::Relaxed) && !ACTIVE.swap(true, Ordering::AcqRel) {
        ACTIVITY.notify_one();
    }
}

/// Folds what histograms recorded into their buckets, a while after something was recorded: without
/// it they would grow until `/metrics` is asked for. While nothing is served, no timer runs.
pub async fn run_upkeep(handle: PrometheusHandle) {
    loop {
        ACTIVITY.notified().await;
        tokio::time::sleep(METRICS_UPKEEP_DELAY).await;
        ACTIVE.store(false, Ordering::Release);
        handle.run_upkeep();
    }
}

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// `highwater.log.format`, where it says `json`.
#[must_use]
pub fn log_format(config: &BrokerConfig) -> LogFormat {
    let value = config.values.get("highwater.log.format").and_then(|value| value.value.as_deref());
    match value {
        Some("json") => LogFormat::Json,
        _ => LogFormat::Text,
    }
}

/// Sets up logs on standard output, where container images have them. What `RUST_LOG` says holds;
/// without it the level of the Kafka images' `KAFKA_LOG4J_ROOT_LOGLEVEL`, else `info`.
///
/// Does nothing where logs are set up already.
pub fn install_logs(format: LogFormat) {
    let level = || {
        let kafka_level = std::env::var("KAFKA_LOG4J_ROOT_LOGLEVEL").unwrap_or_default();
        // openraft says at `info` what only its developers want to know, and what its callers are
        // told as an error, and act upon, it logs as one as well.
        // So it does with answers to heartbeats of a group that has closed meanwhile.
        let quiet = "openraft=warn,openraft::raft=off,openraft::core::heartbeat=off";
        EnvFilter::new(format!("{},{quiet}", log_level(&kafka_level)))
    };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| level());
    let registry = tracing_subscriber::registry().with(filter);
    let layer = tracing_subscriber::fmt::layer();
    let is_terminal = std::io::IsTerminal::is_terminal(&std::io::stdout());
    let installed = match format {
        LogFormat::Text => registry.with(layer.with_ansi(is_terminal)).try_init(),
        LogFormat::Json => registry.with(layer.json().flatten_event(true)).try_init(),
    };
    if installed.is_err() {
        tracing::debug!("logs were set up before");
    }
}

/// Log4j's names for levels as ours.
fn log_level(log4j: &str) -> &'static str {
    match log4j.to_ascii_uppercase().as_str() {
        "OFF" => "off",
        "FATAL" | "ERROR" => "error",
        "WARN" => "warn",
        "DEBUG" => "debug",
        "TRACE" | "ALL" => "trace",
        _ => "info",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metric_names_are_unique_and_of_one_prefix() {
        let mut names: Vec<_> = METRICS.iter().map(|metric| metric.name).collect();
        assert!(names.iter().all(|n| n.starts_with("highwater_") || n.starts_with("process_")));
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), METRICS.len());
    }

    #[test]
    fn levels_of_the_kafka_images_are_understood() {
        assert_eq!(log_level("WARN"), "warn");
        assert_eq!(log_level("debug"), "debug");
        assert_eq!(log_level(""), "info");
    }
}
