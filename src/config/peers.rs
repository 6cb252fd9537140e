//! Pure: the brokers that vote on metadata, from `controller.quorum.voters`, and where this one
//! listens for the others.

use std::collections::BTreeMap;
use std::time::Duration;

use protocol::types::BrokerId;

use super::value::elements;

/// A cluster of several brokers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerConfig {
    /// Every voter, as `host:port`; this broker is among them.
    pub voters: BTreeMap<BrokerId, String>,
    /// Where this broker listens for the others, as `host:port`.
    pub bind: String,
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

/// `None` for a broker that is alone: no voters are given, or only itself.
///
/// # Errors
/// The key, the value and what is allowed.
pub fn resolve(
    voters: &str,
    controller_listener: Option<(&str, u16)>,
    node_id: BrokerId,
) -> Result<Option<PeerConfig>, String> {
    let mut by_id = BTreeMap::new();
    for element in elements(voters) {
        let (id, address) = voter(element)?;
        if by_id.insert(id, address).is_some() {
            return Err(refused(voters, &format!("{id} stands there twice")));
        }
    }
    if by_id.len() < 2 {
        return Ok(None);
    }
    let Some(own) = by_id.get(&node_id) else {
        return Err(refused(voters, &format!("node.id={node_id} is not among them")));
    };
    let bind = match controller_listener {
        Some((host, port)) => format!("{}:{port}", if host.is_empty() { "[::]" } else { host }),
        None => format!("[::]:{}", own.rsplit_once(':').map_or("", |(_, port)| port)),
    };
    Ok(Some(PeerConfig { voters: by_id, bind }))
}

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
         list of id@host:port in which every broker of the cluster stands once"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const THREE: &str = "1@a:9093, 2@b:9093,3@[::1]:9094";

    #[test]
    fn three_voters_make_a_cluster_and_one_does_not() {
        let peers = resolve(THREE, None, BrokerId(3)).unwrap().unwrap();
        assert_eq!(peers.bind, "[::]:9094");
        let expected = [(1, "a:9093"), (2, "b:9093"), (3, "[::1]:9094")];
        let expected = expected.map(|(id, address)| (BrokerId(id), address.to_owned()));
        assert_eq!(peers.voters, BTreeMap::from(expected));
        for alone in ["", "1@localhost:9093", "7@elsewhere:9093"] {
            assert_eq!(resolve(alone, None, BrokerId(1)), Ok(None), "{alone}");
        }
    }

    #[test]
    fn the_controller_listener_says_where_to_listen() {
        let bind = |host| resolve(THREE, Some((host, 9)), BrokerId(1)).unwrap().unwrap().bind;
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
            let refused = resolve(voters, None, BrokerId(1)).unwrap_err();
            assert!(refused.contains(why), "{refused}");
            assert!(refused.contains("controller.quorum.voters"), "{refused}");
        }
    }
}
