//! Answers other brokers over TCP.

use std::collections::HashSet;
use std::io;
use std::sync::Arc;

use futures::future::BoxFuture;
use parking_lot::Mutex;
use protocol::types::BrokerId;
use storage::log_store::GroupId;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use super::frame::{self, FrameType, PeerFrame};
use super::identity::Identity;
use super::tls::{PeerStream, part};
use super::{PeerError, PeerMessage};
use crate::limits::{
    PEER_ACCEPT_DELAY, PEER_CALLS_IN_FLIGHT, PEER_CONNECT_TIMEOUT, PEER_REFUSALS_REMEMBERED,
};

/// What answers the messages.
pub trait PeerHandler: Send + Sync + 'static {
    /// Answers a message about a group.
    fn handle(
        &self,
        group: GroupId,
        message: PeerMessage,
    ) -> BoxFuture<'_, Result<PeerMessage, PeerError>>;

    /// A peer has closed a connection, or it broke.
    fn on_disconnected(&self, peer: BrokerId);
}

/// Takes connections of other brokers until `stop`, and ends when the last one has ended.
pub async fn serve_peers(
    listener: TcpListener,
    identity: Arc<Identity>,
    handler: Arc<dyn PeerHandler>,
    stop: CancellationToken,
) {
    let connections = TaskTracker::new();
    let door = Arc::new(Door { identity, refusals: Mutex::default() });
    while let Some(accepted) = stop.run_until_cancelled(listener.accept()).await {
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                // Too many open files, say: others may close some.
                tracing::warn!(%error, "a peer connection could not be accepted");
                tokio::time::sleep(PEER_ACCEPT_DELAY).await;
                continue;
            }
        };
        let (door, handler, stop) = (door.clone(), handler.clone(), stop.clone());
        connections.spawn(async move {
            let served = stop.run_until_cancelled(serve_one(stream, &door, handler)).await;
            if let Some(Err(error)) = served {
                tracing::debug!(%error, "a peer connection ended");
            }
        });
    }
    connections.close();
    connections.wait().await;
}

async fn serve_one(
    stream: TcpStream,
    door: &Door,
    handler: Arc<dyn PeerHandler>,
) -> io::Result<()> {
    let late = |_| io::Error::new(io::ErrorKind::TimedOut, "no introduction in time");
    let admitted = tokio::time::timeout(PEER_CONNECT_TIMEOUT, door.admit(stream));
    let (stream, peer) = admitted.await.map_err(late)??;
    let served = match stream {
        PeerStream::Plain(stream) => {
            let (reader, writer) = stream.into_split();
            serve_peer(reader, writer, &handler).await
        }
        PeerStream::Tls(stream) => {
            let (reader, writer) = tokio::io::split(stream);
            serve_peer(reader, writer, &handler).await
        }
    };
    handler.on_disconnected(peer);
    served
}

/// Decides who comes in.
struct Door {
    identity: Arc<Identity>,
    /// What was said of those who did not.
    refusals: Mutex<HashSet<String>>,
}

impl Door {
    /// The handshake, where there is one, and the exchange of introductions: who is there.
    async fn admit(&self, mut stream: TcpStream) -> io::Result<(PeerStream, BrokerId)> {
        stream.set_nodelay(true)?;
        let from = stream.peer_addr()?.ip().to_canonical().to_string();
        let (stream, met) = match self.identity.tls() {
            None => match self.identity.meet(&mut stream, &[]).await {
                Ok(met) => (PeerStream::Plain(stream), met),
                Err(error) => return Err(self.refuse(error, &from, &mut stream).await),
            },
            Some(tls) => {
                let (mut stream, channel) = match tls.accept(stream).await {
                    Ok(accepted) => accepted,
                    Err((error, mut stream)) => {
                        return Err(self.refuse(error, &from, &mut stream).await);
                    }
                };
                match self.identity.meet(&mut stream, &channel).await {
                    Ok(met) => (PeerStream::Tls(stream), met),
                    Err(error) => return Err(self.refuse(error, &from, &mut stream).await),
                }
            }
        };
        Ok((stream, met.broker_id))
    }

    /// Ends a connection that does not come in. Who is refused tries again and again: it is said
    /// once.
    async fn refuse<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        error: io::Error,
        from: &str,
        stream: &mut S,
    ) -> io::Error {
        if error.kind() == io::ErrorKind::PermissionDenied {
            self.say_once(format!("a connection from {from} was refused: {error}"));
            part(stream).await;
        }
        error
    }

    fn say_once(&self, refusal: String) {
        let mut refusals = self.refusals.lock();
        if refusals.len() >= PEER_REFUSALS_REMEMBERED {
            refusals.clear();
        }
        if !refusals.contains(&refusal) {
            tracing::warn!("{refusal}");
            refusals.insert(refusal);
        }
    }
}

async fn serve_peer(
    mut reader: impl AsyncRead + Unpin,
    writer: impl AsyncWrite + Send + Unpin + 'static,
    handler: &Arc<dyn PeerHandler>,
) -> io::Result<()> {
    let (answers, queued) = mpsc::channel(PEER_CALLS_IN_FLIGHT);
    // Given up with the connection, whoever still works on an answer.
    let writing = AbortOnDropHandle::new(tokio::spawn(write_answers(writer, queued)));
    let in_flight = Arc::new(Semaphore::new(PEER_CALLS_IN_FLIGHT));
    while let Some(request) = frame::read(&mut reader).await? {
        if request.frame_type != FrameType::Request {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "not a request"));
        }
        // At the limit the socket is no longer read.
        let Ok(permit) = in_flight.clone().acquire_owned().await else { break };
        let (handler, answers) = (handler.clone(), answers.clone());
        tokio::spawn(async move {
            let PeerFrame { correlation, group, message, .. } = request;
            let answer = match handler.handle(group, message).await {
                Ok(message) => {
                    PeerFrame { frame_type: FrameType::Answer, correlation, group, message }
                }
                Err(error) => PeerFrame::refusal(correlation, group, error.to_string()),
            };
            // A connection that broke meanwhile wants no answer.
            answers.send(answer).await.ok();
            drop(permit);
        });
    }
    drop(answers);
    writing.await.unwrap_or(Ok(()))
}

async fn write_answers(
    mut writer: impl AsyncWrite + Unpin,
    mut answers: mpsc::Receiver<PeerFrame>,
) -> io::Result<()> {
    while let Some(answer) = answers.recv().await {
        frame::write(&mut writer, answer).await?;
    }
    Ok(())
}
