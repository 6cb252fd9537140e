//! Encryption of connections between brokers, and how its failures are said.
//!
//! Which certificates are shown and trusted is decided by whoever makes the two configurations.

use std::io;
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{AlertDescription, ClientConfig, ServerConfig};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, TlsConnector, TlsStream};

/// TLS of both directions: a broker calls and is called.
#[derive(Clone)]
pub struct PeerTls {
    connector: TlsConnector,
    acceptor: TlsAcceptor,
}

impl std::fmt::Debug for PeerTls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PeerTls")
    }
}

/// Bytes that both ends of one encrypted connection have, and nobody else.
pub(super) type Channel = [u8; 32];

/// What they are for.
const CHANNEL_LABEL: &[u8] = b"EXPORTER-highwater-introduction";

/// A connection to or from a broker. Plain ones are the sockets themselves, so that records go
/// through no layer of ours.
pub(super) enum PeerStream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl PeerTls {
    /// With what is used where this broker calls, and where it is called.
    #[must_use]
    pub fn new(client: Arc<ClientConfig>, server: Arc<ServerConfig>) -> PeerTls {
        PeerTls { connector: client.into(), acceptor: server.into() }
    }

    /// Shakes hands with the broker that is called at `address`, a `host:port`.
    pub(super) async fn connect(
        &self,
        stream: TcpStream,
        address: &str,
    ) -> io::Result<(Box<TlsStream<TcpStream>>, Channel)> {
        let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| refused(format!("{host} is no name that a certificate can have")))?;
        let stream = self.connector.connect(name, stream).await.map_err(explained)?;
        let channel = stream.get_ref().1.export_keying_material([0; 32], CHANNEL_LABEL, None);
        let channel = channel.map_err(|error| refused(sentence(&error)))?;
        Ok((Box::new(stream.into()), channel))
    }

    /// Shakes hands with a broker that has called. One that fails is told why.
    pub(super) async fn accept(
        &self,
        stream: TcpStream,
    ) -> Result<(Box<TlsStream<TcpStream>>, Channel), (io::Error, TcpStream)> {
        let stream = self.acceptor.accept(stream).into_fallible().await;
        let stream = stream.map_err(|(error, stream)| (explained(error), stream))?;
        let channel = stream.get_ref().1.export_keying_material([0; 32], CHANNEL_LABEL, None);
        match channel {
            Ok(channel) => Ok((Box::new(stream.into()), channel)),
            Err(error) => Err((refused(sentence(&error)), stream.into_inner().0)),
        }
    }
}

pub(super) fn refused(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, why)
}

/// What went wrong with TLS, as a refusal with a sentence; other errors stay what they are.
pub(super) fn explained(error: io::Error) -> io::Error {
    match error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
        Some(inner) => refused(sentence(inner)),
        None => error,
    }
}

/// About the other side.
fn sentence(error: &rustls::Error) -> String {
    use rustls::Error;
    match error {
        Error::InvalidMessage(_) => {
            format!("it does not speak TLS, or not all of it ({error}): is it PLAINTEXT there?")
        }
        Error::InvalidCertificate(why) => format!("its certificate is refused: {why}"),
        Error::NoCertificatesPresented => "it shows no certificate, and one is required".to_owned(),
        Error::AlertReceived(alert) => match alert {
            AlertDescription::UnknownCA
            | AlertDescription::BadCertificate
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateUnknown
            | AlertDescription::UnsupportedCertificate => {
                format!("it refuses this broker's certificate: {alert:?}")
            }
            AlertDescription::CertificateRequired => {
                "it requires a certificate, and this broker shows none".to_owned()
            }
            _ => format!("it has ended the TLS handshake: {alert:?}"),
        },
        _ => format!("TLS with it fails: {error}"),
    }
}

/// Ends a connection so that the other side can read what it was told last: the system would take
/// that back if bytes from there were left unread. Ends when the other side has closed, too.
pub(super) async fn part<S: AsyncRead + AsyncWrite + Unpin>(stream: &mut S) {
    let mut rest = [0; 1024];
    // Whatever happens to the connection now, it has ended.
    stream.shutdown().await.ok();
    while matches!(stream.read(&mut rest).await, Ok(1..)) {}
}
