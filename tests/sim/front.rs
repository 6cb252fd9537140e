//! The brokers' listener on the simulated network: frames to the dispatcher, and its replies in the
//! order of the requests.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use futures::stream::FuturesOrdered;
use futures::{FutureExt, StreamExt};
use highwater::context::Services;
use highwater::dispatch::Dispatcher;
use highwater::net::budget::InFlightBudget;
use highwater::net::connection::{Handled, Peer, ReplyBytes, RequestHandler};
use highwater::net::frame_reader::Frame;
use storage::log_store::RecordSlice;
use tokio::io::AsyncWriteExt;
use tokio_util::codec::{Framed, LengthDelimitedCodec};
use turmoil::net::{TcpListener, TcpStream};

/// Where clients reach a broker.
pub const PORT: u16 = 9092;
const BUDGET_BYTES: usize = 64 << 20;

/// A connection of either side, as frames without their lengths.
pub type Frames = Framed<TcpStream, LengthDelimitedCodec>;

/// Frames of a stream.
pub fn frames(stream: TcpStream) -> Frames {
    Framed::new(stream, LengthDelimitedCodec::new())
}

/// Answers clients until the machine stops.
pub async fn serve(services: Arc<Services>) -> io::Result<()> {
    let listener = TcpListener::bind(("0.0.0.0", PORT)).await?;
    let dispatcher = Arc::new(Dispatcher::new(services));
    let budget = InFlightBudget::new(BUDGET_BYTES);
    loop {
        let (stream, address) = listener.accept().await?;
        let peer = peer(&stream, address)?;
        let (dispatcher, budget) = (dispatcher.clone(), budget.clone());
        cluster::testing::spawn(async move {
            // A connection that breaks is the client's to make anew.
            serve_connection(stream, &peer, &dispatcher, &budget).await.ok();
        });
    }
}

fn peer(stream: &TcpStream, peer_address: SocketAddr) -> io::Result<Peer> {
    let local_address = stream.local_addr()?;
    Ok(Peer { listener: "PLAINTEXT".into(), local_address, peer_address })
}

async fn serve_connection(
    stream: TcpStream,
    peer: &Peer,
    dispatcher: &Dispatcher,
    budget: &Arc<InFlightBudget>,
) -> io::Result<()> {
    let mut stream = frames(stream);
    let mut replies = FuturesOrdered::new();
    loop {
        tokio::select! {
            biased;
            Some(reply) = replies.next(), if !replies.is_empty() => {
                let reply: ReplyBytes = match reply {
                    Ok(reply) => reply,
                    Err(_closed) => return Ok(()),
                };
                write(&mut stream, reply).await?;
            }
            frame = stream.next() => {
                let Some(frame) = frame else { return Ok(()) };
                let frame = Frame { bytes: frame?.freeze(), reservation: budget.reservation() };
                match dispatcher.handle(peer, frame).await {
                    Handled::Ready(reply) => {
                        replies.push_back(std::future::ready(Ok(reply)).boxed());
                    }
                    Handled::Later(reply) => replies.push_back(reply),
                    Handled::Close(_) => return Ok(()),
                }
            }
        }
    }
}

/// A reply has its length in front already; none is sent where there is nothing to say.
async fn write(stream: &mut Frames, reply: ReplyBytes) -> io::Result<()> {
    for slice in reply {
        match slice {
            RecordSlice::Memory(bytes) => stream.get_mut().write_all(&bytes).await?,
            RecordSlice::File { .. } => panic!("the simulated disk has no files"),
        }
    }
    stream.get_mut().flush().await
}

/// The frame that answers, or `None` when the broker has hung up.
pub async fn exchange(stream: &mut Frames, request: &Bytes) -> io::Result<Option<BytesMut>> {
    stream.get_mut().write_all(request).await?;
    stream.next().await.transpose()
}
