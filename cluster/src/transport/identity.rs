//! Who is at the other end: the first exchange of every connection between brokers.
//!
//! The caller says its protocol version, its id and its cluster; a broker of another cluster is
//! refused with a sentence. A broker that has not joined any cluster yet has no cluster id.

use std::collections::BTreeMap;

use bytes::Bytes;
use parking_lot::RwLock;
use protocol::types::BrokerId;
use serde::{Deserialize, Serialize};

use super::{PeerError, PeerMessage};

/// What this code speaks. A change that an older broker does not understand raises it; brokers of
/// different versions speak the lower one.
pub(super) const PEER_PROTOCOL_VERSION: u16 = 1;

/// The lowest version that this code still speaks.
const LOWEST_VERSION: u16 = 1;

/// This broker, as it introduces itself.
#[derive(Debug)]
pub struct Identity {
    broker_id: BrokerId,
    cluster_id: RwLock<String>,
    /// Told to brokers that do not know them.
    voters: BTreeMap<BrokerId, String>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Hello {
    version: u16,
    broker_id: i32,
    cluster_id: String,
    #[serde(default)]
    voters: BTreeMap<BrokerId, String>,
}

/// Who is at the other end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Met {
    pub(super) broker_id: BrokerId,
    /// Who votes on metadata, and where they are reached, as far as it knows.
    pub(super) voters: BTreeMap<BrokerId, String>,
}

impl Identity {
    /// Of a broker that may know its cluster already (empty: not yet).
    #[must_use]
    pub fn new(broker_id: BrokerId, cluster_id: String) -> Identity {
        Identity { broker_id, cluster_id: RwLock::new(cluster_id), voters: BTreeMap::new() }
    }

    /// The same, of a broker that knows who votes on metadata.
    #[must_use]
    pub fn with_voters(self, voters: BTreeMap<BrokerId, String>) -> Identity {
        Identity { voters, ..self }
    }

    /// The cluster that this broker has joined.
    pub fn set_cluster_id(&self, cluster_id: &str) {
        let mut own = self.cluster_id.write();
        if *own != cluster_id {
            cluster_id.clone_into(&mut own);
        }
    }

    pub(super) fn hello(&self) -> Result<PeerMessage, PeerError> {
        let hello = Hello {
            version: PEER_PROTOCOL_VERSION,
            broker_id: self.broker_id.0,
            cluster_id: self.cluster_id.read().clone(),
            voters: self.voters.clone(),
        };
        let head = serde_json::to_vec(&hello).map_err(|e| PeerError::Broken(e.to_string()))?;
        Ok(PeerMessage { kind: 0, head: head.into(), body: Vec::new() })
    }

    /// Judges the other side's introduction; a sentence when it is refused.
    pub(super) fn check(&self, hello: &Bytes) -> Result<Met, String> {
        let hello: Hello =
            serde_json::from_slice(hello).map_err(|error| format!("no introduction: {error}"))?;
        if hello.version < LOWEST_VERSION {
            return Err(format!(
                "broker {} speaks version {} between brokers, at least {LOWEST_VERSION} is needed",
                hello.broker_id, hello.version
            ));
        }
        let own = self.cluster_id.read();
        if !own.is_empty() && !hello.cluster_id.is_empty() && *own != hello.cluster_id {
            return Err(format!(
                "broker {} belongs to cluster {}, broker {} to cluster {own}",
                hello.broker_id, hello.cluster_id, self.broker_id
            ));
        }
        if hello.broker_id == self.broker_id.0 {
            return Err(format!("two brokers have node.id {}", hello.broker_id));
        }
        Ok(Met { broker_id: BrokerId(hello.broker_id), voters: hello.voters })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(own: &Identity, other: &Identity) -> Result<BrokerId, String> {
        own.check(&other.hello().unwrap().head).map(|met| met.broker_id)
    }

    #[test]
    fn a_broker_of_another_cluster_is_refused_and_one_of_none_is_not() {
        let own = Identity::new(BrokerId(1), "blue".into());
        assert_eq!(judged(&own, &Identity::new(BrokerId(2), "blue".into())), Ok(BrokerId(2)));
        let joining = Identity::new(BrokerId(3), String::new());
        assert_eq!(judged(&own, &joining), Ok(BrokerId(3)));
        joining.set_cluster_id("red");
        let refused = judged(&own, &joining).unwrap_err();
        assert_eq!(refused, "broker 3 belongs to cluster red, broker 1 to cluster blue");
    }

    #[test]
    fn a_second_broker_of_the_same_id_is_refused() {
        let own = Identity::new(BrokerId(1), "blue".into());
        let twin = Identity::new(BrokerId(1), "blue".into());
        assert_eq!(judged(&own, &twin).unwrap_err(), "two brokers have node.id 1");
        assert!(own.check(&Bytes::from_static(b"GET / HTTP/1.1")).is_err());
    }
}
