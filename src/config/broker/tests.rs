//! Claims about what is read from where, and what is refused.

use super::*;
use cluster::metadata::{BrokerImage, MetadataCommand, apply};

#[track_caller]
fn load(file: &str, environment: &[(&str, &str)], overrides: &[&str]) -> BrokerConfig {
    let (config, unknown) = try_load(file, environment, overrides).expect("it loads");
    assert_eq!(unknown, Vec::<String>::new());
    config
}

fn try_load(
    file: &str,
    environment: &[(&str, &str)],
    overrides: &[&str],
) -> Result<(BrokerConfig, Vec<String>), String> {
    let environment: Vec<_> =
        environment.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    let overrides: Vec<_> = overrides.iter().map(|pair| (*pair).to_owned()).collect();
    BrokerConfig::from_sources(file, &environment, &overrides)
}

#[track_caller]
fn refused(overrides: &[&str]) -> String {
    try_load("", &[], overrides).map(|_| ()).expect_err("it is refused")
}

#[test]
fn nothing_given_is_a_broker_on_9092() {
    let config = load("", &[], &[]);
    assert_eq!(config.node_id, BrokerId(1));
    assert_eq!(config.listeners.len(), 1);
    assert_eq!(config.listeners[0].port, 9092);
    assert_eq!(config.listeners[0].host, "");
    assert_eq!(config.log_dir, PathBuf::from("./data"));
    assert_eq!(config.http_listener.as_deref(), Some("0.0.0.0:9644"));
    assert_eq!(config.durability, Durability::Fsync);
    assert_eq!(config.num_partitions, 1);
    assert_eq!(config.default_replication_factor, 1);
    assert!(config.auto_create_topics_enable && config.delete_topic_enable);
    assert_eq!(config.socket_request_max_bytes, 104_857_600);
    assert_eq!(config.connections_max_idle, Duration::from_secs(600));
    assert_eq!(config.fetch_max_bytes, 55 << 20);
    assert_eq!(config.max_fetch_session_slots, 1000);
    assert_eq!(config.log_retention_check_interval, Duration::from_secs(300));
    assert_eq!(config.producer_id_expiration, Duration::from_secs(86_400));
    assert_eq!(config.topic_defaults.retention_ms, Some(604_800_000));
    assert_eq!(config.topic_defaults.retention_bytes, None);
    assert_eq!(config.topic_defaults.max_message_bytes, 1_048_588);
    assert_eq!(config.topic_defaults.timestamp_after_max_ms, 3_600_000);
    assert_eq!(config.topic_defaults.segment_bytes, 1 << 30);
    assert_eq!(config.topic_defaults.compression_type, None);
}

#[test]
fn the_later_source_counts() {
    let file = "num.partitions=2\nlog.dirs=/a, /b\nbroker.rack=r1\n";
    let config = load(file, &[("KAFKA_NUM_PARTITIONS", "3")], &[]);
    assert_eq!(config.num_partitions, 3);
    assert_eq!(config.log_dir, PathBuf::from("/a"));
    assert_eq!(config.rack.as_deref(), Some("r1"));
    let config = load(file, &[("KAFKA_NUM_PARTITIONS", "3")], &["num.partitions=4"]);
    assert_eq!(config.num_partitions, 4);
    let value = |key: &str| config.values.get(key).map(|v| (v.value.as_deref(), v.is_static));
    assert_eq!(value("num.partitions"), Some((Some("4"), true)));
    assert_eq!(value("log.retention.hours"), Some((Some("168"), false)));
    assert_eq!(value("log.retention.ms"), Some((None, false)));
}

#[test]
fn a_compose_file_of_the_official_image_is_read() {
    let environment = [
        ("KAFKA_NODE_ID", "1"),
        ("KAFKA_PROCESS_ROLES", "broker,controller"),
        ("KAFKA_LISTENERS", "PLAINTEXT://:19092,CONTROLLER://:9093,PLAINTEXT_HOST://:9092"),
        ("KAFKA_ADVERTISED_LISTENERS", "PLAINTEXT://broker:19092,PLAINTEXT_HOST://localhost:9092"),
        (
            "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP",
            "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,PLAINTEXT_HOST:PLAINTEXT",
        ),
        ("KAFKA_INTER_BROKER_LISTENER_NAME", "PLAINTEXT"),
        ("KAFKA_CONTROLLER_LISTENER_NAMES", "CONTROLLER"),
        ("KAFKA_CONTROLLER_QUORUM_VOTERS", "1@broker:9093"),
        ("KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR", "1"),
        ("KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS", "0"),
        ("KAFKA_LOG_DIRS", "/tmp/kraft-combined-logs"),
        ("KAFKA_HEAP_OPTS", "-Xmx1g"),
        ("CLUSTER_ID", "4L6g3nShT-eMCtK--X86sw"),
        ("HOME", "/root"),
    ];
    let config = load("", &environment, &[]);
    assert_eq!(config.cluster_id.as_deref(), Some("4L6g3nShT-eMCtK--X86sw"));
    let told: Vec<_> = config.listeners.iter().map(|l| l.advertised.clone()).collect();
    assert_eq!(told, [Some(("broker".into(), 19092)), Some(("localhost".into(), 9092))]);
    let effective = ["log.dirs", "group.initial.rebalance.delay.ms", "controller.quorum.voters"];
    assert!(config.without_effect().all(|(key, _)| !effective.contains(&key)));
    assert_eq!(config.peers, None, "one voter is a broker that is alone");
}

#[test]
fn other_images_are_read_too() {
    let bitnami = [
        ("KAFKA_CFG_NODE_ID", "7"),
        ("KAFKA_CFG_LISTENERS", "PLAINTEXT://:9092,CONTROLLER://:9093"),
        ("KAFKA_KRAFT_CLUSTER_ID", "abc"),
        ("KAFKA_ENABLE_KRAFT", "yes"),
        ("ALLOW_PLAINTEXT_LISTENER", "yes"),
    ];
    let config = load("", &bitnami, &[]);
    assert_eq!((config.node_id, config.cluster_id.as_deref()), (BrokerId(7), Some("abc")));
    let confluent = [
        ("KAFKA_BROKER_ID", "3"),
        ("KAFKA_ZOOKEEPER_CONNECT", "zookeeper:2181"),
        ("KAFKA_ADVERTISED_LISTENERS", "PLAINTEXT://broker:29092"),
        ("KAFKA_CONFLUENT_LICENSE_TOPIC_REPLICATION_FACTOR", "1"),
        ("CONFLUENT_METRICS_ENABLE", "false"),
    ];
    let config = load("", &confluent, &[]);
    assert_eq!(config.node_id, BrokerId(3));
    assert_eq!(config.listeners[0].port, 29092);
}

#[test]
fn a_given_listener_beats_the_advertised_one() {
    let environment = [("KAFKA_ADVERTISED_LISTENERS", "PLAINTEXT://broker:29092")];
    assert_eq!(load("", &environment, &["listeners=PLAINTEXT://:1"]).listeners[0].port, 1);
    assert_eq!(load("listeners=PLAINTEXT://:2", &environment, &[]).listeners[0].port, 2);
}

#[test]
fn unknown_keys_are_named() {
    let (_, unknown) = try_load("a.b=c\nnum.partitions=2", &[("KAFKA_PORT", "tcp://x")], &[])
        .expect("they stop nothing");
    assert_eq!(unknown, ["a.b", "port"]);
    let (_, unknown) = try_load("listener.name.x.ssl.keystore.type=PEM", &[], &[]).expect("known");
    assert_eq!(unknown, Vec::<String>::new());
}

#[test]
fn wrong_values_stop_the_start() {
    for (pair, parts) in [
        ("num.partitions=0", ["num.partitions", "0", "at least 1"]),
        ("log.retention.ms=0", ["log.retention.ms", "0", "at least 1"]),
        (
            "auto.create.topics.enable=maybe",
            ["auto.create.topics.enable", "maybe", "true or false"],
        ),
        ("highwater.durability=never", ["highwater.durability", "never", "fsync, os"]),
        ("highwater.http.listener=9644", ["highwater.http.listener", "9644", "host:port"]),
        ("authorizer.class.name=x.Y", ["authorizer.class.name", "x.Y", "nothing"]),
        ("listeners=SASL_SSL://:9092", ["SASL_SSL", "not built", "PLAINTEXT"]),
        ("process.roles=controller", ["process.roles", "broker", ""]),
        ("no-pair", ["no-pair", "key=value", ""]),
    ] {
        let error = refused(&[pair]);
        assert!(parts.iter().all(|part| error.contains(part)), "{pair}: {error}");
    }
    assert!(refused(&["node.id=1", "broker.id=2"]).contains("one number"));
    assert!(refused(&["node.id=-2"]).contains("node.id"));
    let both = ["inter.broker.listener.name=PLAINTEXT", "security.inter.broker.protocol=PLAINTEXT"];
    assert!(refused(&both).contains("one of them"));
    let error = BrokerConfig::load(Some(Path::new("/no/such/file")), &[], &[]);
    assert!(error.is_err_and(|e| e.contains("/no/such/file")));
}

#[test]
fn node_id_and_broker_id_are_one() {
    for overrides in [&["broker.id=5"][..], &["node.id=5"], &["node.id=5", "broker.id=-1"]] {
        let config = load("", &[], overrides);
        assert_eq!(config.node_id, BrokerId(5));
        for key in ["node.id", "broker.id"] {
            assert_eq!(config.values[key].value.as_deref(), Some("5"));
        }
    }
}

#[test]
fn an_empty_http_listener_is_off() {
    assert_eq!(load("", &[], &["highwater.http.listener="]).http_listener, None);
}

#[test]
fn requests_in_work_are_bounded_and_the_largest_still_fits() {
    let bytes = |pairs: &[&str]| load("", &[], pairs).queued_max_request_bytes;
    assert_eq!(bytes(&[]), 128 << 20);
    assert_eq!(bytes(&["queued.max.request.bytes=1"]), 104_857_600);
    assert_eq!(bytes(&["queued.max.request.bytes=209715200"]), 209_715_200);
}

#[test]
fn the_finer_unit_of_retention_counts() {
    let retention = |pairs: &[&str]| load("", &[], pairs).topic_defaults.retention_ms;
    assert_eq!(retention(&["log.retention.hours=2"]), Some(7_200_000));
    assert_eq!(retention(&["log.retention.hours=2", "log.retention.minutes=3"]), Some(180_000));
    let all = ["log.retention.hours=2", "log.retention.minutes=3", "log.retention.ms=4"];
    assert_eq!(retention(&all), Some(4));
    assert_eq!(retention(&["log.retention.hours=-1"]), None);
    assert_eq!(retention(&["log.retention.ms=-1"]), None);
}

fn configs(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
}

fn image(all: &[(&str, &str)], one: &[(&str, &str)]) -> MetadataImage {
    let broker = BrokerImage {
        id: BrokerId(1),
        rack: None,
        endpoints: Vec::new(),
        peer_address: None,
        directory_id: None,
    };
    let set = |broker, pairs| MetadataCommand::SetBrokerConfigs { broker, configs: configs(pairs) };
    let commands =
        [MetadataCommand::RegisterBroker { broker }, set(None, all), set(Some(BrokerId(1)), one)];
    commands.iter().fold(MetadataImage::default(), |image, command| apply(&image, command).0)
}

#[test]
fn a_topic_inherits_from_the_nearest() {
    let broker = load("", &[], &["log.retention.hours=1", "message.max.bytes=100"]);
    let retention = |own: &[(&str, &str)], image: &MetadataImage| {
        TopicConfig::resolve(&configs(own), image, &broker).retention_ms
    };
    let nothing = MetadataImage::default();
    assert_eq!(retention(&[], &nothing), Some(3_600_000));
    let all = image(&[("log.retention.ms", "5")], &[]);
    assert_eq!(retention(&[], &all), Some(5));
    let one = image(&[("log.retention.ms", "5")], &[("log.retention.ms", "6")]);
    assert_eq!(retention(&[], &one), Some(6));
    assert_eq!(retention(&[("retention.ms", "7")], &one), Some(7));
    assert_eq!(retention(&[("retention.ms", "-1")], &one), None);
    assert_eq!(broker.effective(&one, "log.retention.ms"), Some("6"));
    assert_eq!(broker.effective(&nothing, "message.max.bytes"), Some("100"));
}

#[test]
fn a_topics_keys_are_typed() {
    let broker = load("", &[], &[]);
    let own = configs(&[
        ("cleanup.policy", "compact"),
        ("compression.type", "zstd"),
        ("highwater.durability", "os"),
        ("max.message.bytes", "10"),
        ("message.timestamp.type", "LogAppendTime"),
        ("min.insync.replicas", "2"),
        ("retention.bytes", "11"),
        ("segment.bytes", "1048576"),
    ]);
    let config = TopicConfig::resolve(&own, &MetadataImage::default(), &broker);
    assert!(config.cleanup_compact && !config.cleanup_delete && config.log_append_time);
    assert_eq!(config.compression_type.as_deref(), Some("zstd"));
    assert_eq!(config.durability, Durability::Os);
    assert_eq!((config.max_message_bytes, config.min_insync_replicas), (10, 2));
    assert_eq!((config.retention_bytes, config.segment_bytes), (Some(11), 1 << 20));
    let os = load("", &[], &["highwater.durability=os"]);
    assert_eq!(os.durability, Durability::Os);
    assert_eq!(os.topic_defaults.durability, Durability::Os);
}

#[test]
fn brokers_among_several_are_protected_as_the_controllers_listener_says() {
    const VOTERS: &str = "controller.quorum.voters=1@a:9093,2@b:9093,3@c:9093";
    const STORES: [&str; 4] = [
        "ssl.keystore.type=PEM",
        "ssl.keystore.location=/store.pem",
        "ssl.truststore.type=PEM",
        "ssl.truststore.location=/trusted.pem",
    ];
    let with = |more: &[&'static str]| [&[VOTERS][..], &STORES[..], more].concat();
    let map = "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:SSL";
    assert!(load("", &[], &with(&[map])).peer_security.tls.is_some());
    assert_eq!(load("", &[], &with(&[])).peer_security, PeerSecurityConfig::default());
    let own = "listener.name.controller.ssl.client.auth=required";
    let auth = load("", &[], &with(&[map, own])).peer_security.tls.map(|tls| tls.client_auth);
    assert_eq!(auth, Some(peer_security::ClientAuth::Required));
    let named = "controller.listener.names=SSL";
    assert!(load("", &[], &with(&[named])).peer_security.tls.is_some());

    let without = "listener.security.protocol.map=PLAINTEXT:PLAINTEXT";
    assert_eq!(load("", &[], &[VOTERS, without]).peer_security, PeerSecurityConfig::default());
    let why = refused(&[VOTERS, without, "controller.listener.names=CONTROLLER"]);
    assert!(why.contains("no security protocol for the listener CONTROLLER"), "{why}");
    assert!(refused(&[VOTERS, map]).contains("ssl.keystore.location"));
    assert_eq!(load("", &[], &[map]).peer_security, PeerSecurityConfig::default(), "it is alone");
}

#[test]
fn the_clusters_secret_is_hidden() {
    let pairs = ["controller.quorum.voters=1@a:1,2@b:1", "highwater.cluster.secret=tide"];
    let config = load("", &[], &pairs);
    assert!(config.peer_security.secret.is_some());
    assert!(!format!("{:?}", config.peer_security).contains("tide"));
    assert!(definitions::broker("highwater.cluster.secret").is_some_and(|row| row.is_sensitive()));
}
