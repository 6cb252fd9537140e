//! A leader whose words arrive and who hears nobody: the others would follow it forever.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cluster::Cluster;
use cluster::transport::{PeerError, PeerHandler, PeerMessage, PeerTransport, TcpPeers};
use futures::future::BoxFuture;
use protocol::types::{BrokerId, Offset};
use storage::log_store::GroupId;

use crate::harness::{
    Node, Place, append, create_topic, eventually, remove_leader, start_all,
    wait_for_high_watermark,
};

type Outcome = Result<PeerMessage, PeerError>;

/// What stands between a node and its connections.
pub struct Ears<T> {
    inner: T,
    deaf: Arc<AtomicBool>,
}

impl<T> Ears<T> {
    pub fn new(inner: T, deaf: &Arc<AtomicBool>) -> Ears<T> {
        Ears { inner, deaf: deaf.clone() }
    }
}

async fn until_it_hears(deaf: &AtomicBool) {
    while deaf.load(Ordering::Relaxed) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

impl PeerTransport for Ears<TcpPeers> {
    fn call(
        &self,
        target: BrokerId,
        group: GroupId,
        message: PeerMessage,
        timeout: Duration,
    ) -> BoxFuture<'static, Outcome> {
        let (call, deaf) = (self.inner.call(target, group, message, timeout), self.deaf.clone());
        Box::pin(async move {
            let outcome = call.await;
            if !deaf.load(Ordering::Relaxed) {
                return outcome;
            }
            tokio::time::timeout(timeout, until_it_hears(&deaf)).await.ok();
            Err(PeerError::TimedOut)
        })
    }

    fn has_ended(&self, target: BrokerId) -> BoxFuture<'static, bool> {
        self.inner.has_ended(target)
    }
}

impl PeerHandler for Ears<Arc<Cluster>> {
    fn handle(&self, group: GroupId, message: PeerMessage) -> BoxFuture<'_, Outcome> {
        Box::pin(async move {
            if self.deaf.load(Ordering::Relaxed) {
                until_it_hears(&self.deaf).await;
                return Err(PeerError::TimedOut);
            }
            self.inner.handle(group, message).await
        })
    }

    fn on_disconnected(&self, peer: BrokerId) {
        self.inner.on_disconnected(peer);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_hears_nobody_gives_leadership_up() {
    let place = Place::new(Duration::from_millis(400));
    let mut nodes = start_all(&place).await;
    create_topic(&nodes[0]).await.expect("created");
    assert_eq!(append(&nodes, "before").await, Offset(0));
    for node in &nodes {
        wait_for_high_watermark(node, Offset(1)).await;
    }
    let deaf = remove_leader(&mut nodes);
    deaf.deaf.store(true, Ordering::Relaxed);
    assert_eq!(append(&nodes, "after").await, Offset(1));
    eventually("end of its reign", || {
        let replica = deaf.replica()?;
        (!replica.is_leader()).then_some(())
    })
    .await;
    deaf.deaf.store(false, Ordering::Relaxed);
    wait_for_high_watermark(&deaf, Offset(2)).await;
    for node in nodes.into_iter().chain([deaf]) {
        Node::stop(node).await;
    }
}
