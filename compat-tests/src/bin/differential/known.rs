//! Differences that are known and stay for now, each with its reason. One that has vanished fails
//! the run, so that this list cannot outlive what it tells.

use crate::rules::matches;

/// A known difference: API (`*` for all), name of the case (with the step after a slash where it
/// has several), path of the field, reason. `*` stands for anything in the first three.
#[derive(Debug)]
pub struct Known(pub &'static str, pub &'static str, pub &'static str, pub &'static str);

impl Known {
    /// Whether it is this difference.
    pub fn covers(&self, api: &str, case: &str, path: &str) -> bool {
        matches(self.0, api) && matches(self.1, case) && matches(self.2, path)
    }
}

/// All of them.
pub const KNOWN: &[Known] = &[
    Known(
        "CreateTopics",
        "*=*",
        "topics[*].topic_id",
        "Only validated: Kafka names an id that the topic would have had, ours names none.",
    ),
    Known("CreateTopics", "only validated*", "topics[*].topic_id", "The same."),
    Known("CreateTopics", "max.message.bytes= 7 ", "*", "Kafka keeps spaces around a number."),
    Known(
        "ApiVersions",
        "*",
        "api_keys[*",
        "What is served is told by docs/COMPATIBILITY.md; versions above those that the \
         crate kafka-protocol can decode are not.",
    ),
    Known(
        "ApiVersions",
        "*",
        "*_features*",
        "Kafka's other features gate formats of its metadata log, and protocols that have to be \
         built first.",
    ),
    Known(
        "CreateTopics",
        "*",
        "topics[*].configs[min.insync.replicas].config_source",
        "Kafka writes min.insync.replicas down as a dynamic config of all brokers where \
         eligible leader replicas are on.",
    ),
    Known("DescribeConfigs", "*", "*configs[min.insync.replicas]*", "The same."),
    Known(
        "CreateTopics",
        "* time",
        "*",
        "A timeout of zero or less: Kafka gives up before it has begun, ours is done when \
         it answers.",
    ),
    Known("CreatePartitions", "no time", "*", "The same."),
    Known("DeleteTopics", "no time", "*", "The same."),
    Known("CreateTopics", "min.cleanable.dirty.ratio=NaN", "*", "Java reads it as a number."),
    Known("CreateTopics", "min.cleanable.dirty.ratio=0.5d", "*", "Java reads it as a number."),
    Known(
        "DescribeTopicPartitions",
        "an empty name",
        "*",
        "Kafka's metadata cache throws, and the answer is UNKNOWN_SERVER_ERROR; an empty \
         name is an invalid topic here.",
    ),
    Known(
        "IncrementalAlterConfigs",
        "an unknown operation*",
        "*error_code",
        "Kafka answers UNKNOWN_SERVER_ERROR, ours INVALID_REQUEST.",
    ),
    Known("IncrementalAlterConfigs", "a negative operation*", "*error_code", "The same."),
    Known(
        "IncrementalAlterConfigs",
        "a config that brokers do not have",
        "*",
        "Unknown broker keys, which Kafka keeps for plugins, are refused.",
    ),
    Known("DescribeConfigs", "client metrics", "results[16*", "Clients push no metrics (KIP-714)."),
    Known(
        "AlterConfigs",
        "one resource twice",
        "",
        "Kafka never answers (its authorizer step throws); ours answers INVALID_REQUEST.",
    ),
    Known(
        "ListOffsets",
        "an unknown isolation level",
        "*",
        "Kafka answers UNKNOWN_SERVER_ERROR; an unknown level is read_uncommitted here.",
    ),
    Known("Fetch", "an unknown isolation level", "*", "The same."),
    Known(
        "Fetch",
        "minus one byte *",
        "*",
        "Kafka answers UNKNOWN_SERVER_ERROR to a negative limit; it is a limit of zero \
         here.",
    ),
    Known(
        "Fetch",
        "of a follower that is not one, with its state",
        "*current_leader*",
        "Followers do not fetch through this API: the refusal names no leader.",
    ),
    Known(
        "Metadata",
        "a topic that is made by asking",
        "*",
        "Kafka answers that the topic does not exist and makes it meanwhile; here it is \
         there in the first answer.",
    ),
    Known(
        "Metadata",
        "*null name",
        "*",
        "No client asks so. Kafka answers with an error and no brokers, ours with an \
         error for the topic.",
    ),
    Known("Metadata", "neither id nor name", "*", "The same."),
    Known("Metadata", "by id * before ids could be asked for", "*", "The same."),
    Known("Metadata", "by id before ids could be asked for", "*", "The same."),
    Known(
        "Metadata",
        "an id and a name of two topics",
        "*",
        "From version 12 on, Kafka looks at ids only where one is given, and forgets the \
         names.",
    ),
    Known(
        "Metadata",
        "an array longer than the frame",
        "",
        "A null array in version 0, which has none: read as \"all topics\" by kafka- \
         protocol, refused by Kafka.",
    ),
    Known(
        "OffsetForLeaderEpoch",
        "a very negative epoch",
        "*",
        "Kafka takes any epoch but -1 for one before the first; below zero there is none \
         here.",
    ),
    Known(
        "Produce",
        "a partition twice*",
        "*",
        "Kafka drops the first batch without a word; ours refuses both.",
    ),
    Known("ListOffsets", "a partition twice/end", "*", "The same."),
    Known(
        "Produce",
        "a topic twice*",
        "*",
        "Kafka answers with one row of the topic, ours with two, as the client wrote \
         them.",
    ),
    Known(
        "Produce",
        "a duplicate*",
        "*log_append_time_ms",
        "Kafka answers a duplicate with the timestamp of the batch that it has; ours with \
         -1, as for the first one.",
    ),
    Known(
        "Produce",
        "a producer's batch*",
        "*log_append_time_ms",
        "The same: versions after the first send it again.",
    ),
    Known("Produce", "an id that nobody gave*", "*log_append_time_ms", "The same."),
    Known(
        "Produce",
        "a transactional batch outside of a transaction",
        "*error_code",
        "Kafka answers 19 while its transaction coordinator's log does not exist; ours \
         INVALID_TXN_STATE.",
    ),
    Known(
        "Produce",
        "codec *",
        "*error_code",
        "Kafka answers UNKNOWN_SERVER_ERROR, ours UNSUPPORTED_COMPRESSION_TYPE.",
    ),
    Known(
        "Produce",
        "* that is none/produce",
        "*error_code",
        "Bytes that do not decompress: Kafka answers UNKNOWN_SERVER_ERROR, ours \
         INVALID_RECORD.",
    ),
    Known("Produce", "null records", "", "Kafka never answers; ours answers INVALID_RECORD."),
    Known(
        "Produce",
        "magic *",
        "*log_start_offset",
        "INVALID_RECORD for the bytes as a whole: Kafka has not looked at the log then. \
         The field is read after UNKNOWN_PRODUCER_ID only.",
    ),
    Known("Produce", "no bytes*", "*log_start_offset", "The same."),
    Known("Produce", "two batches*", "*log_start_offset", "The same."),
    Known("Produce", "a batch length beyond the bytes*", "*log_start_offset", "The same."),
    Known("Produce", "a good batch and a bad one*", "*log_start_offset", "The same."),
    Known("Produce", "a header without records*", "*log_start_offset", "The same."),
    Known("Produce", "codec *", "*log_start_offset", "The same."),
    Known("Produce", "half a header*", "*log_start_offset", "The same."),
    Known("Produce", "the first byte only*", "*log_start_offset", "The same."),
    Known("Produce", "without the last byte*", "*log_start_offset", "The same."),
    Known(
        "DescribeConfigs",
        "the broker, all",
        "*configs[max.connections*].read_only",
        "Read at start only.",
    ),
    Known(
        "DescribeConfigs",
        "the broker, all",
        "*configs[producer.id.expiration.ms].read_only",
        "The same.",
    ),
    Known("DescribeConfigs", "the broker, all", "*configs[ssl.*].read_only", "The same."),
    Known("DescribeConfigs", "the broker, all", "*configs[metric.reporters]*", "There is no JMX."),
    Known(
        "DescribeConfigs",
        "the broker, all",
        "*configs[node.id].synonyms[1]",
        "node.id has a default here.",
    ),
    Known(
        "DescribeConfigs",
        "the broker, all",
        "*configs[replica.alter.log.dirs.io.max.bytes.per.second]",
        "Kafka takes it and does not show it.",
    ),
    Known(
        "DescribeConfigs",
        "the broker, all",
        "*configs[*replication.throttled.rate]",
        "The same.",
    ),
    Known("DescribeConfigs", "the broker, all", "*configs[super.users]", "The same."),
    Known(
        "DescribeConfigs",
        "the broker, all",
        "*configs[allow.everyone.if.no.acl.found]",
        "The same.",
    ),
    Known(
        "OffsetCommit",
        "one partition twice/commit",
        "topics[*",
        "A topic in two rows: Kafka answers with two, ours with one that has both partitions.",
    ),
    Known("OffsetCommit", "metadata too long/commit", "topics[*", "The same."),
    Known(
        "ConsumerGroupHeartbeat",
        "a regular expression",
        "assignment.topic_partitions[0]",
        "Kafka reads the expression beside the heartbeats and assigns with a later one.",
    ),
    Known("ConsumerGroupHeartbeat", "a regular expression", "member_epoch", "The same."),
    Known(
        "DescribeQuorum",
        "another topic",
        "*",
        "Both refuse; Kafka adds a sentence to the partition and names no nodes, ours names them.",
    ),
];
