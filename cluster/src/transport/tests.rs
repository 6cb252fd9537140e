//! Two brokers over real sockets.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use protocol::types::BrokerId;
use storage::log_store::GroupId;
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::{
    Identity, PeerError, PeerHandler, PeerMessage, PeerSecurity, PeerTransport, TcpPeers,
    serve_peers,
};

mod security;

const ME: BrokerId = BrokerId(1);
const PEER: BrokerId = BrokerId(2);
const PATIENCE: Duration = Duration::from_secs(20);

/// Answers what it was told, refuses kind 1, and keeps kind 2 waiting.
#[derive(Default)]
struct Echo {
    release: Notify,
    disconnected: Notify,
}

impl PeerHandler for Echo {
    fn handle(
        &self,
        group: GroupId,
        mut message: PeerMessage,
    ) -> BoxFuture<'_, Result<PeerMessage, PeerError>> {
        Box::pin(async move {
            match message.kind {
                1 => return Err(PeerError::Unreachable(format!("no group {}", group.0))),
                2 => self.release.notified().await,
                _ => {}
            }
            message.kind += 10;
            Ok(message)
        })
    }

    fn on_disconnected(&self, peer: BrokerId) {
        assert_eq!(peer, ME);
        self.disconnected.notify_one();
    }
}

struct Server {
    address: String,
    echo: Arc<Echo>,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Server {
    async fn start(at: &str, cluster_id: &str) -> Server {
        Server::start_with(at, cluster_id, PeerSecurity::default()).await
    }

    async fn start_with(at: &str, cluster_id: &str, security: PeerSecurity) -> Server {
        let listener = TcpListener::bind(at).await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (echo, stop) = (Arc::new(Echo::default()), CancellationToken::new());
        let identity = Identity::new(PEER, cluster_id.to_owned());
        let identity = Arc::new(identity.with_security(security));
        let task = tokio::spawn(serve_peers(listener, identity, echo.clone(), stop.clone()));
        Server { address, echo, stop, task }
    }

    async fn stop(self) -> String {
        self.stop.cancel();
        self.task.await.unwrap();
        self.address
    }
}

fn peers(address: &str, cluster_id: &str) -> TcpPeers {
    let addresses = BTreeMap::from([(PEER, address.to_owned())]);
    TcpPeers::new(Arc::new(Identity::new(ME, cluster_id.to_owned())), addresses)
}

fn message(kind: u8, body: Vec<Bytes>) -> PeerMessage {
    PeerMessage { kind, head: Bytes::from_static(b"head"), body }
}

async fn call(peers: &TcpPeers, message: PeerMessage) -> Result<PeerMessage, PeerError> {
    peers.call(PEER, GroupId(5), message, PATIENCE).await
}

/// Calls until it is answered: a connection that is made anew takes a moment.
async fn call_until_answered(peers: &TcpPeers) {
    let answered = async {
        while call(peers, message(0, Vec::new())).await.is_err() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, answered).await.expect("answered at last");
}

#[tokio::test]
async fn calls_overlap_and_each_gets_its_own_answer() {
    let server = Server::start("127.0.0.1:0", "blue").await;
    let peers = peers(&server.address, "blue");
    let waiting = peers.call(PEER, GroupId(5), message(2, Vec::new()), PATIENCE);
    for size in [0, 1, 100, 5_000_000] {
        let body = vec![Bytes::from(vec![7; size]), Bytes::from_static(b"end")];
        let answer = call(&peers, message(3, body)).await.unwrap();
        assert_eq!((answer.kind, &answer.head[..]), (13, &b"head"[..]));
        let body = answer.body.concat();
        assert_eq!((body.len(), body.ends_with(b"end")), (size + 3, true));
    }
    let refused = call(&peers, message(1, Vec::new())).await.unwrap_err();
    assert_eq!(refused, PeerError::Unreachable("unreachable: no group 5".into()));
    server.echo.release.notify_one();
    assert_eq!(waiting.await.unwrap().kind, 12);
    server.stop().await;
}

#[tokio::test]
async fn a_peer_that_comes_back_is_reached_again() {
    let server = Server::start("127.0.0.1:0", "blue").await;
    let peers = peers(&server.address, "blue");
    call_until_answered(&peers).await;
    let waiting = peers.call(PEER, GroupId(5), message(2, Vec::new()), PATIENCE);
    call_until_answered(&peers).await;
    let address = server.stop().await;
    assert!(waiting.await.is_err(), "its connection broke");
    assert!(call(&peers, message(0, Vec::new())).await.is_err());
    let server = Server::start(&address, "blue").await;
    call_until_answered(&peers).await;
    server.stop().await;
}

#[tokio::test]
async fn a_peer_that_has_ended_is_told_from_one_that_is_there() {
    let server = Server::start("127.0.0.1:0", "blue").await;
    let ours = peers(&server.address, "blue");
    call_until_answered(&ours).await;
    assert!(!ours.has_ended(PEER).await);
    // The other side of the same: the server learns that its client's connection has ended.
    drop(ours);
    let told = server.echo.disconnected.notified();
    tokio::time::timeout(PATIENCE, told).await.expect("told");
    let address = server.stop().await;
    assert!(peers(&address, "blue").has_ended(PEER).await);
    assert!(!peers(&address, "blue").has_ended(BrokerId(9)).await, "nobody knows where that is");
}

#[tokio::test]
async fn a_peer_whose_listener_is_the_last_to_be_closed_has_ended() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let ours = peers(&address, "blue");
    let asked = tokio::spawn(ours.has_ended(PEER));
    let accepted = listener.accept().await.unwrap();
    drop(listener);
    drop(accepted);
    assert!(asked.await.unwrap());
}

#[tokio::test]
async fn a_foreign_cluster_is_told_so() {
    let server = Server::start("127.0.0.1:0", "blue").await;
    let error = call(&peers(&server.address, "red"), message(0, Vec::new())).await.unwrap_err();
    let PeerError::Unreachable(why) = error else { panic!("{error}") };
    assert!(why.ends_with("broker 1 belongs to cluster red, broker 2 to cluster blue"), "{why}");
    call_until_answered(&peers(&server.address, "")).await;
    server.stop().await;
}

#[tokio::test]
async fn a_call_that_is_not_answered_in_time_says_so() {
    let server = Server::start("127.0.0.1:0", "blue").await;
    let peers = peers(&server.address, "blue");
    let late = peers.call(PEER, GroupId(5), message(2, Vec::new()), Duration::from_millis(50));
    assert_eq!(late.await.unwrap_err(), PeerError::TimedOut);
    call_until_answered(&peers).await;
    let unknown = peers.call(BrokerId(9), GroupId(5), message(0, Vec::new()), PATIENCE).await;
    assert!(matches!(unknown, Err(PeerError::Unreachable(_))));
    server.stop().await;
}
