//! The broker as a whole: what is started in which order, and how it is drained.
//!
//! Start: open the store, bind the ports (so that the advertised ones are known), form the cluster,
//! take connections. Stop: take no connections, read no requests, stop the coordinators, answer
//! what is in flight, close the cluster, then the store.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use cluster::metadata::{BrokerImage, EndpointImage, MetadataImage, TopicImage};
use cluster::{Cluster, ClusterError, ClusterOptions, ReplicaSettings};
use parking_lot::Mutex;
use storage::StorageError;
use storage::log_store::{LogStore, LogStoreOptions};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{info, warn};

use crate::config::{BrokerConfig, ListenerConfig, TopicConfig};
use crate::context::Services;
use crate::coordinator::group_runtime::GroupCoordinator;
use crate::dispatch::Dispatcher;
use crate::fetch::session::FetchSessionCache;
use crate::http::{self, HttpState};
use crate::lag::service::LagService;
use crate::limits::{SHUTDOWN_DRAIN, STORE_WATCH_INTERVAL};
use crate::net::budget::InFlightBudget;
use crate::net::connection::ConnectionLimits;
use crate::net::listener::{Acceptor, BoundListener, ConnectionQuota};
use crate::peers::{self, PeerServer};
use crate::readiness::Readiness;
use crate::{clock, ids, peer_security, surroundings, telemetry};

/// Why the broker did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A listener's address cannot be had.
    #[error("{0}")]
    Listener(String),
    /// Keys, certificates or the secret of connections between brokers cannot be used.
    #[error("{0}")]
    Security(String),
    /// The directory cannot be used: another broker has it, it cannot be written to.
    #[error("{0}")]
    Store(#[from] StorageError),
    /// The cluster could not be formed.
    #[error("the cluster cannot be formed: {0}")]
    Cluster(#[from] ClusterError),
}

/// A running broker.
pub struct Broker {
    services: Arc<Services>,
    store: LogStore,
    peers: PeerServer,
    readiness: Readiness,
    acceptor: Acceptor<Dispatcher>,
    http_shutdown: CancellationToken,
    addresses: Vec<(String, SocketAddr)>,
    http_address: Option<SocketAddr>,
}

impl Broker {
    /// Starts a broker; when this returns it can be produced to.
    ///
    /// # Errors
    /// A sentence for the operator.
    pub async fn start(config: BrokerConfig) -> Result<Broker, StartError> {
        let started_at = clock::monotonic();
        let config = Arc::new(config);
        // First, so that a second broker on a directory is told so, whatever else it would lack.
        let store = open_store(&config).await?;
        match Broker::start_on(config, store.clone()).await {
            Ok(broker) => {
                broker.log_ready(started_at);
                Ok(broker)
            }
            Err(error) => {
                if let Err(error) = close_store(&store).await {
                    warn!(%error, "the store was not closed properly");
                }
                Err(error)
            }
        }
    }

    async fn start_on(config: Arc<BrokerConfig>, store: LogStore) -> Result<Broker, StartError> {
        let bound = bind_listeners(&config).map_err(StartError::Listener)?;
        let http_listener = match &config.http_listener {
            Some(address) => Some(http::bind(address).await.map_err(StartError::Listener)?),
            None => None,
        };
        let (cluster, peers) = start_cluster(&config, &bound, &store).await?;
        let services = services(cluster, &config);
        // Before any handle of a metric is made: what is counted by one made earlier is lost.
        let metrics = telemetry::install_metrics();
        services.groups.start();
        let acceptor = acceptor(&config, &services);
        acceptor.start(&bound).map_err(|error| StartError::Listener(error.to_string()))?;
        let mut broker = Broker {
            services,
            readiness: Readiness::new(store.clone()),
            store,
            peers,
            acceptor,
            http_shutdown: CancellationToken::new(),
            addresses: bound.iter().map(|l| (l.name().to_owned(), l.address())).collect(),
            http_address: None,
        };
        if let Some(listener) = http_listener {
            broker.serve_http(listener, metrics);
        }
        broker.readiness.set_serving(true);
        Ok(broker)
    }

    /// Where clients reach the broker, by the listener's name.
    #[must_use]
    pub fn addresses(&self) -> &[(String, SocketAddr)] {
        &self.addresses
    }

    /// Where metrics and health are, if anywhere.
    #[must_use]
    pub fn http_address(&self) -> Option<SocketAddr> {
        self.http_address
    }

    /// What the handlers share.
    #[must_use]
    pub fn services(&self) -> &Arc<Services> {
        &self.services
    }

    /// Resolves when the store has stopped for good, with the reason: the process must end then.
    pub async fn store_failed(&self) -> String {
        loop {
            if let Some(why) = self.store.stopped() {
                return why;
            }
            tokio::time::sleep(STORE_WATCH_INTERVAL).await;
        }
    }

    /// Drains and closes: requests that were read are answered, for a few seconds at most.
    ///
    /// # Errors
    /// When the store could not be closed properly; the next start recovers.
    pub async fn shutdown(mut self) -> Result<(), StorageError> {
        info!("shutting down");
        self.readiness.set_serving(false);
        self.acceptor.shutdown.cancel();
        self.acceptor.connections.close();
        // Members wait for each other as long as they like: they are sent elsewhere first.
        self.services.groups.stop().await;
        let drained = tokio::time::timeout(SHUTDOWN_DRAIN, self.acceptor.connections.wait()).await;
        if drained.is_err() {
            warn!("requests in flight took too long and were given up");
            self.acceptor.abort.cancel();
            self.acceptor.connections.wait().await;
        }
        self.services.cluster.shutdown().await;
        self.peers.stop().await;
        let closed = close_store(&self.store).await;
        self.http_shutdown.cancel();
        if closed.is_ok() {
            info!("shut down");
        }
        closed
    }

    fn serve_http(
        &mut self,
        listener: tokio::net::TcpListener,
        metrics: metrics_exporter_prometheus::PrometheusHandle,
    ) {
        self.http_address = listener.local_addr().ok();
        tokio::spawn(telemetry::run_upkeep(metrics.clone()));
        let state = HttpState {
            metrics,
            services: Arc::clone(&self.services),
            budget: Arc::clone(&self.acceptor.limits.budget),
            readiness: self.readiness.clone(),
        };
        tokio::spawn(http::run_http(listener, state, self.http_shutdown.clone()));
    }

    /// The words that those wait for who start Kafka in a container (Testcontainers).
    fn log_ready(&self, started_at: Instant) {
        info!(
            node_id = %self.services.config.node_id,
            cluster_id = %self.services.cluster.metadata().cluster_id,
            took_ms = clock::since(started_at).as_millis() as u64,
            "The broker is ready. Transitioning from RECOVERY to RUNNING."
        );
    }
}

/// Runs a broker until SIGTERM or SIGINT, and drains it.
///
/// # Errors
/// A sentence for the operator: why it did not start, could not go on, or was not closed properly.
pub async fn run_until_signal(config: BrokerConfig) -> Result<(), String> {
    let listen = |kind| signal(kind).map_err(|error| format!("cannot listen for signals: {error}"));
    let mut terminate = listen(SignalKind::terminate())?;
    let mut interrupt = listen(SignalKind::interrupt())?;
    // A broker that waits for the others of its cluster can be told to stop waiting.
    let broker = tokio::select! {
        started = Broker::start(config) => started.map_err(|error| error.to_string())?,
        _ = terminate.recv() => return Ok(()),
        _ = interrupt.recv() => return Ok(()),
    };
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
        // Nothing is drained: no request can be answered as asked, and the next start recovers.
        why = broker.store_failed() => return Err(format!("the store has stopped: {why}")),
    }
    broker.shutdown().await.map_err(|error| format!("the store was not closed properly: {error}"))
}

fn bind_listeners(config: &BrokerConfig) -> Result<Vec<BoundListener>, String> {
    let bind = |l: &ListenerConfig| BoundListener::bind(&l.name, &l.host, l.port);
    config.listeners.iter().map(bind).collect()
}

/// Opening reads the disk, so it happens off the async workers; so does closing.
async fn open_store(config: &Arc<BrokerConfig>) -> Result<LogStore, StorageError> {
    let config = Arc::clone(config);
    off_worker(move || LogStore::open_dir(&config.log_dir, LogStoreOptions::default())).await
}

async fn close_store(store: &LogStore) -> Result<(), StorageError> {
    let store = store.clone();
    off_worker(move || store.close()).await
}

async fn off_worker<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StorageError> + Send + 'static,
) -> Result<T, StorageError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(StorageError::Stopped(error.to_string())))
}

async fn start_cluster(
    config: &Arc<BrokerConfig>,
    bound: &[BoundListener],
    store: &LogStore,
) -> Result<(Arc<Cluster>, PeerServer), StartError> {
    let options = cluster_options(config, endpoints(config, bound), store.clone());
    match &config.peers {
        Some(peers) => {
            let security = peer_security::load(&config.peer_security);
            let security = security.map_err(StartError::Security)?;
            peers::join(peers, security, config.timing, options).await
        }
        None => Ok((Cluster::start(options).await?, PeerServer::default())),
    }
}

/// What a broker of this configuration is in its cluster.
#[must_use]
pub fn cluster_options(
    config: &Arc<BrokerConfig>,
    endpoints: Vec<EndpointImage>,
    store: LogStore,
) -> ClusterOptions {
    let settings_config = Arc::clone(config);
    ClusterOptions {
        broker: BrokerImage {
            id: config.node_id,
            rack: config.rack.clone(),
            endpoints,
            peer_address: None,
            directory_id: None,
        },
        cluster_id: config.cluster_id.clone(),
        store,
        settings: Arc::new(move |image, topic| replica_settings(&settings_config, image, topic)),
        retention_check_interval: config.log_retention_check_interval,
        producer_id_expiration: config.producer_id_expiration,
        now: Arc::new(clock::now),
        new_uuid: Arc::new(ids::new_uuid),
    }
}

/// What handlers share, on a cluster that is formed; the groups are still to be started.
#[must_use]
pub fn services(cluster: Arc<Cluster>, config: &Arc<BrokerConfig>) -> Arc<Services> {
    let groups = GroupCoordinator::new(Arc::clone(&cluster), Arc::clone(config));
    let lag = LagService::new(Arc::clone(&cluster), Arc::clone(config));
    groups.observe(lag.clone());
    Arc::new(Services {
        cluster,
        config: Arc::clone(config),
        groups,
        lag,
        fetch_sessions: Mutex::new(FetchSessionCache::new(config.max_fetch_session_slots)),
    })
}

/// What is advertised: as configured, with the port that was bound where port 0 was asked for. An
/// empty host means that a client is told the address it has connected to, which other brokers do
/// not know: among several, this machine's name stands instead, as by Kafka.
fn endpoints(config: &BrokerConfig, bound: &[BoundListener]) -> Vec<EndpointImage> {
    let own_name = || match &config.peers {
        Some(_) => surroundings::host_name(),
        None => String::new(),
    };
    let endpoint = |(listener, bound): (&ListenerConfig, &BoundListener)| {
        let (host, port) = match &listener.advertised {
            Some((host, port)) => (host.clone(), *port),
            None if is_wildcard(&listener.host) => (own_name(), 0),
            None => (listener.host.clone(), 0),
        };
        EndpointImage {
            listener: listener.name.clone(),
            host,
            port: if port == 0 { bound.address().port() } else { port },
            security_protocol: listener.security_protocol.clone(),
        }
    };
    config.listeners.iter().zip(bound).map(endpoint).collect()
}

fn is_wildcard(host: &str) -> bool {
    matches!(host, "" | "0.0.0.0" | "::" | "[::]")
}

fn replica_settings(
    config: &BrokerConfig,
    image: &MetadataImage,
    topic: &TopicImage,
) -> ReplicaSettings {
    let topic = TopicConfig::resolve(&topic.configs, image, config);
    ReplicaSettings {
        durability: topic.durability,
        retention_ms: topic.retention_ms.filter(|_| topic.cleanup_delete),
        retention_bytes: topic.retention_bytes.filter(|_| topic.cleanup_delete),
        min_insync_replicas: topic.min_insync_replicas,
        leader_throttled: topic.leader_throttled,
        follower_throttled: topic.follower_throttled,
    }
}

fn acceptor(config: &BrokerConfig, services: &Arc<Services>) -> Acceptor<Dispatcher> {
    Acceptor {
        handler: Arc::new(Dispatcher::new(Arc::clone(services))),
        limits: ConnectionLimits {
            max_request_bytes: config.socket_request_max_bytes,
            max_idle: config.connections_max_idle,
            budget: InFlightBudget::new(config.queued_max_request_bytes),
        },
        quota: ConnectionQuota::new(config.max_connections, config.max_connections_per_ip),
        connections: TaskTracker::new(),
        shutdown: CancellationToken::new(),
        abort: CancellationToken::new(),
    }
}
