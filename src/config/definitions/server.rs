//! The broker itself: who it is, how topics come to be, how much it answers at once.
//!
//! Pure: a table.

use super::reasons::{
    JVM, METADATA_LOG, METRICS, NO_PURGATORY, NO_THREAD_POOLS, RAFT_REPLICATES, TELEMETRY,
};
use super::{Definition, boolean, class, int, list, long, password, string};

/// The rows, by name.
pub(super) const ROWS: &[Definition] = &[
    list("advertised.listeners", None)
        .doc("Where clients are told to find each listener; else the address they came to."),
    class("alter.config.policy.class.name", None)
        .no_effect(JVM)
        .doc("Class that may refuse a change of configs."),
    boolean("auto.create.topics.enable", Some("true"))
        .doc("Whether a topic that a client asks for by name is made when it does not exist."),
    int("background.threads", Some("10"))
        .at_least(1)
        .cluster_wide()
        .no_effect(NO_THREAD_POOLS)
        .doc("Threads for Kafka's periodic work."),
    int("broker.id", Some("-1")).doc("Older name of node.id."),
    string("broker.rack", None)
        .doc("Rack or zone of this broker, told to clients and used when replicas are placed."),
    class("client.quota.callback.class", None)
        .no_effect(JVM)
        .doc("Class that decides clients' quotas."),
    list("config.providers", Some(""))
        .cluster_wide()
        .no_effect(JVM)
        .doc("Names of plugins that fetch values of other keys from elsewhere."),
    class("create.topic.policy.class.name", None)
        .no_effect(JVM)
        .doc("Class that may refuse a topic's creation."),
    int("default.replication.factor", Some("1"))
        .doc("Replicas of a topic's partitions where its creator gives no number."),
    int("delete.records.purgatory.purge.interval.requests", Some("1"))
        .no_effect(NO_PURGATORY)
        .doc("After how many requests Kafka clears delayed DeleteRecords."),
    boolean("delete.topic.enable", Some("true")).doc("Whether topics may be deleted at all."),
    int("fetch.max.bytes", Some("57671680"))
        .at_least(1024)
        .doc("Most bytes of records in the answer to one fetch request."),
    int("fetch.purgatory.purge.interval.requests", Some("1000"))
        .no_effect(NO_PURGATORY)
        .doc("After how many requests Kafka clears delayed fetches."),
    string("highwater.cluster.id", None)
        .doc("Id of the cluster, used by its very first start; else one is made."),
    password("highwater.cluster.secret", None)
        .doc("What all brokers of the cluster know: who does not is refused by those who do."),
    string("highwater.cluster.secret.file", None)
        .doc("File with the cluster's secret, instead of highwater.cluster.secret."),
    string("highwater.http.listener", Some("0.0.0.0:9644"))
        .doc("Address of metrics and health over HTTP; empty turns it off."),
    int("highwater.lag.max.series", Some("1000")).at_least(0).doc(
        "Most groups' partitions that have series of their own in the lag metrics; a group \
             that does not fit has one series for all of its partitions.",
    ),
    string("highwater.log.format", Some("text"))
        .one_of(&["text", "json"])
        .doc("Whether log lines are for people (text) or for machines (json)."),
    string("highwater.peer.listener", None).doc(
        "Where this broker listens for the others, as host:port; a broker that is no controller \
             listens on port 9093.",
    ),
    int("initial.broker.registration.timeout.ms", Some("60000"))
        .no_effect(METADATA_LOG)
        .doc("How long a starting broker waits for the controller quorum to accept it."),
    int("kafka.metrics.polling.interval.secs", Some("10"))
        .at_least(1)
        .no_effect(METRICS)
        .doc("How often Kafka's Yammer reporters look at their metrics."),
    list("kafka.metrics.reporters", Some(""))
        .no_effect(METRICS)
        .doc("Classes that report Kafka's Yammer metrics."),
    int("max.incremental.fetch.session.cache.slots", Some("1000"))
        .at_least(0)
        .doc("How many incremental fetch sessions the broker remembers."),
    int("max.request.partition.size.limit", Some("2000"))
        .at_least(1)
        .doc("Most partitions in one answer to DescribeTopicPartitions."),
    list("metric.reporters", Some(""))
        .cluster_wide()
        .no_effect(METRICS)
        .doc("Classes that report metrics."),
    int("metrics.num.samples", Some("2"))
        .at_least(1)
        .no_effect(METRICS)
        .doc("Samples kept for a rate in Kafka's metrics."),
    string("metrics.recording.level", Some("INFO"))
        .no_effect(METRICS)
        .doc("From which level on Kafka's sensors record."),
    long("metrics.sample.window.ms", Some("30000"))
        .at_least(1)
        .no_effect(METRICS)
        .doc("Length of one sample of Kafka's metrics."),
    int("node.id", Some("1")).at_least(0).doc("Number of this broker, unique within its cluster."),
    int("num.io.threads", Some("8"))
        .at_least(1)
        .cluster_wide()
        .no_effect(NO_THREAD_POOLS)
        .doc("Threads that handle requests in Kafka."),
    int("num.partitions", Some("1"))
        .at_least(1)
        .doc("Partitions of a topic where its creator gives no number."),
    int("num.recovery.threads.per.data.dir", Some("2"))
        .at_least(1)
        .cluster_wide()
        .no_effect(NO_THREAD_POOLS)
        .doc("Threads for recovering a log directory at start."),
    int("num.replica.alter.log.dirs.threads", None)
        .no_effect(RAFT_REPLICATES)
        .doc("Threads that move replicas between log directories."),
    list("process.roles", Some("broker,controller")).one_of(&["broker", "controller"]).doc(
        "What this node is: broker, or both; a broker alone joins the controllers that it is \
             told of.",
    ),
    int("producer.purgatory.purge.interval.requests", Some("1000"))
        .no_effect(NO_PURGATORY)
        .doc("After how many requests Kafka clears delayed produces."),
    int("request.timeout.ms", Some("30000"))
        .no_effect(RAFT_REPLICATES)
        .doc("How long the broker waits for answers to requests that it sends itself."),
    int("telemetry.max.bytes", Some("1048576"))
        .at_least(1)
        .no_effect(TELEMETRY)
        .doc("Most bytes of metrics that a client may push at once."),
];
