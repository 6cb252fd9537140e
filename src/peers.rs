//! This broker among others: the listener for them, and how it joins their cluster.

use std::sync::Arc;

use cluster::metadata::BrokerImage;
use cluster::transport::{Identity, TcpPeers, serve_peers};
use cluster::{Cluster, ClusterOptions, PeerOptions};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tracing::info;

use crate::broker::StartError;
use crate::config::{ClusterTiming, PeerConfig};

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
    timing: ClusterTiming,
    options: ClusterOptions,
) -> Result<(Arc<Cluster>, PeerServer), StartError> {
    let broker: BrokerImage = options.broker.clone();
    let cluster_id = options.cluster_id.clone();
    let listener = TcpListener::bind(&peers.bind).await.map_err(|error| {
        StartError::Listener(format!("cannot listen for brokers on {}: {error}", peers.bind))
    })?;
    let identity = Arc::new(Identity::new(broker.id, cluster_id.clone().unwrap_or_default()));
    let transport = TcpPeers::new(Arc::clone(&identity), peers.voters.clone());
    let voters = peers.voters.keys().copied().collect();
    let options_of_peers = PeerOptions {
        presence_heartbeat: timing.heartbeat,
        session_timeout: timing.session_timeout,
        replica_lag_max: timing.replica_lag_max,
        rebalance_interval: timing.rebalance_interval,
        ..PeerOptions::new(voters, Arc::new(transport))
    };
    let cluster = Cluster::start_with_peers(options, options_of_peers).await?;
    let stop = CancellationToken::new();
    let handler = Arc::clone(&cluster);
    let serving = tokio::spawn(serve_peers(listener, identity.clone(), handler, stop.clone()));
    let mut server = PeerServer { stop, serving: Some(serving) };
    info!(bind = peers.bind, voters = ?peers.voters, "looking for the other brokers");
    if let Err(error) = cluster.join(broker, cluster_id).await {
        server.stop().await;
        cluster.shutdown().await;
        return Err(error.into());
    }
    // From here on a broker of another cluster is refused.
    identity.set_cluster_id(&cluster.metadata().cluster_id);
    Ok((cluster, server))
}
