//! What may differ between two brokers that behave alike, and why: nothing else may.

/// How far a field may differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// In any way.
    Ignore,
    /// As long as both are negative, zero or positive.
    SameSign,
    /// As long as both are negative or neither is.
    NegativeOrNot,
    /// As long as both are there or both are null.
    SamePresence,
    /// As long as ours is there where Kafka's is.
    MayAdd,
}

/// A rule: API (`*` for all), path (`*` for anything), how far, why.
type Rule = (&'static str, &'static str, Mode, &'static str);

/// Every field that may differ.
const MAY_DIFFER: &[Rule] = &[
    ("*", "throttle_time_ms", Mode::Ignore, "no quota is set; a broker may slow a client anyway"),
    ("*", "*error_message", Mode::MayAdd, "free text for people; ours also where Kafka has none"),
    ("*", "*documentation", Mode::SamePresence, "each has its own sentences"),
    ("*", "*configs[highwater.*", Mode::Ignore, "configs of our own"),
    ("CreateTopics", "*topic_id", Mode::SamePresence, "drawn by chance; a nil one is a difference"),
    ("*", "*log_append_time_ms", Mode::NegativeOrNot, "the time of day"),
    ("*", "*port", Mode::SameSign, "each broker has its own"),
    ("*", "*cluster_id", Mode::SamePresence, "each cluster has its own"),
    ("ConsumerGroupHeartbeat", "member_id", Mode::SamePresence, "drawn by chance in version 0"),
    ("*", "*producer_id", Mode::NegativeOrNot, "each broker hands out its own blocks"),
    ("*", "*session_id", Mode::SameSign, "drawn by chance"),
    ("DescribeConfigs", "*configs[log.dir*].*value", Mode::Ignore, "each has its own directory"),
    ("DescribeConfigs", "*listener*].*", Mode::Ignore, "each has its own addresses"),
    ("DescribeConfigs", "*configs[controller.*", Mode::Ignore, "there is no separate controller"),
    (
        "DescribeConfigs",
        "*configs[process.roles]*",
        Mode::Ignore,
        "there is no separate controller",
    ),
    ("DescribeLogDirs", "results[*].log_dir", Mode::Ignore, "each broker has its own directory"),
    ("DescribeLogDirs", "*_bytes", Mode::SameSign, "of the file system, which moves"),
    ("DescribeLogDirs", "*partition_size", Mode::SameSign, "the format on disk is our own"),
];

/// Arrays whose order means nothing: API, path, the field that names an element.
const IN_ANY_ORDER: &[(&str, &str, &str)] = &[
    ("ApiVersions", "*api_keys", "api_key"),
    ("ApiVersions", "*_features", "name"),
    ("Metadata", "topics", "name"),
    ("Metadata", "topics[*].partitions", "partition_index"),
    ("CreateTopics", "topics", "name"),
    ("CreateTopics", "topics[*].configs", "name"),
    ("CreatePartitions", "results", "name"),
    ("DeleteTopics", "responses", "name+topic_id"),
    ("DeleteRecords", "topics", "name"),
    ("DeleteRecords", "topics[*].partitions", "partition_index"),
    ("Produce", "responses", "name+topic_id"),
    ("Produce", "responses[*].partition_responses", "index"),
    ("ListOffsets", "topics", "name"),
    ("ListOffsets", "topics[*].partitions", "partition_index"),
    ("OffsetForLeaderEpoch", "topics", "topic"),
    ("OffsetForLeaderEpoch", "topics[*].partitions", "partition"),
    ("Fetch", "responses", "topic+topic_id"),
    ("Fetch", "responses[*].partitions", "partition_index"),
    ("DescribeConfigs", "results", "resource_type+resource_name"),
    ("DescribeConfigs", "results[*].configs", "name"),
    ("AlterConfigs", "responses", "resource_type+resource_name"),
    ("IncrementalAlterConfigs", "responses", "resource_type+resource_name"),
    ("ListGroups", "groups", "group_id"),
    ("OffsetFetch", "*topics", "name+topic_id"),
    ("OffsetFetch", "*partitions", "partition_index"),
    ("OffsetCommit", "*topics", "name+topic_id"),
    ("OffsetCommit", "*partitions", "partition_index"),
    ("OffsetDelete", "*topics", "name"),
    ("OffsetDelete", "*partitions", "partition_index"),
    ("DescribeGroups", "groups", "group_id"),
    ("ConsumerGroupDescribe", "groups", "group_id"),
    ("DeleteGroups", "results", "group_id"),
    ("DescribeLogDirs", "results[*].topics", "name"),
    ("DescribeLogDirs", "results[*].topics[*].partitions", "partition_index"),
];

/// How far the field at a path may differ, if at all.
pub fn mode(api: &str, path: &str) -> Option<Mode> {
    MAY_DIFFER
        .iter()
        .find(|(rule_api, pattern, ..)| is_api(rule_api, api) && matches(pattern, path))
        .map(|(_, _, mode, _)| *mode)
}

/// The field by which the elements of an array are told apart, when their order means nothing.
pub fn key(api: &str, path: &str) -> Option<&'static str> {
    IN_ANY_ORDER
        .iter()
        .find(|(rule_api, pattern, _)| is_api(rule_api, api) && matches(pattern, path))
        .map(|(_, _, key)| *key)
}

fn is_api(rule: &str, api: &str) -> bool {
    rule == "*" || rule == api
}

/// Whether `text` is as the pattern says, in which `*` stands for anything.
pub fn matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = text.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_anything() {
        assert!(matches("a[*].b", "a[12].b"));
        assert!(matches("*", ""));
        assert!(matches("*port", "brokers[0].port"));
        assert!(matches("a", "a"));
        assert!(!matches("a", "ab"));
        assert!(!matches("a[*].b", "a[1].c"));
        assert!(!matches("*ab", "b"));
    }

    #[test]
    fn every_rule_has_a_reason() {
        assert!(MAY_DIFFER.iter().all(|(.., reason)| !reason.is_empty()));
    }
}
