//! Peers over turmoil's TCP: a frame is group, kind, head and body, each with its length.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use protocol::types::BrokerId;
use storage::log_store::GroupId;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use turmoil::net::{TcpListener, TcpStream};

use crate::Cluster;
use crate::transport::{PeerError, PeerMessage, PeerTransport};

const PORT: u16 = 9093;
const OK: u8 = 0;

/// A machine's name in the simulated network.
#[must_use]
pub fn host(id: u64) -> String {
    format!("node-{id}")
}

/// Idle connections are kept, a connection that failed is dropped.
#[derive(Debug, Default, Clone)]
pub struct SimTransport {
    idle: Arc<Mutex<BTreeMap<i32, Vec<TcpStream>>>>,
}

impl SimTransport {
    async fn exchange(
        &self,
        target: i32,
        group: GroupId,
        message: &PeerMessage,
    ) -> io::Result<Result<PeerMessage, PeerError>> {
        let idle = self.idle.lock().entry(target).or_default().pop();
        let mut stream = match idle {
            Some(stream) => stream,
            None => TcpStream::connect((host(target as u64), PORT)).await?,
        };
        write_frame(&mut stream, group, message).await?;
        let status = stream.read_u8().await?;
        let (_, answer) = read_frame(&mut stream).await?;
        self.idle.lock().entry(target).or_default().push(stream);
        if status == OK {
            return Ok(Ok(answer));
        }
        Ok(Err(PeerError::Unreachable(String::from_utf8_lossy(&answer.head).into_owned())))
    }
}

impl PeerTransport for SimTransport {
    fn call(
        &self,
        target: BrokerId,
        group: GroupId,
        message: PeerMessage,
        timeout: Duration,
    ) -> BoxFuture<'static, Result<PeerMessage, PeerError>> {
        let this = self.clone();
        Box::pin(async move {
            match tokio::time::timeout(timeout, this.exchange(target.0, group, &message)).await {
                Ok(Ok(answer)) => answer,
                Ok(Err(error)) => Err(PeerError::Unreachable(error.to_string())),
                Err(_) => Err(PeerError::TimedOut),
            }
        })
    }
}

async fn write_frame(
    stream: &mut TcpStream,
    group: GroupId,
    message: &PeerMessage,
) -> io::Result<()> {
    let body = message.body.concat();
    let mut frame = Vec::with_capacity(17 + message.head.len() + body.len());
    frame.extend_from_slice(&group.0.to_be_bytes());
    frame.push(message.kind);
    frame.extend_from_slice(&(message.head.len() as u32).to_be_bytes());
    frame.extend_from_slice(&(body.len() as u32).to_be_bytes());
    frame.extend_from_slice(&message.head);
    frame.extend_from_slice(&body);
    stream.write_all(&frame).await
}

async fn read_frame(stream: &mut TcpStream) -> io::Result<(GroupId, PeerMessage)> {
    let group = GroupId(stream.read_u64().await?);
    let kind = stream.read_u8().await?;
    let head_len = stream.read_u32().await? as usize;
    let body_len = stream.read_u32().await? as usize;
    let mut head = vec![0; head_len];
    stream.read_exact(&mut head).await?;
    let mut body = vec![0; body_len];
    stream.read_exact(&mut body).await?;
    Ok((group, PeerMessage { kind, head: head.into(), body: vec![Bytes::from(body)] }))
}

/// Answers peers until the machine stops.
///
/// # Errors
/// The port cannot be had.
pub async fn serve(cluster: Arc<Cluster>) -> io::Result<()> {
    let listener = TcpListener::bind(("0.0.0.0", PORT)).await?;
    loop {
        let (stream, _) = listener.accept().await?;
        let cluster = cluster.clone();
        super::spawn(async move {
            // A connection that breaks is the caller's to make anew.
            serve_connection(stream, &cluster).await.ok();
        });
    }
}

async fn serve_connection(mut stream: TcpStream, cluster: &Cluster) -> io::Result<()> {
    loop {
        let (group, message) = read_frame(&mut stream).await?;
        let (status, answer) = match cluster.handle_peer(group, message).await {
            Ok(answer) => (OK, answer),
            Err(error) => {
                let head = error.to_string().into();
                (1, PeerMessage { kind: 0, head, body: Vec::new() })
            }
        };
        stream.write_u8(status).await?;
        write_frame(&mut stream, group, &answer).await?;
    }
}
