//! What three brokers of one cluster are started with: who they are, where they listen, and whom
//! they vote with.

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use crate::BrokerOptions;
use crate::broker::free_ports;

/// The brokers' ids.
pub const IDS: [i32; 3] = [1, 2, 3];

/// What a broker may log as an error: openraft, of what was under way when its group was closed.
pub const ALLOWED_ERRORS: &[&str] =
    &["failed to send HeartbeatProgress", "openraft::raft::raft_inner"];

/// Where the brokers are found.
#[derive(Debug, Clone)]
pub struct Addresses {
    /// By clients.
    pub clients: BTreeMap<i32, SocketAddr>,
    /// By one another.
    pub peers: BTreeMap<i32, SocketAddr>,
}

impl Addresses {
    /// Free ports of this machine.
    ///
    /// # Errors
    /// There are none.
    pub fn on_loopback() -> io::Result<Addresses> {
        // All at once, so that no port is given out twice.
        let ports: [u16; 6] = free_ports()?;
        let at = |ports: &[u16]| {
            let addresses = ports.iter().map(|port| (Ipv4Addr::LOCALHOST, *port).into());
            IDS.into_iter().zip(addresses).collect()
        };
        Ok(Addresses { clients: at(&ports[..3]), peers: at(&ports[3..]) })
    }

    /// As `controller.quorum.voters` has it.
    #[must_use]
    pub fn voters(&self) -> String {
        let voters: Vec<_> = self.peers.iter().map(|(id, at)| format!("{id}@{at}")).collect();
        voters.join(",")
    }

    /// What the Highwater broker `id` is started with.
    #[must_use]
    pub fn highwater(&self, id: i32, binary: &Path, dir: &Path) -> BrokerOptions {
        let address = self.clients[&id];
        BrokerOptions::new(binary, dir)
            .client_port(address.port())
            .with("node.id", &id.to_string())
            .with("controller.quorum.voters", &self.voters())
            .with("listeners", &format!("PLAINTEXT://{address}"))
            .with("advertised.listeners", &format!("PLAINTEXT://{address}"))
            .with("default.replication.factor", "3")
    }

    /// What the Apache Kafka broker `id` is started with.
    #[must_use]
    pub fn kafka(&self, id: i32, dir: &Path) -> BrokerOptions {
        // Its controller listens where a Highwater broker has its HTTP.
        BrokerOptions::new("", dir)
            .kafka(true)
            .client_port(self.clients[&id].port())
            .controller_port(self.peers[&id].port())
            .with_environment("KAFKA_NODE_ID", &id.to_string())
            .with_environment("KAFKA_VOTERS", &self.voters())
            .with("default.replication.factor", "3")
    }
}
