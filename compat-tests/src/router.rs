//! How a client finds its way in a cluster that changes: connections that may break, and an idea
//! of who leads that may be old. As Kafka's clients do, it never believes in a leader of a lower
//! epoch than it has seen.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use kafka_protocol::protocol::Request;
use protocol::ErrorCode;

use crate::Connection;
use crate::requests::{METADATA_VERSION, metadata};

/// Who leads a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Leader {
    /// The broker.
    pub id: i32,
    /// Since which epoch.
    pub epoch: i32,
}

/// Why something was not answered with a success.
#[derive(Debug)]
pub enum Failure {
    /// The broker has said so.
    Answered(i16),
    /// No answer.
    Broken(io::ErrorKind),
    /// Nobody knows whom to ask.
    NoLeader,
}

impl Failure {
    /// What the broker has said, if it has.
    #[must_use]
    pub fn code(&self) -> Option<ErrorCode> {
        match self {
            Failure::Answered(code) => ErrorCode::from_code(*code),
            Failure::Broken(_) | Failure::NoLeader => None,
        }
    }

    /// As a table of errors names it.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Failure::Answered(code) => error_name(*code),
            Failure::Broken(kind) => format!("connection: {kind}"),
            Failure::NoLeader => "no leader known".to_owned(),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure::Broken(error.kind())
    }
}

/// The name of an error code.
#[must_use]
pub fn error_name(code: i16) -> String {
    ErrorCode::from_code(code).map_or(format!("error {code}"), |error| error.name().to_owned())
}

/// One client's connections and what it knows of leaders.
#[derive(Debug)]
pub struct Router {
    addresses: BTreeMap<i32, SocketAddr>,
    timeout: Duration,
    connections: BTreeMap<i32, Connection>,
    leaders: BTreeMap<(String, i32), Leader>,
    known_epochs: BTreeMap<(String, i32), i32>,
}

impl Router {
    /// A client without a connection, that waits so long for an answer.
    #[must_use]
    pub fn new(addresses: BTreeMap<i32, SocketAddr>, timeout: Duration) -> Router {
        let (leaders, known_epochs) = (BTreeMap::new(), BTreeMap::new());
        Router { addresses, timeout, connections: BTreeMap::new(), leaders, known_epochs }
    }

    /// Asks a broker, on a connection that is kept until something fails on it.
    ///
    /// # Errors
    /// There is no answer in time.
    pub fn call<R: Request>(
        &mut self,
        broker: i32,
        version: i16,
        request: &R,
    ) -> io::Result<R::Response> {
        self.call_within(broker, version, request, self.timeout)
    }

    /// The same, with more patience.
    ///
    /// # Errors
    /// There is no answer in time.
    pub fn call_within<R: Request>(
        &mut self,
        broker: i32,
        version: i16,
        request: &R,
        timeout: Duration,
    ) -> io::Result<R::Response> {
        let mut connection = match self.connections.remove(&broker) {
            Some(connection) => connection,
            None => self.connect(broker)?,
        };
        connection.set_read_timeout(timeout)?;
        let answer = connection.try_call(version, request)?;
        self.connections.insert(broker, connection);
        Ok(answer)
    }

    /// A new connection of its own.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn connect(&self, broker: i32) -> io::Result<Connection> {
        let address = self.addresses.get(&broker).ok_or(io::ErrorKind::NotFound)?;
        Connection::open_within(*address, self.timeout)
    }

    /// The leader of a partition as it is known, or as the broker `ask` says now.
    ///
    /// # Errors
    /// There is none, or none that is as new as what was known already.
    pub fn leader(&mut self, topic: &str, index: i32, ask: i32) -> Result<Leader, Failure> {
        let place = (topic.to_owned(), index);
        if let Some(leader) = self.leaders.get(&place) {
            return Ok(*leader);
        }
        let answer = self.call(ask, METADATA_VERSION, &metadata(&[topic], false))?;
        let rows = answer.topics.iter().flat_map(|topic| &topic.partitions);
        let row = rows.into_iter().find(|row| row.partition_index == index);
        let row = row.filter(|row| row.leader_id.0 >= 0).ok_or(Failure::NoLeader)?;
        let leader = Leader { id: row.leader_id.0, epoch: row.leader_epoch };
        let known = self.known_epochs.entry(place.clone()).or_insert(leader.epoch);
        if leader.epoch < *known {
            return Err(Failure::NoLeader);
        }
        *known = leader.epoch;
        self.leaders.insert(place, leader);
        Ok(leader)
    }

    /// Asks anew who leads, the next time.
    pub fn forget(&mut self, topic: &str, index: i32) {
        self.leaders.remove(&(topic.to_owned(), index));
    }
}
