//! One request and what came of it, as a tree; and the broker's own ids taken out of it.

use std::io::{self, ErrorKind};
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use compat_tests::Connection;
use compat_tests::client::CLIENT_ID;
use kafka_protocol::messages::{ApiKey, RequestHeader, ResponseHeader, ResponseKind};
use kafka_protocol::protocol::{Decodable, Encodable, StrBytes};

use crate::case::Memory;
use crate::records;
use crate::tree::Node;

/// How long an answer may take: far longer than any request of a case asks to wait.
const ANSWERED_WITHIN: Duration = Duration::from_secs(8);

/// What came of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// An answer.
    Answer(Node),
    /// The connection was closed instead.
    Closed,
    /// Neither came in time.
    Nothing,
    /// Bytes that are not an answer to the request, and why.
    Undecodable(String),
}

impl Outcome {
    /// The answer, or one word for what came instead.
    pub fn node(&self) -> Node {
        match self {
            Outcome::Answer(node) => node.clone(),
            Outcome::Closed => Node::word("connection-closed"),
            Outcome::Nothing => Node::word("no-answer"),
            Outcome::Undecodable(why) => Node::Text(format!("undecodable: {why}")),
        }
    }
}

/// A request's frame without its length.
pub fn frame(api: ApiKey, version: i16, correlation_id: i32, body: &[u8]) -> io::Result<Bytes> {
    let mut frame = BytesMut::new();
    RequestHeader::default()
        .with_request_api_key(api as i16)
        .with_request_api_version(version)
        .with_correlation_id(correlation_id)
        .with_client_id(Some(StrBytes::from_static_str(CLIENT_ID)))
        .encode(&mut frame, api.request_header_version(version))
        .map_err(io::Error::other)?;
    frame.put_slice(body);
    Ok(frame.freeze())
}

/// One connection to one broker, which knows whether it is still open.
pub struct Talk {
    connection: Connection,
    correlation_id: i32,
}

impl Talk {
    pub fn new(connection: Connection) -> io::Result<Talk> {
        connection.set_read_timeout(ANSWERED_WITHIN)?;
        Ok(Talk { connection, correlation_id: 100 })
    }

    /// Sends a request and waits for what comes; the answer's body is returned beside its tree.
    pub fn ask(&mut self, api: ApiKey, version: i16, body: &[u8]) -> io::Result<(Outcome, Bytes)> {
        if self.send(api, version, body).is_err() {
            return Ok((Outcome::Closed, Bytes::new()));
        }
        let frame = match self.connection.receive_frame() {
            Ok(Some(frame)) => frame,
            Ok(None) => return Ok((Outcome::Closed, Bytes::new())),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                return Ok((Outcome::Nothing, Bytes::new()));
            }
            Err(error) => return Err(error),
        };
        Ok(match self.decode(api, version, frame) {
            Ok((node, body)) => (Outcome::Answer(node), body),
            Err(why) => (Outcome::Undecodable(why), Bytes::new()),
        })
    }

    /// Sends without waiting.
    pub fn send(&mut self, api: ApiKey, version: i16, body: &[u8]) -> io::Result<()> {
        self.correlation_id += 1;
        let frame = frame(api, version, self.correlation_id, body)?;
        self.connection.send_frame(&frame)
    }

    fn decode(&self, api: ApiKey, version: i16, mut frame: Bytes) -> Result<(Node, Bytes), String> {
        let version = answered_version(api, version, &frame);
        let header_version = api.response_header_version(version);
        let header = ResponseHeader::decode(&mut frame, header_version).map_err(text)?;
        if header.correlation_id != self.correlation_id {
            let (got, sent) = (header.correlation_id, self.correlation_id);
            return Err(format!("answer {got} to request {sent}"));
        }
        let body = frame.clone();
        let response = ResponseKind::decode(api, &mut frame, version).map_err(text)?;
        if !frame.is_empty() {
            return Err(format!("{} bytes behind the answer", frame.len()));
        }
        Ok((Node::parse(&format!("{response:?}"))?, body))
    }
}

/// An answer to an ApiVersions request of an unknown version is one of version 0.
fn answered_version(api: ApiKey, version: i16, frame: &Bytes) -> i16 {
    let known = version <= ApiKey::ApiVersions.valid_versions().max;
    let error_code = frame.get(4..6).map_or(0, |mut code| code.get_i16());
    if api == ApiKey::ApiVersions && (!known || error_code == 35) { 0 } else { version }
}

fn text(error: impl std::fmt::Display) -> String {
    format!("{error:#}")
}

/// Names topic ids after their topics and kept strings after what they are, shows record bytes as
/// batches, and leader epochs by their distance from the one that the broker started with.
pub fn neutral(node: &mut Node, memory: &Memory) {
    match node {
        Node::Fields(fields) => {
            for (name, value) in fields {
                match value {
                    Node::Bytes(bytes) if name == "records" => *value = records::tree(bytes),
                    Node::Word(word) if name.ends_with("leader_epoch") => {
                        let epoch: i64 = word.parse().unwrap_or(-1);
                        if epoch >= 0 {
                            let distance = epoch - i64::from(memory.leader_epoch);
                            *word = format!("start{distance:+}");
                        }
                    }
                    _ => {}
                }
                neutral(value, memory);
            }
        }
        Node::List(items) => items.iter_mut().for_each(|item| neutral(item, memory)),
        Node::Word(word) => {
            if let Ok(id) = word.parse::<uuid::Uuid>() {
                let name = memory.topic_ids.iter().find(|(_, known)| **known == id);
                *word = name.map_or(word.clone(), |(name, _)| format!("id-of-{name}"));
            }
        }
        Node::Text(text) => {
            for (kept, name) in memory.kept_texts().filter(|(kept, _)| !kept.is_empty()) {
                *text = text.replace(kept, &format!("<{name}>"));
            }
        }
        Node::Bytes(_) => {}
    }
}
