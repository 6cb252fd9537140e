//! Listeners: where the broker listens, and what it tells its clients.
//!
//! A listener without an advertised address is advertised by the address that the client's
//! connection came in by (as `localhost` where that is the loopback). So a client that came by a
//! container's name is told the container's address, and one that came by `localhost` is told
//! `localhost`: both reach the broker. Kafka would name the machine instead, which neither client
//! need be able to resolve.
//!
//! Pure: no I/O, no clock, no randomness.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use super::value::elements;

/// One listener.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListenerConfig {
    /// Its name.
    pub name: String,
    /// Empty host = every address, IPv6 and IPv4.
    pub host: String,
    /// 0 = any free port.
    pub port: u16,
    /// PLAINTEXT here; others are refused at start until they are built.
    pub security_protocol: String,
    /// Advertised host and port; `None` = derived (never empty, never a wildcard).
    pub advertised: Option<(String, u16)>,
}

impl ListenerConfig {
    /// Host and port that a client is told whose connection came in at `local`.
    #[must_use]
    pub fn advertised_to(&self, local: SocketAddr) -> (String, u16) {
        self.advertised.clone().unwrap_or_else(|| match local.ip().to_canonical() {
            ip if ip.is_loopback() => ("localhost".to_owned(), local.port()),
            ip => (ip.to_string(), local.port()),
        })
    }
}

/// The keys that speak of listeners.
#[derive(Debug, Clone, Default)]
pub struct ListenerKeys<'a> {
    /// `listeners`
    pub listeners: &'a str,
    /// `advertised.listeners`
    pub advertised: Option<&'a str>,
    /// `listener.security.protocol.map`
    pub protocol_map: &'a str,
    /// `controller.listener.names`
    pub controllers: &'a str,
    /// `inter.broker.listener.name`
    pub inter_broker: Option<&'a str>,
    /// Listen on the ports that are advertised, on every address.
    pub follow_advertised: bool,
}

/// `NAME://host:port`
#[derive(Debug, Clone, PartialEq, Eq)]
struct Endpoint {
    name: String,
    host: String,
    port: u16,
}

/// Where the first listener of controllers is: host (empty = all addresses) and port.
///
/// # Errors
/// As for the listeners of clients.
pub fn controller_endpoint(
    listeners: &str,
    controllers: &str,
) -> Result<Option<(String, u16)>, String> {
    let mut endpoints = parse("listeners", listeners)?.into_iter();
    let is_controller =
        |endpoint: &Endpoint| elements(controllers).any(|c| c.eq_ignore_ascii_case(&endpoint.name));
    Ok(endpoints.find(is_controller).map(|endpoint| (endpoint.host, endpoint.port)))
}

/// The name of the listener for controllers, by which brokers reach each other, and its security
/// protocol, if the map has one.
///
/// # Errors
/// As for the listeners of clients.
pub fn controller_protocol(keys: &ListenerKeys<'_>) -> Result<(String, Option<String>), String> {
    let named: Vec<String> = elements(keys.controllers).map(str::to_ascii_uppercase).collect();
    let opened = parse("listeners", keys.listeners)?.into_iter().map(|endpoint| endpoint.name);
    let opened = opened.into_iter().find(|name| named.contains(name));
    let name = opened.or(named.into_iter().next()).unwrap_or_else(|| "CONTROLLER".to_owned());
    let protocol = protocol_map(keys.protocol_map)?.remove(&name);
    Ok((name, protocol))
}

/// The listeners that clients are served on, checked.
pub fn resolve(keys: &ListenerKeys<'_>) -> Result<Vec<ListenerConfig>, String> {
    let controllers: BTreeSet<String> =
        elements(keys.controllers).map(str::to_ascii_uppercase).collect();
    let protocols = protocol_map(keys.protocol_map)?;
    let advertised = advertised(keys.advertised.unwrap_or_default(), &controllers)?;
    let mut endpoints = parse("listeners", keys.listeners)?;
    if keys.follow_advertised {
        endpoints = advertised.values().cloned().collect();
        endpoints.iter_mut().for_each(|endpoint| endpoint.host.clear());
    }
    endpoints.retain(|endpoint| !controllers.contains(&endpoint.name));
    if endpoints.is_empty() {
        return Err(format!(
            "listeners={} has no listener for clients: at least one must not stand in \
             controller.listener.names={}",
            keys.listeners, keys.controllers
        ));
    }
    check_ports(&endpoints)?;
    let names: BTreeSet<&str> = endpoints.iter().map(|endpoint| endpoint.name.as_str()).collect();
    for name in advertised.keys().map(String::as_str).chain(keys.inter_broker) {
        if !names.contains(name.to_ascii_uppercase().as_str()) {
            return Err(format!(
                "no listener is called {name}, as advertised.listeners or \
                 inter.broker.listener.name say; there are {names:?}"
            ));
        }
    }
    endpoints.into_iter().map(|endpoint| listener(endpoint, &protocols, &advertised)).collect()
}

fn listener(
    endpoint: Endpoint,
    protocols: &BTreeMap<String, String>,
    advertised: &BTreeMap<String, Endpoint>,
) -> Result<ListenerConfig, String> {
    let Some(security_protocol) = protocols.get(&endpoint.name) else {
        return Err(format!(
            "listener.security.protocol.map has no security protocol for the listener {}",
            endpoint.name
        ));
    };
    if security_protocol != "PLAINTEXT" {
        return Err(format!(
            "listener {} asks for the security protocol {security_protocol}, which is not built \
             yet: allowed is PLAINTEXT",
            endpoint.name
        ));
    }
    let advertised = match advertised.get(&endpoint.name) {
        Some(told) if told.host.is_empty() && told.port != endpoint.port => {
            return Err(format!(
                "advertised.listeners={}://:{} has no host: clients must be told one",
                told.name, told.port
            ));
        }
        Some(told) if !told.host.is_empty() => Some((told.host.clone(), told.port)),
        // A listener on one address is reached there, and nowhere else.
        _ if !endpoint.host.is_empty() && endpoint.port != 0 => {
            Some((endpoint.host.clone(), endpoint.port))
        }
        _ => None,
    };
    Ok(ListenerConfig {
        name: endpoint.name,
        host: endpoint.host,
        port: endpoint.port,
        security_protocol: security_protocol.clone(),
        advertised,
    })
}

fn advertised(
    value: &str,
    controllers: &BTreeSet<String>,
) -> Result<BTreeMap<String, Endpoint>, String> {
    let mut all = BTreeMap::new();
    for element in elements(value) {
        let endpoint = parse_one("advertised.listeners", element)?;
        if controllers.contains(&endpoint.name) {
            continue;
        }
        let given = host_of(element);
        if endpoint.host.is_empty() && !given.is_empty() {
            return Err(format!(
                "advertised.listeners={element}: no client can connect to {given}; name an \
                 address that clients can reach"
            ));
        }
        if endpoint.port == 0 {
            return Err(format!("advertised.listeners={element} has no port"));
        }
        if all.insert(endpoint.name.clone(), endpoint).is_some() {
            return Err(format!("advertised.listeners={value} has one name twice"));
        }
    }
    Ok(all)
}

fn parse(key: &str, value: &str) -> Result<Vec<Endpoint>, String> {
    let endpoints: Vec<_> =
        elements(value).map(|element| parse_one(key, element)).collect::<Result<_, _>>()?;
    if endpoints.is_empty() {
        return Err(format!("{key} is empty: allowed is a list of NAME://host:port"));
    }
    let names: BTreeSet<_> = endpoints.iter().map(|endpoint| &endpoint.name).collect();
    if names.len() != endpoints.len() {
        return Err(format!("{key}={value} has one name twice"));
    }
    Ok(endpoints)
}

/// A wildcard host becomes the empty one.
fn parse_one(key: &str, element: &str) -> Result<Endpoint, String> {
    let invalid = || format!("{key}={element}: allowed is NAME://host:port");
    let (name, address) = element.split_once("://").ok_or_else(invalid)?;
    let (host, port) = address.rsplit_once(':').ok_or_else(invalid)?;
    let well_named = name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-.".contains(&b));
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let plain = |c: char| c.is_ascii_alphanumeric() || ".-_:%".contains(c);
    if name.is_empty() || !well_named || !host.chars().all(plain) {
        return Err(invalid());
    }
    let wildcard = host.parse::<IpAddr>().is_ok_and(|ip| ip.is_unspecified());
    Ok(Endpoint {
        name: name.to_ascii_uppercase(),
        host: if wildcard { String::new() } else { host.to_owned() },
        port: port.parse().map_err(|_| invalid())?,
    })
}

fn host_of(element: &str) -> &str {
    let address = element.split_once("://").map_or("", |(_, address)| address);
    address.rsplit_once(':').map_or("", |(host, _)| host)
}

fn check_ports(endpoints: &[Endpoint]) -> Result<(), String> {
    for (index, one) in endpoints.iter().enumerate() {
        let overlaps = |other: &&Endpoint| {
            let hosts = one.host == other.host || one.host.is_empty() || other.host.is_empty();
            one.port == other.port && one.port != 0 && hosts
        };
        if let Some(other) = endpoints[index + 1..].iter().find(overlaps) {
            return Err(format!(
                "listeners: {} and {} both want port {}",
                one.name, other.name, one.port
            ));
        }
    }
    Ok(())
}

fn protocol_map(value: &str) -> Result<BTreeMap<String, String>, String> {
    const PROTOCOLS: [&str; 4] = ["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"];
    let mut map: BTreeMap<String, String> =
        PROTOCOLS.iter().map(|protocol| ((*protocol).to_owned(), (*protocol).to_owned())).collect();
    for element in elements(value) {
        let (name, protocol) = element.split_once(':').unwrap_or((element, ""));
        let protocol = protocol.trim().to_ascii_uppercase();
        if !PROTOCOLS.contains(&protocol.as_str()) {
            return Err(format!(
                "listener.security.protocol.map={element}: allowed is NAME:protocol with one of \
                 {PROTOCOLS:?}"
            ));
        }
        map.insert(name.trim().to_ascii_uppercase(), protocol);
    }
    Ok(map)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAP: &str = "CONTROLLER:PLAINTEXT,INTERNAL:PLAINTEXT,EXTERNAL:PLAINTEXT,SECURE:SASL_SSL";

    fn keys<'a>(listeners: &'a str, advertised: Option<&'a str>) -> ListenerKeys<'a> {
        ListenerKeys {
            listeners,
            advertised,
            protocol_map: MAP,
            controllers: "CONTROLLER",
            ..ListenerKeys::default()
        }
    }

    #[track_caller]
    fn resolved(listeners: &str, advertised: Option<&str>) -> Vec<ListenerConfig> {
        resolve(&keys(listeners, advertised)).expect("they are fine")
    }

    #[track_caller]
    fn refused(listeners: &str, advertised: Option<&str>) -> String {
        resolve(&keys(listeners, advertised)).expect_err("they are not fine")
    }

    #[test]
    fn every_wildcard_is_dual_stack() {
        for host in ["", "0.0.0.0", "[::]", "::"] {
            let all = resolved(&format!("PLAINTEXT://{host}:9092"), None);
            assert_eq!((all[0].host.as_str(), all[0].port), ("", 9092));
            assert_eq!(all[0].advertised, None);
        }
    }

    #[test]
    fn a_bound_host_is_what_is_advertised() {
        let all = resolved("PLAINTEXT://[::1]:9092", None);
        assert_eq!(all[0].host, "::1");
        assert_eq!(all[0].advertised, Some(("::1".into(), 9092)));
    }

    #[test]
    fn controllers_listeners_are_not_opened() {
        let all = resolved(
            "INTERNAL://:9092,CONTROLLER://:9093,EXTERNAL://0.0.0.0:9094",
            Some("INTERNAL://broker:9092,EXTERNAL://localhost:19094,CONTROLLER://x:1"),
        );
        let names: Vec<_> = all.iter().map(|listener| listener.name.as_str()).collect();
        assert_eq!(names, ["INTERNAL", "EXTERNAL"]);
        assert_eq!(all[0].advertised, Some(("broker".into(), 9092)));
        assert_eq!(all[1].advertised, Some(("localhost".into(), 19094)));
        assert!(refused("CONTROLLER://:9093", None).contains("controller.listener.names"));
    }

    #[test]
    fn a_wildcard_is_never_advertised() {
        for host in ["0.0.0.0", "[::]"] {
            let told = format!("PLAINTEXT://{host}:9092");
            assert!(refused("PLAINTEXT://:9092", Some(&told)).contains(host));
        }
        let told = "PLAINTEXT://:19092";
        assert!(refused("PLAINTEXT://:9092", Some(told)).contains("no host"));
        assert_eq!(resolved("PLAINTEXT://:9092", Some("PLAINTEXT://:9092"))[0].advertised, None);
    }

    #[test]
    fn a_derived_address_is_the_one_the_client_came_by() {
        let listener = &resolved("PLAINTEXT://:0", None)[0];
        for (local, host) in [
            ("127.0.0.1:7", "localhost"),
            ("[::1]:7", "localhost"),
            ("[::ffff:127.0.0.1]:7", "localhost"),
            ("172.17.0.2:7", "172.17.0.2"),
            ("[::ffff:172.17.0.2]:7", "172.17.0.2"),
            ("[fd00::2]:7", "fd00::2"),
        ] {
            let local = local.parse().expect("an address");
            assert_eq!(listener.advertised_to(local), (host.to_owned(), 7));
        }
    }

    #[test]
    fn brokers_speak_the_protocol_of_the_controllers_listener() {
        let protocol = |listeners: &'static str, controllers: &'static str| {
            let keys = ListenerKeys { controllers, ..keys(listeners, None) };
            let (name, protocol) = controller_protocol(&keys).expect("they are fine");
            (name, protocol.unwrap_or_default())
        };
        let named = |name: &str, protocol: &str| (name.to_owned(), protocol.to_owned());
        let both = "PLAINTEXT://:1,secure://:2";
        assert_eq!(protocol(both, "controller,Secure"), named("SECURE", "SASL_SSL"));
        assert_eq!(protocol(both, "CONTROLLER"), named("CONTROLLER", "PLAINTEXT"));
        assert_eq!(protocol(both, "SSL"), named("SSL", "SSL"));
        assert_eq!(protocol(both, "OTHER"), named("OTHER", ""));
    }

    #[test]
    fn what_is_not_built_is_refused() {
        assert!(refused("SECURE://:9092", None).contains("SASL_SSL"));
        assert!(refused("SSL://:9092", None).contains("PLAINTEXT"));
    }

    #[test]
    fn mistakes_are_named() {
        assert!(refused("", None).contains("listeners"));
        assert!(refused("9092", None).contains("NAME://host:port"));
        assert!(refused("PLAINTEXT://:x", None).contains("NAME://host:port"));
        assert!(refused("PLAINTEXT://a b:1", None).contains("NAME://host:port"));
        assert!(refused("PLAINTEXT://:1,PLAINTEXT://:2", None).contains("twice"));
        assert!(refused("PLAINTEXT://:1,INTERNAL://:1", None).contains("port 1"));
        assert!(refused("NOWHERE://:1", None).contains("NOWHERE"));
        assert!(refused("PLAINTEXT://:1", Some("INTERNAL://a:1")).contains("INTERNAL"));
        let unknown = ListenerKeys { inter_broker: Some("OTHER"), ..keys("PLAINTEXT://:1", None) };
        assert!(resolve(&unknown).expect_err("no such listener").contains("OTHER"));
        let map = ListenerKeys { protocol_map: "A:B", ..keys("PLAINTEXT://:1", None) };
        assert!(resolve(&map).expect_err("no such protocol").contains("A:B"));
    }

    #[test]
    fn an_image_listens_where_it_advertises() {
        let keys = ListenerKeys {
            follow_advertised: true,
            ..keys("PLAINTEXT://:9092", Some("INTERNAL://broker:29092,EXTERNAL://localhost:9092"))
        };
        let all = resolve(&keys).expect("they are fine");
        let ports: Vec<_> = all.iter().map(|l| (l.host.as_str(), l.port)).collect();
        assert_eq!(ports, [("", 9092), ("", 29092)]);
    }
}
