//! One connection: frames out, frames in, and the messages of `kafka-protocol` on top. Blocking,
//! with a time limit on every read, so that a silent broker fails a test instead of hanging it.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use kafka_protocol::messages::{RequestHeader, ResponseHeader};
use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion, Request, StrBytes};

/// How long an answer may take before the test fails.
pub const READ_TIMEOUT: Duration = Duration::from_secs(30);

/// As the client names itself.
pub const CLIENT_ID: &str = "compat-tests";

/// A connection to a broker.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    next_correlation_id: i32,
}

impl Connection {
    /// Connects.
    pub fn open(address: SocketAddr) -> io::Result<Connection> {
        Connection::open_within(address, READ_TIMEOUT)
    }

    /// Connects; that, every write and every answer may take so long.
    pub fn open_within(address: SocketAddr, timeout: Duration) -> io::Result<Connection> {
        let stream = TcpStream::connect_timeout(&address, timeout)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(timeout))?;
        stream.set_write_timeout(Some(timeout))?;
        Ok(Connection { stream, next_correlation_id: 0 })
    }

    /// Limits how long an answer may take.
    pub fn set_read_timeout(&self, timeout: Duration) -> io::Result<()> {
        self.stream.set_read_timeout(Some(timeout))
    }

    /// A second handle on the same connection, to write and read in two threads.
    pub fn try_clone(&self) -> io::Result<Connection> {
        let next_correlation_id = self.next_correlation_id;
        Ok(Connection { stream: self.stream.try_clone()?, next_correlation_id })
    }

    /// Sends a request and returns its answer.
    ///
    /// # Panics
    /// When the connection breaks, or the answer is not one: for tests that expect an answer.
    pub fn call<R: Request>(&mut self, version: i16, request: &R) -> R::Response {
        match self.try_call(version, request) {
            Ok(response) => response,
            Err(error) => panic!("no answer to API {} v{version}: {error}", R::KEY),
        }
    }

    /// Sends a request and returns its answer.
    pub fn try_call<R: Request>(&mut self, version: i16, request: &R) -> io::Result<R::Response> {
        let sent = self.send(version, request)?;
        let (received, response) = self.receive::<R>(version)?;
        if sent == received {
            Ok(response)
        } else {
            Err(io::Error::other(format!("answer {received} to request {sent}")))
        }
    }

    /// Sends a request without waiting; returns its correlation id.
    pub fn send<R: Request>(&mut self, version: i16, request: &R) -> io::Result<i32> {
        let correlation_id = self.next_correlation_id;
        self.next_correlation_id = correlation_id.wrapping_add(1);
        let frame = encode_request(version, correlation_id, request)?;
        self.stream.write_all(&frame)?;
        Ok(correlation_id)
    }

    /// Reads the next answer, which must be one to an `R` of this version.
    pub fn receive<R: Request>(&mut self, version: i16) -> io::Result<(i32, R::Response)> {
        let frame = self
            .receive_frame()?
            .ok_or_else(|| io::Error::new(ErrorKind::UnexpectedEof, "the broker hung up"))?;
        decode_response::<R>(version, frame)
    }

    /// Sends bytes as they are.
    pub fn send_raw(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// Sends `body` with its length in front.
    pub fn send_frame(&mut self, body: &[u8]) -> io::Result<()> {
        let mut frame = BytesMut::with_capacity(4 + body.len());
        frame.put_i32(i32::try_from(body.len()).map_err(invalid)?);
        frame.put_slice(body);
        self.stream.write_all(&frame)
    }

    /// Reads one frame, without its length; `None` when the broker has closed the connection
    /// (or reset it, which is how the kernel closes one with unread bytes).
    pub fn receive_frame(&mut self) -> io::Result<Option<Bytes>> {
        let mut length = [0; 4];
        match self.stream.read_exact(&mut length) {
            Ok(()) => {}
            Err(error) if is_closed(&error) => return Ok(None),
            Err(error) => return Err(error),
        }
        let length = usize::try_from(i32::from_be_bytes(length)).map_err(invalid)?;
        let mut frame = vec![0; length];
        self.stream.read_exact(&mut frame)?;
        Ok(Some(Bytes::from(frame)))
    }

    /// Whether the broker closes the connection without another answer, within the read timeout.
    pub fn is_closed_by_peer(&mut self) -> bool {
        matches!(self.receive_frame(), Ok(None))
    }
}

/// A whole frame: length, header, body.
pub fn encode_request<R: Request>(
    version: i16,
    correlation_id: i32,
    request: &R,
) -> io::Result<Bytes> {
    let mut frame = BytesMut::new();
    frame.put_i32(0);
    RequestHeader::default()
        .with_request_api_key(R::KEY)
        .with_request_api_version(version)
        .with_correlation_id(correlation_id)
        .with_client_id(Some(StrBytes::from_static_str(CLIENT_ID)))
        .encode(&mut frame, R::header_version(version))
        .map_err(invalid)?;
    request.encode(&mut frame, version).map_err(invalid)?;
    let length = i32::try_from(frame.len() - 4).map_err(invalid)?;
    frame[..4].copy_from_slice(&length.to_be_bytes());
    Ok(frame.freeze())
}

/// An answer to an `R` of this version, from a frame without its length; with its correlation id.
pub fn decode_response<R: Request>(
    version: i16,
    mut frame: Bytes,
) -> io::Result<(i32, R::Response)> {
    let header_version = R::Response::header_version(version);
    let header = ResponseHeader::decode(&mut frame, header_version).map_err(invalid)?;
    let response = R::Response::decode(&mut frame, version).map_err(invalid)?;
    if !frame.is_empty() {
        return Err(invalid(format!("{} bytes behind the answer", frame.len())));
    }
    Ok((header.correlation_id, response))
}

fn is_closed(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe
    )
}

fn invalid(error: impl std::fmt::Display) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, error.to_string())
}
