//! Pure: the brokers that vote on metadata, from `controller.quorum.voters`, and where this one
//! listens for the others.

use std::collections::BTreeMap;
use std::time::Duration;

use protocol::types::BrokerId;

use super::value::elements;

/// A cluster of several brokers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerConfig {
    /// The brokers that vote on metadata, as `host:port`; empty where only `bootstrap` is known.
    pub voters: BTreeMap<BrokerId, String>,
    /// Brokers that know the voters, as `host:port`.
    pub bootstrap: Vec<String>,
    /// Where this broker listens for the others, as `host:port`.
    pub bind: String,
}

/// What is configured about the other brokers.
#[derive(Debug, Clone, Copy)]
pub struct PeerKeys<'a> {
    /// `node.id`
    pub node_id: BrokerId,
    /// `process.roles`
    pub roles: &'a str,
    /// `controller.quorum.voters`
    pub voters: &'a str,
    /// `controller.quorum.bootstrap.servers`
    pub bootstrap: &'a str,
    /// The controllers' listener among `listeners`.
    pub controller_listener: Option<(&'a str, u16)>,
    /// `highwater.peer.listener`
    pub peer_listener: Option<&'a str>,
}

/// How brokers among several keep an eye on each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClusterTiming {
    /// `broker.heartbeat.interval.ms`
    pub heartbeat: Duration,
    /// `broker.session.timeout.ms`
    pub session_timeout: Duration,
    /// `replica.lag.time.max.ms`
    pub replica_lag_max: Duration,
    /// `leader.imbalance.check.interval.seconds`, unless `auto.leader.rebalance.enable` is off.
    pub rebalance_interval: Option<Duration>,
}

/// `None` for a broker that is alone: no other brokers are given. A broker that is no controller
/// joins those that are.
///
/// # Errors
/// The key, the value and what is allowed.
pub fn resolve(keys: &PeerKeys<'_>) -> Result<Option<PeerConfig>, String> {
    let PeerKeys { node_id, voters, .. } = *keys;
    let mut by_id = BTreeMap::new();
    for element in elements(voters) {
        let (id, address) = voter(element)?;
        if by_id.insert(id, address).is_some() {
            return Err(refused(voters, &format!("{id} stands there twice")));
        }
    }
    let is_controller = keys.roles.is_empty() || elements(keys.roles).any(|r| r == "controller");
    let own = by_id.get(&node_id).cloned();
    if own.is_none() && !is_controller {
        let bootstrap: Vec<String> = elements(keys.bootstrap).map(str::to_owned).collect();
        if by_id.is_empty() && bootstrap.is_empty() {
            return Ok(None);
        }
        let bind = keys.peer_listener.unwrap_or(DEFAULT_PEER_LISTENER).to_owned();
        return Ok(Some(PeerConfig { voters: by_id, bootstrap, bind }));
    }
    if by_id.len() < 2 {
        return Ok(None);
    }
    let Some(own) = own else {
        return Err(refused(voters, &format!("node.id={node_id} is not among them")));
    };
    let bind = match (keys.peer_listener, keys.controller_listener) {
        (Some(listener), _) => listener.to_owned(),
        (None, Some((host, port))) => {
            format!("{}:{port}", if host.is_empty() { "[::]" } else { host })
        }
        (None, None) => format!("[::]:{}", own.rsplit_once(':').map_or("", |(_, port)| port)),
    };
    Ok(Some(PeerConfig { voters: by_id, bootstrap: Vec::new(), bind }))
}

/// Where a broker listens that has no controllers' listener.
const DEFAULT_PEER_LISTENER: &str = "[::]:9093";

/// `id@host:port`
fn voter(element: &str) -> Result<(BrokerId, String), String> {
    let parts = || {
        let (id, address) = element.split_once('@')?;
        let (host, port) = address.rsplit_once(':')?;
        let id: u16 = id.trim().parse().ok()?;
        let port: u16 = port.parse().ok()?;
        (!host.is_empty() && port > 0).then(|| (BrokerId(i32::from(id)), address.to_owned()))
    };
    parts().ok_or_else(|| refused(element, "that is no voter"))
}

fn refused(value: &str, why: &str) -> String {
    format!(
        "Invalid value {value} for configuration controller.quorum.voters: {why}; allowed is a \
         list of id@host:port in which every controller of the cluster stands once"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const THREE: &str = "1@a:9093, 2@b:9093,3@[::1]:9094";

    fn keys(voters: &'static str, node_id: i32) -> PeerKeys<'static> {
        PeerKeys {
            node_id: BrokerId(node_id),
            roles: "",
            voters,
            bootstrap: "",
            controller_listener: None,
            peer_listener: None,
        }
    }

    #[test]
    fn a_broker_that_is_no_controller_joins_those_that_are() {
        let by_voters = PeerKeys { roles: "broker", ..keys(THREE, 4) };
        let peers = resolve(&by_voters).unwrap().unwrap();
        assert_eq!((peers.voters.len(), peers.bind.as_str()), (3, DEFAULT_PEER_LISTENER));
        let by_servers = PeerKeys {
            bootstrap: "a:9093,b:9093",
            peer_listener: Some("localhost:0"),
            ..PeerKeys { roles: "broker", ..keys("", 4) }
        };
        let peers = resolve(&by_servers).unwrap().unwrap();
        assert_eq!(peers.bootstrap, ["a:9093", "b:9093"]);
        assert_eq!((peers.voters.len(), peers.bind.as_str()), (0, "localhost:0"));
        // Kafka's own server.properties names itself.
        let both = PeerKeys { roles: "broker,controller", ..by_servers };
        assert_eq!(resolve(&both), Ok(None));
    }

    #[test]
    fn three_voters_make_a_cluster_and_one_does_not() {
        let peers = resolve(&keys(THREE, 3)).unwrap().unwrap();
        assert_eq!(peers.bind, "[::]:9094");
        let expected = [(1, "a:9093"), (2, "b:9093"), (3, "[::1]:9094")];
        let expected = expected.map(|(id, address)| (BrokerId(id), address.to_owned()));
        assert_eq!(peers.voters, BTreeMap::from(expected));
        for alone in ["", "1@localhost:9093", "7@elsewhere:9093"] {
            assert_eq!(resolve(&keys(alone, 1)), Ok(None), "{alone}");
        }
    }

    #[test]
    fn the_controller_listener_says_where_to_listen() {
        let bind = |host| {
            let keys = PeerKeys { controller_listener: Some((host, 9)), ..keys(THREE, 1) };
            resolve(&keys).unwrap().unwrap().bind
        };
        assert_eq!((bind(""), bind("10.0.0.1")), ("[::]:9".into(), "10.0.0.1:9".into()));
    }

    #[test]
    fn what_is_no_list_of_voters_is_named() {
        for (voters, why) in [
            ("1@a:9093,2@b", "2@b for"),
            ("1@a:9093,two@b:1", "two@b:1 for"),
            ("1@a:9093,2@b:0", "2@b:0 for"),
            ("1@a:9093,1@b:9093", "1 stands there twice"),
            ("2@a:9093,3@b:9093", "node.id=1 is not among them"),
        ] {
            let refused = resolve(&keys(voters, 1)).unwrap_err();
            assert!(refused.contains(why), "{refused}");
            assert!(refused.contains("controller.quorum.voters"), "{refused}");
        }
    }
}
