//! A topic's configuration: its own keys over the broker's dynamic ones over the static ones.
//!
//! Pure: no I/O, no clock, no randomness.

use std::collections::BTreeMap;

use cluster::metadata::MetadataImage;
use cluster::replica::ThrottledReplicas;
use storage::log_store::Durability;

use super::broker::BrokerConfig;
use super::definitions::{self, Definition};
use super::value::{as_bool, as_i64, check, elements};

/// A topic's configuration, resolved and typed.
#[derive(Debug, Clone, PartialEq)]
pub struct TopicConfig {
    /// `max.message.bytes`
    pub max_message_bytes: usize,
    /// `max.decompressed.message.bytes`
    pub max_decompressed_message_bytes: usize,
    /// `cleanup.policy` has `delete`.
    pub cleanup_delete: bool,
    /// `cleanup.policy` has `compact`.
    pub cleanup_compact: bool,
    /// `retention.ms`; `None` = no limit. Of effect only with `cleanup_delete`.
    pub retention_ms: Option<i64>,
    /// `retention.bytes`; `None` = no limit. Of effect only with `cleanup_delete`.
    pub retention_bytes: Option<i64>,
    /// `None` = producer; else `uncompressed`, `gzip`, `snappy`, `lz4` or `zstd`.
    pub compression_type: Option<String>,
    /// `message.timestamp.type` is LogAppendTime.
    pub log_append_time: bool,
    /// `message.timestamp.before.max.ms`
    pub timestamp_before_max_ms: i64,
    /// `message.timestamp.after.max.ms`
    pub timestamp_after_max_ms: i64,
    /// `min.insync.replicas`
    pub min_insync_replicas: usize,
    /// `leader.replication.throttled.replicas`
    pub leader_throttled: ThrottledReplicas,
    /// `follower.replication.throttled.replicas`
    pub follower_throttled: ThrottledReplicas,
    /// `unclean.leader.election.enable`
    pub unclean_leader_election: bool,
    /// `segment.bytes`
    pub segment_bytes: usize,
    /// `highwater.durability`
    pub durability: Durability,
}

impl Default for TopicConfig {
    /// Before any key is looked at; what is not limited is not limited.
    fn default() -> Self {
        Self {
            max_message_bytes: usize::MAX,
            max_decompressed_message_bytes: usize::MAX,
            cleanup_delete: true,
            cleanup_compact: false,
            retention_ms: None,
            retention_bytes: None,
            compression_type: None,
            log_append_time: false,
            timestamp_before_max_ms: i64::MAX,
            timestamp_after_max_ms: i64::MAX,
            min_insync_replicas: 1,
            leader_throttled: ThrottledReplicas::Nothing,
            follower_throttled: ThrottledReplicas::Nothing,
            unclean_leader_election: false,
            segment_bytes: usize::MAX,
            durability: Durability::Fsync,
        }
    }
}

impl TopicConfig {
    /// The topic's own values over the dynamic broker ones in `image` over the static ones.
    #[must_use]
    pub fn resolve(
        own: &BTreeMap<String, String>,
        image: &MetadataImage,
        broker: &BrokerConfig,
    ) -> TopicConfig {
        let mut config = broker.topic_defaults.clone();
        // Produce asks for every request, so only what is set is looked at.
        for scope in [None, Some(broker.node_id)] {
            let Some(set) = image.broker_configs.get(&scope) else { continue };
            for (key, value) in set {
                if let Some(row) = definitions::topic_inheriting(key) {
                    config.set(row.name, value);
                }
            }
        }
        for (key, value) in own {
            config.set(key, value);
        }
        config
    }

    /// Takes one value. Values are checked where they are given; one that cannot be read changes
    /// nothing.
    pub(super) fn set(&mut self, key: &str, value: &str) {
        let number = as_i64(value);
        let count = number.map(|number| usize::try_from(number).unwrap_or_default());
        match key {
            "cleanup.policy" => {
                self.cleanup_delete = elements(value).any(|policy| policy == "delete");
                self.cleanup_compact = elements(value).any(|policy| policy == "compact");
            }
            "compression.type" => {
                self.compression_type = (value != "producer").then(|| value.to_owned());
            }
            "follower.replication.throttled.replicas" => {
                self.follower_throttled = ThrottledReplicas::parse(value);
            }
            "highwater.durability" => {
                self.durability = if value == "os" { Durability::Os } else { Durability::Fsync };
            }
            "leader.replication.throttled.replicas" => {
                self.leader_throttled = ThrottledReplicas::parse(value);
            }
            "max.message.bytes" => assign(&mut self.max_message_bytes, count),
            "max.decompressed.message.bytes" => {
                assign(&mut self.max_decompressed_message_bytes, count);
            }
            "message.timestamp.after.max.ms" => assign(&mut self.timestamp_after_max_ms, number),
            "message.timestamp.before.max.ms" => assign(&mut self.timestamp_before_max_ms, number),
            "message.timestamp.type" => self.log_append_time = value == "LogAppendTime",
            "min.insync.replicas" => assign(&mut self.min_insync_replicas, count),
            "retention.bytes" => self.retention_bytes = number.filter(|limit| *limit >= 0),
            "retention.ms" => self.retention_ms = number.filter(|limit| *limit >= 0),
            "segment.bytes" => assign(&mut self.segment_bytes, count),
            "unclean.leader.election.enable" => {
                assign(&mut self.unclean_leader_election, as_bool(value));
            }
            // The table says of every other key why it has no effect.
            _ => {}
        }
    }
}

fn assign<T>(field: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *field = value;
    }
}

/// The default of a topic's or a group's key: the first of the broker's keys that has a value, in
/// the unit of the topic's; else the table's.
pub fn inherited(
    definition: &Definition,
    broker: impl Fn(&str) -> Option<String>,
) -> Option<String> {
    let from_broker = definition
        .synonyms
        .iter()
        .find_map(|synonym| broker(synonym).map(|value| in_topics_unit(synonym, value)));
    let value = from_broker.or_else(|| definition.default.map(str::to_owned));
    match value.as_deref().and_then(as_i64) {
        Some(limit) if definition.name == "retention.ms" && limit < 0 => Some("-1".to_owned()),
        _ => value,
    }
}

fn in_topics_unit(synonym: &str, value: String) -> String {
    let factor = match synonym.rsplit_once('.') {
        Some((_, "hours")) => 3_600_000,
        Some((_, "minutes")) => 60_000,
        _ => return value,
    };
    as_i64(&value).map_or(value, |number| number.saturating_mul(factor).to_string())
}

/// Checks a topic's own configs. The error is a sentence.
pub fn check_own(own: &BTreeMap<String, String>) -> Result<(), String> {
    for (key, value) in own {
        let definition =
            definitions::topic(key).ok_or_else(|| format!("Unknown topic config name: {key}"))?;
        check(definition, value)?;
    }
    let lag = |key: &str| own.get(key).and_then(|value| as_i64(value));
    let least = lag("min.compaction.lag.ms").unwrap_or_default();
    let most = lag("max.compaction.lag.ms").unwrap_or(i64::MAX);
    if least > most {
        return Err(format!(
            "min.compaction.lag.ms={least} is more than max.compaction.lag.ms={most}"
        ));
    }
    if own.get("remote.storage.enable").and_then(|value| as_bool(value)) == Some(true) {
        return Err(
            "remote.storage.enable=true: allowed is false, there is no tiered storage".into()
        );
    }
    Ok(())
}
