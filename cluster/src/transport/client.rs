//! Calls to other brokers over TCP: two connections to each, one for what is small and urgent
//! (votes, heartbeats), one for record batches, so that a vote never waits behind megabytes.
//!
//! A connection is made when somebody calls, and again after it broke. The name is resolved each
//! time: addresses may change. Nothing is sent twice by this code: a call whose connection broke
//! fails, and Raft tries again.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use parking_lot::{Mutex, RwLock};
use protocol::types::BrokerId;
use storage::log_store::GroupId;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};

use super::frame::{self, FrameType, PeerFrame};
use super::identity::{Identity, Met};
use super::tls::{PeerStream, explained, refused};
use super::{PeerError, PeerMessage, PeerTransport};
use crate::limits::{
    PEER_CALLS_QUEUED, PEER_CONNECT_TIMEOUT, PEER_END_ATTEMPTS, PEER_END_TIMEOUT,
    PEER_RECONNECT_DELAY, PEER_SMALL_BYTES, PEER_WRITE_TIMEOUT,
};

type Outcome = Result<PeerMessage, PeerError>;
type Pending = Arc<Mutex<Option<HashMap<u64, oneshot::Sender<Outcome>>>>>;

/// Connections to the other brokers, as `host:port` by id.
pub struct TcpPeers {
    identity: Arc<Identity>,
    addresses: RwLock<BTreeMap<BrokerId, String>>,
    lanes: Mutex<HashMap<(BrokerId, Lane), mpsc::Sender<Call>>>,
}

/// Which of the two connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Lane {
    Small,
    Bulk,
}

struct Call {
    group: GroupId,
    message: PeerMessage,
    answer: oneshot::Sender<Outcome>,
}

impl TcpPeers {
    /// Connects to nobody yet.
    #[must_use]
    pub fn new(identity: Arc<Identity>, addresses: BTreeMap<BrokerId, String>) -> TcpPeers {
        TcpPeers { identity, addresses: RwLock::new(addresses), lanes: Mutex::default() }
    }

    /// A broker is reached there from now on.
    pub fn set_address(&self, broker: BrokerId, address: &str) {
        let before = self.addresses.write().insert(broker, address.to_owned());
        if before.is_some_and(|before| before != address) {
            // Connections to where it was end with the last call.
            self.lanes.lock().retain(|(id, _), _| *id != broker);
        }
    }

    /// Queues a call on its lane, which is opened at the first one.
    fn queue(&self, target: BrokerId, call: Call) -> Result<(), PeerError> {
        let Some(address) = self.addresses.read().get(&target).cloned() else {
            return Err(PeerError::Unreachable(format!("broker {target} is not known here")));
        };
        let bytes: usize = call.message.body.iter().map(bytes::Bytes::len).sum();
        let lane = if bytes <= PEER_SMALL_BYTES { Lane::Small } else { Lane::Bulk };
        let mut lanes = self.lanes.lock();
        let sender = lanes.entry((target, lane)).or_insert_with(|| {
            let (sender, calls) = mpsc::channel(PEER_CALLS_QUEUED);
            let connector = Connector { identity: self.identity.clone(), target, address };
            tokio::spawn(connector.run(calls));
            sender
        });
        let full = |_| PeerError::Broken(format!("too many calls wait for broker {target}"));
        sender.try_send(call).map_err(full)
    }
}

impl PeerTransport for TcpPeers {
    fn call(
        &self,
        target: BrokerId,
        group: GroupId,
        message: PeerMessage,
        timeout: Duration,
    ) -> BoxFuture<'static, Outcome> {
        let (answer, answered) = oneshot::channel();
        let queued = self.queue(target, Call { group, message, answer });
        Box::pin(async move {
            queued?;
            match tokio::time::timeout(timeout, answered).await {
                Ok(Ok(outcome)) => outcome,
                Ok(Err(_dropped)) => Err(PeerError::Broken("the connection ended".into())),
                Err(_) => Err(PeerError::TimedOut),
            }
        })
    }

    fn has_ended(&self, target: BrokerId) -> BoxFuture<'static, bool> {
        let address = self.addresses.read().get(&target).cloned();
        Box::pin(async move {
            let Some(address) = address else { return false };
            for _ in 0..PEER_END_ATTEMPTS {
                let connecting = TcpStream::connect(&address);
                let mut stream = match tokio::time::timeout(PEER_CONNECT_TIMEOUT, connecting).await
                {
                    Ok(Ok(stream)) => stream,
                    Ok(Err(error)) => return error.kind() == io::ErrorKind::ConnectionRefused,
                    Err(_) => return false,
                };
                // A process that dies closes its sockets one by one, and the one that it listens
                // with may come last: then this connection ends with it. A peer that lives waits
                // for an introduction.
                let ends = stream.read_u8();
                if tokio::time::timeout(PEER_END_TIMEOUT, ends).await.is_err() {
                    return false;
                }
            }
            false
        })
    }
}

/// Keeps one lane to one broker.
struct Connector {
    identity: Arc<Identity>,
    target: BrokerId,
    address: String,
}

impl Connector {
    /// Until nobody can call any more.
    async fn run(self, mut calls: mpsc::Receiver<Call>) {
        let mut last_refusal = String::new();
        while let Some(first) = calls.recv().await {
            let error = match self.connect().await {
                Ok(stream) => {
                    last_refusal.clear();
                    let error = converse(stream, first, &mut calls).await;
                    tracing::debug!(target = self.target.0, %error, "peer connection ended");
                    continue;
                }
                Err(error) => error,
            };
            let why = format!("broker {} at {}: {error}", self.target, self.address);
            if why != last_refusal && is_said(error.kind(), &why) {
                last_refusal.clone_from(&why);
            }
            refuse(first, &why);
            refuse_for(PEER_RECONNECT_DELAY, &why, &mut calls).await;
        }
    }

    async fn connect(&self) -> io::Result<PeerStream> {
        let (stream, met) = in_time(reach(&self.identity, &self.address)).await?;
        if met.broker_id != self.target {
            return Err(refused(format!("broker {} is there", met.broker_id)));
        }
        Ok(stream)
    }
}

/// Logs why there is no connection, unless nobody listens there: that is a broker's own affair.
fn is_said(kind: io::ErrorKind, why: &str) -> bool {
    match kind {
        io::ErrorKind::PermissionDenied => tracing::error!("{why}"),
        io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof | io::ErrorKind::TimedOut => {
            tracing::warn!("{why}");
        }
        _ => return false,
    }
    true
}

/// Connects, encrypts where that is asked for, and introduces this broker.
async fn reach(identity: &Identity, address: &str) -> io::Result<(PeerStream, Met)> {
    let mut stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let Some(tls) = identity.tls() else {
        let met = identity.introduce(&mut stream, &[]).await?;
        return Ok((PeerStream::Plain(stream), met));
    };
    let (mut stream, channel) = tls.connect(stream, address).await?;
    // A certificate of ours that is refused is heard of only now, in TLS 1.3.
    let met = identity.introduce(&mut stream, &channel).await.map_err(explained)?;
    Ok((PeerStream::Tls(stream), met))
}

async fn in_time<T>(reaching: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    let late = |_| io::Error::new(io::ErrorKind::TimedOut, "no connection in time");
    tokio::time::timeout(PEER_CONNECT_TIMEOUT, reaching).await.map_err(late)?
}

/// Asks the broker at an address who votes on metadata, and where these are reached.
///
/// # Errors
/// Nobody answers there, or the broker is refused.
pub async fn ask_for_voters(
    identity: &Identity,
    address: &str,
) -> io::Result<BTreeMap<BrokerId, String>> {
    let (_, met) = in_time(reach(identity, address)).await?;
    Ok(met.voters)
}

fn refuse(call: Call, why: &str) {
    // Whoever gave up waiting needs no answer.
    call.answer.send(Err(PeerError::Unreachable(why.to_owned()))).ok();
}

/// Refuses at once what comes while no connection is tried.
async fn refuse_for(pause: Duration, why: &str, calls: &mut mpsc::Receiver<Call>) {
    let mut over = std::pin::pin!(tokio::time::sleep(pause));
    loop {
        tokio::select! {
            () = &mut over => return,
            call = calls.recv() => match call {
                Some(call) => refuse(call, why),
                None => return,
            },
        }
    }
}

/// Sends calls and hands out answers until the connection ends; says why it did.
async fn converse(stream: PeerStream, first: Call, calls: &mut mpsc::Receiver<Call>) -> io::Error {
    match stream {
        PeerStream::Plain(stream) => {
            let (reader, writer) = stream.into_split();
            converse_over(reader, writer, first, calls).await
        }
        PeerStream::Tls(stream) => {
            let (reader, writer) = tokio::io::split(stream);
            converse_over(reader, writer, first, calls).await
        }
    }
}

async fn converse_over(
    reader: impl AsyncRead + Send + Unpin + 'static,
    mut writer: impl AsyncWrite + Unpin,
    first: Call,
    calls: &mut mpsc::Receiver<Call>,
) -> io::Error {
    let pending: Pending = Arc::new(Mutex::new(Some(HashMap::new())));
    let mut reading = tokio::spawn(read_answers(reader, pending.clone()));
    let mut correlation = 0;
    let mut next = Some(first);
    let error = loop {
        if let Some(call) = next.take() {
            correlation += 1;
            if let Err(error) = send(&mut writer, correlation, call, &pending).await {
                break error;
            }
        }
        tokio::select! {
            ended = &mut reading => {
                break ended.unwrap_or_else(|error| io::Error::other(error.to_string()));
            }
            call = calls.recv() => match call {
                Some(call) => next = Some(call),
                None => break io::Error::other("nobody calls any more"),
            },
        }
    };
    reading.abort();
    // From here on nothing is pending: a late answer finds nobody.
    let left = pending.lock().take().unwrap_or_default();
    for answer in left.into_values() {
        answer.send(Err(PeerError::Broken(error.to_string()))).ok();
    }
    error
}

async fn send(
    writer: &mut (impl AsyncWrite + Unpin),
    correlation: u64,
    call: Call,
    pending: &Pending,
) -> io::Result<()> {
    // Its caller has given up already: a peer that is behind is spared the work.
    if call.answer.is_closed() {
        return Ok(());
    }
    if let Some(pending) = pending.lock().as_mut() {
        pending.insert(correlation, call.answer);
    }
    let frame_type = FrameType::Request;
    let frame = PeerFrame { frame_type, correlation, group: call.group, message: call.message };
    let stalled = || io::Error::new(io::ErrorKind::TimedOut, "the peer takes no bytes");
    tokio::time::timeout(PEER_WRITE_TIMEOUT, frame::write(writer, frame))
        .await
        .map_err(|_| stalled())?
}

async fn read_answers(mut reader: impl AsyncRead + Unpin, pending: Pending) -> io::Error {
    loop {
        let frame = match frame::read(&mut reader).await {
            Ok(Some(frame)) => frame,
            Ok(None) => return io::Error::new(io::ErrorKind::UnexpectedEof, "closed by the peer"),
            Err(error) => return error,
        };
        let waiting = pending.lock().as_mut().and_then(|p| p.remove(&frame.correlation));
        let Some(waiting) = waiting else { continue };
        let outcome = match frame.frame_type {
            FrameType::Answer => Ok(frame.message),
            FrameType::Refused => Err(PeerError::Unreachable(frame.sentence())),
            FrameType::Request => Err(PeerError::Broken("a request instead of an answer".into())),
        };
        waiting.send(outcome).ok();
    }
}
