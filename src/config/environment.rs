//! Keys from the environment, as the images apache/kafka, confluentinc/cp-kafka and bitnami/kafka
//! read them: `KAFKA_LOG_DIRS` and `KAFKA_CFG_LOG_DIRS` are `log.dirs`.
//!
//! Pure: no I/O, no clock, no randomness.

/// Variables that those images use for other things: options of the JVM, versions, their own
/// start scripts.
const EXCLUDED: &[&str] = &[
    "KAFKA_CERTIFICATE_PASSWORD",
    "KAFKA_CLIENT_LISTENER_NAME",
    "KAFKA_CLIENT_PASSWORDS",
    "KAFKA_CLIENT_USERS",
    "KAFKA_CLUSTER_ID",
    "KAFKA_CONTROLLER_PASSWORD",
    "KAFKA_CONTROLLER_USER",
    "KAFKA_ENABLE_KRAFT",
    "KAFKA_EXTRA_FLAGS",
    "KAFKA_GC_LOG_OPTS",
    "KAFKA_HEAP_OPTS",
    "KAFKA_HOME",
    "KAFKA_INITIAL_CONTROLLERS",
    "KAFKA_INTER_BROKER_PASSWORD",
    "KAFKA_INTER_BROKER_USER",
    "KAFKA_JMX_HOSTNAME",
    "KAFKA_JMX_OPTS",
    "KAFKA_JMX_PORT",
    "KAFKA_JVM_PERFORMANCE_OPTS",
    "KAFKA_KRAFT_BOOTSTRAP_SCRAM_USERS",
    "KAFKA_KRAFT_CLUSTER_ID",
    "KAFKA_LOG4J_LOGGERS",
    "KAFKA_LOG4J_OPTS",
    "KAFKA_LOG4J_ROOT_LOGLEVEL",
    "KAFKA_OPTS",
    "KAFKA_SKIP_KRAFT_STORAGE_INIT",
    "KAFKA_TLS_CLIENT_AUTH",
    "KAFKA_TLS_TYPE",
    "KAFKA_TLS_TRUSTSTORE_FILE",
    "KAFKA_TOOLS_LOG4J_LOGLEVEL",
    "KAFKA_VERSION",
    "KAFKA_VOLUME_DIR",
];

/// Beginnings of names that are of no concern here.
const EXCLUDED_PREFIXES: &[&str] = &["KAFKA_CONFLUENT_", "KAFKA_ZOOKEEPER_"];

/// Names under which a cluster id is given; the first one that is set counts.
const CLUSTER_ID: &[&str] = &["CLUSTER_ID", "KAFKA_CLUSTER_ID", "KAFKA_KRAFT_CLUSTER_ID"];

/// What the environment says.
#[derive(Debug, Default, PartialEq)]
pub struct FromEnvironment {
    /// Keys and values, by key.
    pub pairs: Vec<(String, String)>,
    /// Cluster id.
    pub cluster_id: Option<String>,
    /// Whether `KAFKA_ADVERTISED_LISTENERS` stands alone: the images then listen on the same ports.
    pub listeners_follow_advertised: bool,
}

/// Reads the variables that are for us.
#[must_use]
pub fn read(environment: &[(String, String)]) -> FromEnvironment {
    let mut pairs: Vec<_> =
        environment.iter().filter_map(|(name, value)| Some((key(name)?, value.clone()))).collect();
    pairs.sort();
    let get = |wanted: &str| {
        let found = environment.iter().find(|(name, _)| name == wanted);
        found.map(|(_, value)| value.trim()).filter(|value| !value.is_empty())
    };
    FromEnvironment {
        cluster_id: CLUSTER_ID.iter().find_map(|name| get(name)).map(str::to_owned),
        listeners_follow_advertised: get("KAFKA_ADVERTISED_LISTENERS").is_some()
            && !pairs.iter().any(|(key, _)| key == "listeners"),
        pairs,
    }
}

/// The key that a variable names, if it is for us.
fn key(name: &str) -> Option<String> {
    let rest = name.strip_prefix("KAFKA_")?;
    if EXCLUDED.contains(&name)
        || EXCLUDED_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        || (name.ends_with("_FILE") && !rest.starts_with("CFG_"))
        || rest.is_empty()
    {
        return None;
    }
    let rest = rest.strip_prefix("CFG_").unwrap_or(rest);
    let dotted = rest.to_ascii_lowercase().replace('_', ".");
    Some(dotted.replace("...", "-").replace("..", "_"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    }

    #[test]
    fn names_become_keys_as_the_images_make_them() {
        for (name, expected) in [
            ("KAFKA_NODE_ID", Some("node.id")),
            ("KAFKA_CFG_NODE_ID", Some("node.id")),
            ("KAFKA_A__B", Some("a_b")),
            ("KAFKA_A___B_C", Some("a-b.c")),
            ("KAFKA_HIGHWATER_HTTP_LISTENER", Some("highwater.http.listener")),
            ("KAFKA_HEAP_OPTS", None),
            ("KAFKA_ZOOKEEPER_CONNECT", None),
            ("KAFKA_CONFLUENT_SUPPORT_METRICS_ENABLE", None),
            ("CONFLUENT_X", None),
            ("KAFKA_", None),
            ("PATH", None),
        ] {
            assert_eq!(key(name).as_deref(), expected, "{name}");
        }
    }

    #[test]
    fn the_cluster_id_has_three_names() {
        for name in CLUSTER_ID {
            let read = read(&environment(&[(name, "abc")]));
            assert_eq!(read.cluster_id.as_deref(), Some("abc"));
            assert_eq!(read.pairs, vec![]);
        }
    }

    #[test]
    fn listeners_follow_what_is_advertised_where_they_are_not_given() {
        let advertised = ("KAFKA_ADVERTISED_LISTENERS", "PLAINTEXT://broker:29092");
        assert!(read(&environment(&[advertised])).listeners_follow_advertised);
        let both = environment(&[advertised, ("KAFKA_LISTENERS", "PLAINTEXT://:9092")]);
        assert!(!read(&both).listeners_follow_advertised);
        assert!(!read(&[]).listeners_follow_advertised);
    }
}
