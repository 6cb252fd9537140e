//! The brokers of the cluster as one client sees them: by the listener that it came in by.

use cluster::metadata::MetadataImage;
use kafka_protocol::messages;
use kafka_protocol::protocol::StrBytes;
use protocol::types::BrokerId;

use super::wire::text;
use crate::context::{RequestContext, Services};

/// A broker and where the client reaches it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Which broker.
    pub id: BrokerId,
    /// Never empty.
    pub host: String,
    /// Never 0.
    pub port: u16,
    /// Its rack.
    pub rack: Option<String>,
}

impl Node {
    /// As messages have it.
    #[must_use]
    pub fn wire_id(&self) -> messages::BrokerId {
        messages::BrokerId(self.id.0)
    }

    /// As messages have it.
    #[must_use]
    pub fn wire_host(&self) -> StrBytes {
        text(&self.host)
    }

    /// As messages have it.
    #[must_use]
    pub fn wire_rack(&self) -> Option<StrBytes> {
        self.rack.as_deref().map(text)
    }
}

/// All brokers that the client can reach. One that is not there, or has not got the client's
/// listener, is left out, as in Kafka.
#[must_use]
pub fn nodes(services: &Services, context: &RequestContext, image: &MetadataImage) -> Vec<Node> {
    let me = services.config.node_id;
    let own = |id: BrokerId| {
        let listener = services.config.listener(&context.listener).filter(|_| id == me)?;
        Some(listener.advertised_to(context.local_address))
    };
    let there = image.brokers.values().filter(|broker| services.cluster.is_alive(broker.id));
    let registered = there.filter_map(|broker| {
        let known = || {
            let endpoint = broker.endpoint(&context.listener)?;
            (!endpoint.host.is_empty()).then(|| (endpoint.host.clone(), endpoint.port))
        };
        let (host, port) = own(broker.id).or_else(known)?;
        Some(Node { id: broker.id, host, port, rack: broker.rack.clone() })
    });
    registered.collect()
}

/// The broker that administrative requests go to: any will do, for each passes on what it cannot
/// decide itself. -1 while there is none that the client can reach.
#[must_use]
pub fn controller(services: &Services, nodes: &[Node]) -> messages::BrokerId {
    let leader = services.cluster.controller();
    let reachable = nodes.iter().find(|node| Some(node.id) == leader).or(nodes.first());
    reachable.map_or(messages::BrokerId(-1), Node::wire_id)
}
