//! This broker among others: the listener for them, and how it joins their cluster.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use cluster::metadata::{BrokerImage, MetadataImage};
use cluster::transport::{Identity, PeerSecurity, TcpPeers, ask_for_voters, serve_peers};
use cluster::{Cluster, ClusterOptions, PeerOptions};
use protocol::types::BrokerId;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tracing::{error, info};

use crate::broker::StartError;
use crate::config::{ClusterTiming, PeerConfig};
use crate::limits::BOOTSTRAP_RETRY_DELAY;

/// Answers the other brokers, until it is stopped.
#[derive(Default)]
pub struct PeerServer {
    stop: CancellationToken,
    serving: Option<JoinHandle<()>>,
}

impl PeerServer {
    /// Takes no messages any more; ends when the last connection has ended.
    pub async fn stop(&mut self) {
        self.stop.cancel();
        if let Some(serving) = self.serving.take() {
            // It ends without a word only with the runtime.
            serving.await.ok();
        }
    }
}

/// Forms or joins the cluster of the voters; waits until they have elected a leader.
///
/// # Errors
/// The listener cannot be had, the store fails, or the cluster is not the one that was asked for.
pub async fn join(
    peers: &PeerConfig,
    security: PeerSecurity,
    timing: ClusterTiming,
    mut options: ClusterOptions,
) -> Result<(Arc<Cluster>, PeerServer), StartError> {
    let listener = TcpListener::bind(&peers.bind).await.map_err(|error| {
        StartError::Listener(format!("cannot listen for brokers on {}: {error}", peers.bind))
    })?;
    let cluster_id = options.cluster_id.clone();
    let own_id = options.broker.id;
    let identity = || {
        let known_id = cluster_id.clone().unwrap_or_default();
        Identity::new(own_id, known_id).with_security(security.clone())
    };
    let voters = find_voters(peers, &identity()).await;
    if !voters.contains_key(&own_id) {
        let port = listener.local_addr().map(|address| address.port());
        let port = port.map_err(|error| StartError::Listener(error.to_string()))?;
        options.broker.peer_address = Some(peer_address(&options.broker, port));
    }
    let broker: BrokerImage = options.broker.clone();
    let identity = Arc::new(identity().with_voters(voters.clone()));
    let transport = Arc::new(TcpPeers::new(Arc::clone(&identity), voters.clone()));
    let voter_ids = voters.keys().copied().collect();
    let options_of_peers = peer_options(timing, PeerOptions::new(voter_ids, transport.clone()));
    let cluster = Cluster::start_with_peers(options, options_of_peers).await?;
    tokio::spawn(follow_addresses(cluster.watch_metadata(), transport, voters.clone()));
    let stop = CancellationToken::new();
    let handler = Arc::clone(&cluster);
    let serving = tokio::spawn(serve_peers(listener, identity.clone(), handler, stop.clone()));
    let mut server = PeerServer { stop, serving: Some(serving) };
    info!(bind = peers.bind, ?voters, "looking for the other brokers");
    if let Err(error) = cluster.join(broker, cluster_id).await {
        server.stop().await;
        cluster.shutdown().await;
        return Err(error.into());
    }
    // From here on a broker of another cluster is refused.
    identity.set_cluster_id(&cluster.metadata().cluster_id);
    Ok((cluster, server))
}

/// The options, with what is configured of them.
#[must_use]
pub fn peer_options(timing: ClusterTiming, defaults: PeerOptions) -> PeerOptions {
    PeerOptions {
        presence_heartbeat: timing.heartbeat,
        session_timeout: timing.session_timeout,
        replica_lag_max: timing.replica_lag_max,
        rebalance_interval: timing.rebalance_interval,
        ..defaults
    }
}

/// The voters as configured, or as one of the bootstrap servers knows them; asks as long as none
/// answers.
async fn find_voters(peers: &PeerConfig, identity: &Identity) -> BTreeMap<BrokerId, String> {
    if !peers.voters.is_empty() {
        return peers.voters.clone();
    }
    let mut last_reasons = BTreeMap::new();
    loop {
        for server in &peers.bootstrap {
            let reason = match ask_for_voters(identity, server).await {
                Ok(voters) if !voters.is_empty() => return voters,
                Ok(_) => io::Error::other("it knows no voters"),
                Err(error) => error,
            };
            if last_reasons.insert(server, reason.to_string()) != Some(reason.to_string()) {
                match reason.kind() {
                    io::ErrorKind::PermissionDenied => error!("{server}: {reason}"),
                    _ => info!(server, %reason, "looking for the voters"),
                }
            }
        }
        tokio::time::sleep(BOOTSTRAP_RETRY_DELAY).await;
    }
}

/// Where the others reach a broker that no configuration of theirs names: the host that clients
/// reach it by.
fn peer_address(broker: &BrokerImage, port: u16) -> String {
    let host = broker.endpoints.first().map_or("localhost", |endpoint| endpoint.host.as_str());
    if host.contains(':') && !host.starts_with('[') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    }
}

/// Takes up where brokers beyond the voters are reached, as they register.
async fn follow_addresses(
    mut images: watch::Receiver<Arc<MetadataImage>>,
    transport: Arc<TcpPeers>,
    voters: BTreeMap<BrokerId, String>,
) {
    loop {
        let image = images.borrow_and_update().clone();
        for broker in image.brokers.values().filter(|broker| !voters.contains_key(&broker.id)) {
            if let Some(address) = &broker.peer_address {
                transport.set_address(broker.id, address);
            }
        }
        // The metadata log has ended with the broker.
        if images.changed().await.is_err() {
            return;
        }
    }
}
