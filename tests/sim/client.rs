//! A client's connections, and where it believes the partitions to be led.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use cluster::testing::NODES;
use cluster::testing::network::host;
use compat_tests::client::{decode_response, encode_request};
use compat_tests::requests::{METADATA_VERSION, metadata};
use kafka_protocol::protocol::Request;
use rand::Rng;
use rand::rngs::StdRng;
use turmoil::net::TcpStream;

use crate::front::{self, Frames};
use crate::world::TOPIC;

/// How long a client waits for an answer before it gives the connection up.
const PATIENCE: Duration = Duration::from_millis(1_500);
/// Between two attempts.
pub const PAUSE: Duration = Duration::from_millis(50);

/// Who leads a partition, and since which epoch.
#[derive(Clone, Copy)]
pub struct Leader {
    pub node: u64,
    pub epoch: i32,
}

/// A connection to each broker that it has to do with.
pub struct Client {
    pub rng: StdRng,
    connections: BTreeMap<u64, Frames>,
    leaders: BTreeMap<i32, Leader>,
    next_correlation_id: i32,
}

impl Client {
    pub fn new(rng: StdRng) -> Client {
        let (connections, leaders) = (BTreeMap::new(), BTreeMap::new());
        Client { rng, connections, leaders, next_correlation_id: 0 }
    }

    /// Any broker.
    pub fn any(&mut self) -> u64 {
        NODES[self.rng.random_range(0..NODES.len())]
    }

    /// Sends a request to a broker and waits for its answer. What comes late is never read: the
    /// connection is given up.
    pub async fn call<R: Request>(
        &mut self,
        node: u64,
        version: i16,
        request: &R,
    ) -> io::Result<R::Response> {
        self.next_correlation_id += 1;
        let frame = encode_request(version, self.next_correlation_id, request)?;
        let connection = self.connections.remove(&node);
        let exchange = async {
            let mut connection = match connection {
                Some(connection) => connection,
                None => front::frames(TcpStream::connect((host(node), front::PORT)).await?),
            };
            let answer = front::exchange(&mut connection, &frame).await?;
            Ok::<_, io::Error>((connection, answer))
        };
        let (connection, answer) = tokio::time::timeout(PATIENCE, exchange).await??;
        let answer = answer.ok_or_else(|| io::Error::other("the broker hung up"))?;
        self.connections.insert(node, connection);
        let (correlation_id, response) = decode_response::<R>(version, answer.freeze())?;
        assert_eq!(correlation_id, self.next_correlation_id, "an answer to another request");
        Ok(response)
    }

    /// The leader as it is believed to be; asks a broker when nothing is.
    pub async fn leader(&mut self, partition: i32) -> Leader {
        loop {
            if let Some(leader) = self.leaders.get(&partition) {
                return *leader;
            }
            let node = self.any();
            let request = metadata(&[TOPIC], false);
            if let Ok(response) = self.call(node, METADATA_VERSION, &request).await {
                for row in response.topics.iter().flat_map(|topic| &topic.partitions) {
                    if let Ok(node) = u64::try_from(row.leader_id.0) {
                        let leader = Leader { node, epoch: row.leader_epoch };
                        self.leaders.insert(row.partition_index, leader);
                    }
                }
            }
            if !self.leaders.contains_key(&partition) {
                tokio::time::sleep(PAUSE).await;
            }
        }
    }

    /// The leader is to be asked for anew, after a while.
    pub async fn forget_leader(&mut self, partition: i32) {
        self.leaders.remove(&partition);
        tokio::time::sleep(PAUSE).await;
    }
}
