//! The listening sockets: IPv6 and IPv4 on one, several of them by name, and the limits on how many
//! connections there are.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;

use parking_lot::Mutex;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{debug, info, warn};

use crate::limits::{ACCEPT_BACKOFF_MAX, ACCEPT_BACKOFF_MIN, LISTEN_BACKLOG};
use crate::net::connection::{CloseReason, ConnectionLimits, Peer, RequestHandler, run_connection};
use crate::telemetry::{self, ListenerMetrics};

/// A socket that has its address but takes no connections yet: the port is known, and reserved,
/// before the broker can serve.
#[derive(Debug)]
pub struct BoundListener {
    name: Arc<str>,
    socket: Socket,
    address: SocketAddr,
}

impl BoundListener {
    /// Binds. An empty host means every address, IPv6 and IPv4, or IPv4 alone where there is no
    /// IPv6. Port 0 takes a free one.
    ///
    /// # Errors
    /// A sentence with the address and what the system says.
    pub fn bind(name: &str, host: &str, port: u16) -> Result<BoundListener, String> {
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let failed =
            |error: io::Error| format!("listener {name} cannot be bound to {host}:{port}: {error}");
        let socket = match host {
            "" | "::" => bind_any(port),
            _ => resolve(host, port).and_then(|addresses| bind_first(&addresses)),
        };
        let socket = socket.map_err(failed)?;
        let address = socket.local_addr().map_err(failed)?.as_socket().ok_or_else(|| {
            format!("listener {name} is bound to an address that is not an IP address")
        })?;
        Ok(BoundListener { name: name.into(), socket, address })
    }

    /// The name it is configured and advertised by.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where it is bound.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// From here on clients can connect.
    fn listen(&self) -> io::Result<TcpListener> {
        self.socket.listen(LISTEN_BACKLOG)?;
        TcpListener::from_std(self.socket.try_clone()?.into())
    }
}

fn bind_any(port: u16) -> io::Result<Socket> {
    let every_ipv6 = SocketAddr::from((Ipv6Addr::UNSPECIFIED, port));
    match bind_socket(every_ipv6) {
        Ok(socket) => Ok(socket),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => Err(error),
        Err(error) => {
            debug!(%error, "no IPv6 here, listening on IPv4 alone");
            bind_socket(SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)))
        }
    }
}

fn resolve(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    Ok((host, port).to_socket_addrs()?.collect())
}

fn bind_first(addresses: &[SocketAddr]) -> io::Result<Socket> {
    let mut last_error = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in addresses {
        match bind_socket(*address) {
            Ok(socket) => return Ok(socket),
            Err(error) => last_error = error,
        }
    }
    Err(last_error)
}

fn bind_socket(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if address.ip() == IpAddr::V6(Ipv6Addr::UNSPECIFIED) {
        socket.set_only_v6(false)?;
    }
    // A restarted broker must get its port while connections of the old one are in TIME_WAIT.
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    Ok(socket)
}

/// How many connections there may be, over all listeners.
#[derive(Debug)]
pub struct ConnectionQuota {
    total: Arc<Semaphore>,
    max_per_ip: usize,
    by_ip: Mutex<HashMap<IpAddr, usize>>,
}

impl ConnectionQuota {
    /// `max.connections` and `max.connections.per.ip`.
    #[must_use]
    pub fn new(max_connections: usize, max_per_ip: usize) -> Arc<ConnectionQuota> {
        let total = Arc::new(Semaphore::new(max_connections.min(Semaphore::MAX_PERMITS)));
        Arc::new(ConnectionQuota { total, max_per_ip, by_ip: Mutex::default() })
    }

    /// `None` when that address has all the connections it may have.
    fn admit(self: &Arc<Self>, ip: IpAddr, total: OwnedSemaphorePermit) -> Option<Admission> {
        let ip = ip.to_canonical();
        let mut by_ip = self.by_ip.lock();
        let count = by_ip.entry(ip).or_default();
        if *count >= self.max_per_ip {
            return None;
        }
        *count += 1;
        Some(Admission { quota: Arc::clone(self), ip, _total: total })
    }
}

/// A connection's place within the quota; given back when dropped.
#[derive(Debug)]
struct Admission {
    quota: Arc<ConnectionQuota>,
    ip: IpAddr,
    _total: OwnedSemaphorePermit,
}

impl Drop for Admission {
    fn drop(&mut self) {
        let mut by_ip = self.quota.by_ip.lock();
        if let Some(count) = by_ip.get_mut(&self.ip) {
            *count -= 1;
            if *count == 0 {
                by_ip.remove(&self.ip);
            }
        }
    }
}

/// What all listeners share.
pub struct Acceptor<H> {
    /// Handles the requests.
    pub handler: Arc<H>,
    /// Bounds of each connection.
    pub limits: ConnectionLimits,
    /// Bounds of their number.
    pub quota: Arc<ConnectionQuota>,
    /// The tasks of all connections.
    pub connections: TaskTracker,
    /// Cancelled once: no more connections, no more requests.
    pub shutdown: CancellationToken,
    /// Cancelled when requests in flight had their time: connections end where they are.
    pub abort: CancellationToken,
}

impl<H> Clone for Acceptor<H> {
    fn clone(&self) -> Self {
        Acceptor {
            handler: Arc::clone(&self.handler),
            limits: self.limits.clone(),
            quota: Arc::clone(&self.quota),
            connections: self.connections.clone(),
            shutdown: self.shutdown.clone(),
            abort: self.abort.clone(),
        }
    }
}

impl<H: RequestHandler> Acceptor<H> {
    /// Takes connections on all listeners, in the background until the shutdown. Each listens
    /// before any is served, so that a client that was answered by one can reach the others.
    ///
    /// # Errors
    /// When a socket cannot listen.
    pub fn start(&self, bound: &[BoundListener]) -> io::Result<()> {
        let listeners: Vec<TcpListener> =
            bound.iter().map(BoundListener::listen).collect::<io::Result<_>>()?;
        for (bound, listener) in bound.iter().zip(listeners) {
            info!(listener = %bound.name, address = %bound.address, "listening");
            let metrics = telemetry::listener_metrics(&bound.name);
            let accept = self.clone().run_accept(listener, Arc::clone(&bound.name), metrics);
            self.connections.spawn(accept);
        }
        Ok(())
    }

    async fn run_accept(self, listener: TcpListener, name: Arc<str>, metrics: ListenerMetrics) {
        let mut backoff = ACCEPT_BACKOFF_MIN;
        loop {
            let accepted = tokio::select! {
                () = self.shutdown.cancelled() => return,
                accepted = self.accept_one(&listener) => accepted,
            };
            match accepted {
                Ok((stream, peer_address, permit)) => {
                    backoff = ACCEPT_BACKOFF_MIN;
                    let Some(admission) = self.quota.admit(peer_address.ip(), permit) else {
                        debug!(%peer_address, "closed: max.connections.per.ip is reached");
                        metrics.refused.increment(1);
                        continue;
                    };
                    self.serve(stream, peer_address, admission, &name, &metrics);
                }
                Err(error) if is_of_the_client(&error) => {}
                Err(error) => {
                    // Too many open files, say: connections wait in the backlog meanwhile.
                    warn!(listener = %name, %error, "cannot accept a connection");
                    metrics.accept_errors.increment(1);
                    tokio::time::sleep(backoff).await;
                    backoff = (backoff * 2).min(ACCEPT_BACKOFF_MAX);
                }
            }
        }
    }

    async fn accept_one(
        &self,
        listener: &TcpListener,
    ) -> io::Result<(TcpStream, SocketAddr, OwnedSemaphorePermit)> {
        // At `max.connections` nothing is accepted, as in Kafka; the semaphore is never closed.
        let permit = Arc::clone(&self.quota.total).acquire_owned().await;
        let permit = permit.map_err(io::Error::other)?;
        let (stream, peer_address) = listener.accept().await?;
        Ok((stream, peer_address, permit))
    }

    fn serve(
        &self,
        stream: TcpStream,
        peer_address: SocketAddr,
        admission: Admission,
        name: &Arc<str>,
        metrics: &ListenerMetrics,
    ) {
        let Ok(local_address) = stream.local_addr() else { return };
        if let Err(error) = stream.set_nodelay(true) {
            debug!(%peer_address, %error, "the client went before it was served");
            return;
        }
        metrics.accepted.increment(1);
        metrics.connections.increment(1);
        let connections = metrics.connections.clone();
        let peer = Peer { listener: Arc::clone(name), local_address, peer_address };
        let served = run_connection(
            stream,
            peer,
            Arc::clone(&self.handler),
            self.limits.clone(),
            self.shutdown.clone(),
        );
        let abort = self.abort.clone();
        self.connections.spawn(async move {
            let reason = tokio::select! {
                reason = served => reason,
                () = abort.cancelled() => CloseReason::Shutdown,
            };
            log_close(peer_address, &reason);
            telemetry::connection_closed(reason.label());
            connections.decrement(1);
            drop(admission);
        });
    }
}

fn log_close(peer_address: SocketAddr, reason: &CloseReason) {
    match reason {
        CloseReason::Request(why) => info!(client = %peer_address, why, "connection closed"),
        CloseReason::Client | CloseReason::Idle | CloseReason::Shutdown | CloseReason::Io(_) => {
            debug!(client = %peer_address, ?reason, "connection closed")
        }
    }
}

/// Errors of `accept` that are about the connection that was to be accepted, and none of ours.
fn is_of_the_client(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
    )
}
