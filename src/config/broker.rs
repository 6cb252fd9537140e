//! The broker's configuration: read from file, environment and command line, checked, typed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cluster::metadata::MetadataImage;
use protocol::types::BrokerId;
use storage::log_store::Durability;

use super::definitions::{self, Effect, Scope};
use super::listeners::{self, ListenerConfig, ListenerKeys};
use super::peer_security::{self, ListenerValues, PeerSecurityConfig};
use super::peers::{self, ClusterTiming, PeerConfig, PeerKeys};
use super::topic::{self, TopicConfig};
use super::value::{as_bool, as_i64, check, elements};
use super::{environment, properties};

const PROTOCOL_MAP: &str = "listener.security.protocol.map";
const CONTROLLERS: &str = "controller.listener.names";

/// Requests in work where `queued.max.request.bytes` leaves it to us: a limit there must be, for a
/// broker that reads without one dies of its clients.
const DEFAULT_QUEUED_REQUEST_BYTES: usize = 128 << 20;

/// The broker's configuration, checked.
#[derive(Debug, Clone)]
pub struct BrokerConfig {
    /// `node.id`, or `broker.id`.
    pub node_id: BrokerId,
    /// For the very first start of the cluster.
    pub cluster_id: Option<String>,
    /// `broker.rack`
    pub rack: Option<String>,
    /// Consumers are sent to replicas of their own rack (`replica.selector.class`).
    pub selects_by_rack: bool,
    /// `listeners` without those of controllers.
    pub listeners: Vec<ListenerConfig>,
    /// The other brokers; `None` for a broker that is alone.
    pub peers: Option<PeerConfig>,
    /// How connections among them are protected.
    pub peer_security: PeerSecurityConfig,
    /// How brokers among several keep an eye on each other.
    pub timing: ClusterTiming,
    /// First of `log.dirs`.
    pub log_dir: PathBuf,
    /// `highwater.http.listener`; `None` = off.
    pub http_listener: Option<String>,
    /// `highwater.lag.max.series`
    pub lag_max_series: usize,
    /// `highwater.durability`
    pub durability: Durability,
    /// `num.partitions`
    pub num_partitions: i32,
    /// `default.replication.factor`
    pub default_replication_factor: i16,
    /// `auto.create.topics.enable`
    pub auto_create_topics_enable: bool,
    /// `delete.topic.enable`
    pub delete_topic_enable: bool,
    /// `socket.request.max.bytes`
    pub socket_request_max_bytes: usize,
    /// `max.connections`
    pub max_connections: usize,
    /// `max.connections.per.ip`
    pub max_connections_per_ip: usize,
    /// `connections.max.idle.ms`
    pub connections_max_idle: Duration,
    /// Bytes of requests in work for the whole broker: `queued.max.request.bytes`, or what we
    /// choose where it is -1; never less than the largest request.
    pub queued_max_request_bytes: usize,
    /// `fetch.max.bytes`
    pub fetch_max_bytes: usize,
    /// `max.incremental.fetch.session.cache.slots`
    pub max_fetch_session_slots: usize,
    /// `max.request.partition.size.limit`
    pub max_request_partitions: usize,
    /// `log.retention.check.interval.ms`
    pub log_retention_check_interval: Duration,
    /// `producer.id.expiration.ms`
    pub producer_id_expiration: Duration,
    /// What a topic has that sets nothing itself, while nothing is set dynamically either.
    pub topic_defaults: TopicConfig,
    /// Every key with its value, as given or by default, and where it came from: for
    /// DescribeConfigs.
    pub values: BTreeMap<String, ConfigValue>,
}

/// A value and its source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigValue {
    /// `None` = no value.
    pub value: Option<String>,
    /// Given in file, environment or on the command line; else the default.
    pub is_static: bool,
}

impl BrokerConfig {
    /// Reads `server.properties` (if given), then the environment (`KAFKA_X_Y` and
    /// `KAFKA_CFG_X_Y`), then overrides (`key=value`); the last one counts. Returns the keys that
    /// nobody knows, too. An error names the key, the value and what is allowed.
    pub fn load(
        file: Option<&Path>,
        environment: &[(String, String)],
        overrides: &[String],
    ) -> Result<(BrokerConfig, Vec<String>), String> {
        let text = match file {
            Some(path) => std::fs::read_to_string(path)
                .map_err(|error| format!("cannot read {}: {error}", path.display()))?,
            None => String::new(),
        };
        Self::from_sources(&text, environment, overrides)
    }

    /// As [`BrokerConfig::load`], with the text of the file.
    pub fn from_sources(
        file: &str,
        environment: &[(String, String)],
        overrides: &[String],
    ) -> Result<(BrokerConfig, Vec<String>), String> {
        let mut given: BTreeMap<String, String> = properties::parse(file)?.into_iter().collect();
        let environment = environment::read(environment);
        let follow_advertised =
            environment.listeners_follow_advertised && !given.contains_key("listeners");
        given.extend(environment.pairs);
        let mut listeners_overridden = false;
        for pair in overrides {
            let (key, value) = pair
                .split_once('=')
                .ok_or_else(|| format!("override '{pair}': allowed is key=value"))?;
            listeners_overridden |= key.trim() == "listeners";
            given.insert(key.trim().to_owned(), value.trim().to_owned());
        }
        if let Some(id) = environment.cluster_id {
            given.entry("highwater.cluster.id".to_owned()).or_insert(id);
        }
        for (key, value) in &given {
            if let Some(definition) = definitions::broker(key) {
                check(definition, value)?;
            }
        }
        name_the_node(&mut given)?;
        let unknown = given.keys().filter(|key| !is_known(key)).cloned().collect();
        let config = build(Values::new(given), follow_advertised && !listeners_overridden)?;
        Ok((config, unknown))
    }

    /// A key's value at present: set for this broker, for all brokers, at start, or by default.
    #[must_use]
    pub fn effective<'a>(&'a self, image: &'a MetadataImage, key: &str) -> Option<&'a str> {
        let dynamic = image.dynamic_broker_config(self.node_id, key);
        dynamic.or_else(|| self.values.get(key)?.value.as_deref())
    }

    /// The listener of that name.
    #[must_use]
    pub fn listener(&self, name: &str) -> Option<&ListenerConfig> {
        self.listeners.iter().find(|listener| listener.name == name)
    }

    /// Keys that were given and have no effect, with the reason: for a warning at start.
    pub fn without_effect(&self) -> impl Iterator<Item = (&str, &'static str)> {
        self.values.iter().filter(|(_, value)| value.is_static).filter_map(|(key, _)| {
            match definitions::broker(key)?.effect {
                Effect::No(reason) => Some((key.as_str(), reason)),
                Effect::Yes => None,
            }
        })
    }

    fn static_value(&self, key: &str) -> Option<&str> {
        self.values.get(key)?.value.as_deref()
    }

    /// A topic's default for a key, from what was given at start.
    #[must_use]
    pub fn topic_default(&self, definition: &definitions::Definition) -> Option<String> {
        topic::inherited(definition, |key| self.static_value(key).map(str::to_owned))
    }
}

/// `node.id` is `broker.id` by its newer name.
fn name_the_node(given: &mut BTreeMap<String, String>) -> Result<(), String> {
    let broker_id = given.get("broker.id").filter(|id| as_i64(id) != Some(-1)).cloned();
    match (given.get("node.id").cloned(), broker_id) {
        (Some(node), Some(broker)) if as_i64(&node) != as_i64(&broker) => {
            Err(format!("broker.id={broker} and node.id={node}: allowed is one number, for both"))
        }
        (Some(id), _) | (None, Some(id)) if as_i64(&id).is_some_and(|id| id >= 0) => {
            given.insert("node.id".to_owned(), id.clone());
            given.insert("broker.id".to_owned(), id);
            Ok(())
        }
        (None, None) => Ok(()),
        (_, id) => Err(format!("broker.id={}: allowed is 0 or more", id.unwrap_or_default())),
    }
}

/// Keys of the table, and keys that plugins and listeners derive from it.
fn is_known(key: &str) -> bool {
    const PREFIXES: [&str; 4] = ["confluent.", OF_A_LISTENER, "rlmm.config.", "rsm.config."];
    definitions::broker(key).is_some() || PREFIXES.iter().any(|prefix| key.starts_with(prefix))
}

/// What the keys of one listener begin with.
const OF_A_LISTENER: &str = "listener.name.";

/// Values by key.
struct Values {
    /// Those of the table, given or by default.
    all: BTreeMap<String, ConfigValue>,
    /// Those of single listeners.
    of_listeners: BTreeMap<String, String>,
}

impl Values {
    fn new(given: BTreeMap<String, String>) -> Self {
        let mut all: BTreeMap<String, ConfigValue> = definitions::rows(Scope::Broker)
            .map(|row| {
                let value = row.default.map(str::to_owned);
                (row.name.to_owned(), ConfigValue { value, is_static: false })
            })
            .collect();
        let mut of_listeners = BTreeMap::new();
        for (key, value) in given {
            if definitions::broker(&key).is_some() {
                let value = Some(value.trim().to_owned());
                all.insert(key, ConfigValue { value, is_static: true });
            } else if key.starts_with(OF_A_LISTENER) {
                of_listeners.insert(key, value);
            }
        }
        Self { all, of_listeners }
    }

    fn is_given(&self, key: &str) -> bool {
        self.all.get(key).is_some_and(|value| value.is_static)
    }

    fn text(&self, key: &str) -> Option<&str> {
        self.all.get(key)?.value.as_deref().filter(|value| !value.is_empty())
    }

    /// The values were checked, and every key that is asked for here has a default.
    fn number(&self, key: &str) -> i64 {
        self.text(key).and_then(as_i64).unwrap_or_default()
    }

    fn count(&self, key: &str) -> usize {
        usize::try_from(self.number(key)).unwrap_or_default()
    }

    fn flag(&self, key: &str) -> bool {
        self.text(key).and_then(as_bool).unwrap_or_default()
    }

    fn millis(&self, key: &str) -> Duration {
        Duration::from_millis(u64::try_from(self.number(key)).unwrap_or(u64::MAX))
    }
}

fn build(values: Values, follow_advertised: bool) -> Result<BrokerConfig, String> {
    check_together(&values)?;
    let keys = ListenerKeys { follow_advertised, ..listener_keys(&values) };
    let listeners = listeners::resolve(&keys)?;
    let node_id = BrokerId(i32::try_from(values.number("node.id")).unwrap_or_default());
    let peers = peers(&values, node_id)?;
    let peer_security = match &peers {
        Some(_) => peer_security(&values)?,
        None => PeerSecurityConfig::default(),
    };
    let log_dirs = values.text("log.dirs").or(values.text("log.dir")).unwrap_or_default();
    let log_dir = elements(log_dirs).next().ok_or("log.dirs is empty: allowed is a path")?;
    let queued = usize::try_from(values.number("queued.max.request.bytes")).ok();
    let largest = values.count("socket.request.max.bytes");
    let mut config = BrokerConfig {
        node_id,
        peers,
        peer_security,
        timing: timing(&values),
        cluster_id: values.text("highwater.cluster.id").map(str::to_owned),
        rack: values.text("broker.rack").map(str::to_owned),
        selects_by_rack: values.text("replica.selector.class")
            == Some(definitions::RACK_AWARE_SELECTOR),
        listeners,
        log_dir: PathBuf::from(log_dir),
        http_listener: http_listener(&values)?,
        lag_max_series: values.count("highwater.lag.max.series"),
        durability: Durability::Fsync,
        num_partitions: i32::try_from(values.number("num.partitions")).unwrap_or(1),
        default_replication_factor: i16::try_from(values.number("default.replication.factor"))
            .unwrap_or(1),
        auto_create_topics_enable: values.flag("auto.create.topics.enable"),
        delete_topic_enable: values.flag("delete.topic.enable"),
        socket_request_max_bytes: largest,
        max_connections: values.count("max.connections"),
        max_connections_per_ip: values.count("max.connections.per.ip"),
        connections_max_idle: values.millis("connections.max.idle.ms"),
        queued_max_request_bytes: queued.unwrap_or(DEFAULT_QUEUED_REQUEST_BYTES).max(largest),
        fetch_max_bytes: values.count("fetch.max.bytes"),
        max_fetch_session_slots: values.count("max.incremental.fetch.session.cache.slots"),
        max_request_partitions: values.count("max.request.partition.size.limit"),
        log_retention_check_interval: values.millis("log.retention.check.interval.ms"),
        producer_id_expiration: values.millis("producer.id.expiration.ms"),
        topic_defaults: TopicConfig::default(),
        values: values.all,
    };
    let mut topic_defaults = TopicConfig::default();
    for row in definitions::rows(Scope::Topic) {
        if let Some(value) = config.topic_default(row) {
            topic_defaults.set(row.name, &value);
        }
    }
    config.durability = topic_defaults.durability;
    config.topic_defaults = topic_defaults;
    Ok(config)
}

fn listener_keys(values: &Values) -> ListenerKeys<'_> {
    ListenerKeys {
        listeners: values.text("listeners").unwrap_or_default(),
        advertised: values.text("advertised.listeners"),
        protocol_map: values.text(PROTOCOL_MAP).unwrap_or_default(),
        controllers: values.text(CONTROLLERS).unwrap_or_default(),
        inter_broker: values.text("inter.broker.listener.name"),
        follow_advertised: false,
    }
}

fn peers(values: &Values, node_id: BrokerId) -> Result<Option<PeerConfig>, String> {
    let controller = listeners::controller_endpoint(
        values.text("listeners").unwrap_or_default(),
        values.text(CONTROLLERS).unwrap_or_default(),
    )?;
    peers::resolve(&PeerKeys {
        node_id,
        roles: values.text("process.roles").unwrap_or_default(),
        voters: values.text("controller.quorum.voters").unwrap_or_default(),
        bootstrap: values.text("controller.quorum.bootstrap.servers").unwrap_or_default(),
        controller_listener: controller.as_ref().map(|(host, port)| (host.as_str(), *port)),
        peer_listener: values.text("highwater.peer.listener"),
    })
}

/// A listener for controllers that the map leaves out is PLAINTEXT where either is left to us, and
/// else a mistake that would send in the clear what should be encrypted; so it is in Kafka.
fn peer_security(values: &Values) -> Result<PeerSecurityConfig, String> {
    let (listener, protocol) = listeners::controller_protocol(&listener_keys(values))?;
    let protocol = match protocol {
        None if values.is_given(PROTOCOL_MAP) && values.is_given(CONTROLLERS) => {
            return Err(format!(
                "{PROTOCOL_MAP} has no security protocol for the listener {listener} of \
                 {CONTROLLERS}"
            ));
        }
        protocol => protocol.unwrap_or_else(|| "PLAINTEXT".to_owned()),
    };
    let given = |key: &str| {
        let own = values.of_listeners.get(key).map(String::as_str);
        own.or_else(|| values.all.get(key)?.value.as_deref())
    };
    peer_security::resolve(&ListenerValues {
        listener: &listener,
        protocol: &protocol,
        get: &given,
    })
}

fn timing(values: &Values) -> ClusterTiming {
    let rebalances = values.flag("auto.leader.rebalance.enable");
    let interval = values.number("leader.imbalance.check.interval.seconds");
    ClusterTiming {
        heartbeat: values.millis("broker.heartbeat.interval.ms"),
        session_timeout: values.millis("broker.session.timeout.ms"),
        replica_lag_max: values.millis("replica.lag.time.max.ms"),
        rebalance_interval: rebalances
            .then(|| Duration::from_secs(u64::try_from(interval).unwrap_or(u64::MAX))),
    }
}

/// What no single row of the table can say.
fn check_together(values: &Values) -> Result<(), String> {
    for key in ["log.retention.ms", "log.retention.minutes", "log.retention.hours"] {
        if values.text(key).and_then(as_i64) == Some(0) {
            return Err(format!("{key}=0: allowed is -1 for no limit, or at least 1"));
        }
    }
    let (least, most) = ("log.cleaner.min.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms");
    if values.number(least) > values.number(most) {
        return Err(format!(
            "{least}={} is more than {most}={}",
            values.number(least),
            values.number(most)
        ));
    }
    if values.text("process.roles").is_some_and(|roles| !elements(roles).any(|r| r == "broker")) {
        return Err("process.roles: allowed is a list with broker; no node is a controller \
                    only"
            .to_owned());
    }
    if values.is_given("inter.broker.listener.name")
        && values.is_given("security.inter.broker.protocol")
    {
        return Err("inter.broker.listener.name and security.inter.broker.protocol are both \
                    given: allowed is one of them"
            .to_owned());
    }
    Ok(())
}

fn http_listener(values: &Values) -> Result<Option<String>, String> {
    let Some(address) = values.text("highwater.http.listener") else { return Ok(None) };
    let port = address.rsplit_once(':').map(|(_, port)| port.parse::<u16>());
    match port {
        Some(Ok(_)) => Ok(Some(address.to_owned())),
        _ => Err(format!(
            "Invalid value {address} for configuration highwater.http.listener: allowed is \
             host:port, or nothing"
        )),
    }
}

#[cfg(test)]
mod tests;
