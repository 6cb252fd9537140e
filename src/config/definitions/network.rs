//! Listeners, connections, request sizes, and quotas.
//!
//! Pure: a table.

use super::reasons::{NO_THREAD_POOLS, PEER_PROTOCOL, QUOTAS, RAFT_REPLICATES, SECURITY};
use super::{Definition, int, list, long, string};

const PROTOCOL_MAP: &str =
    "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT";

/// The rows, by name.
pub(super) const ROWS: &[Definition] = &[
    int("connection.failed.authentication.delay.ms", Some("100"))
        .at_least(0)
        .no_effect(SECURITY)
        .doc("How long the close of a connection is delayed when its authentication failed."),
    long("connections.max.idle.ms", Some("600000"))
        .doc("After how long without a request a connection is closed."),
    long("connections.max.reauth.ms", Some("0"))
        .no_effect(SECURITY)
        .doc("How long a SASL session lasts before the client must authenticate again."),
    list("controller.listener.names", Some("CONTROLLER"))
        .doc("Listeners for controllers; clients are not served on them and they are not opened."),
    list("early.start.listeners", None)
        .doc("Listeners that open before metadata are loaded; all open at once here."),
    string("inter.broker.listener.name", None).doc("Listener that brokers use among themselves."),
    string("listener.security.protocol.map", Some(PROTOCOL_MAP))
        .doc("Security protocol of each listener name."),
    list("listeners", Some("PLAINTEXT://:9092"))
        .doc("Addresses to listen on, each with a name; an empty host is every address."),
    int("max.connection.creation.rate", Some("2147483647"))
        .at_least(0)
        .cluster_wide()
        .no_effect(QUOTAS)
        .doc("New connections per second that the broker accepts."),
    int("max.connections", Some("2147483647"))
        .at_least(0)
        .doc("Connections that may be open at a time; beyond it the broker stops accepting."),
    int("max.connections.per.ip", Some("2147483647"))
        .at_least(0)
        .doc("Connections that one address may have open; further ones are closed."),
    string("max.connections.per.ip.overrides", Some(""))
        .cluster_wide()
        .no_effect(QUOTAS)
        .doc("Exceptions from max.connections.per.ip, as address:number pairs."),
    int("num.network.threads", Some("3"))
        .at_least(1)
        .cluster_wide()
        .no_effect(NO_THREAD_POOLS)
        .doc("Threads that read and write sockets in Kafka."),
    long("queued.max.request.bytes", Some("-1")).doc(
        "Bytes of requests in work at which sockets are not read; -1: as the broker sees fit.",
    ),
    int("queued.max.requests", Some("500"))
        .at_least(1)
        .no_effect(NO_THREAD_POOLS)
        .doc("Requests that may wait for Kafka's I/O threads."),
    int("quota.window.num", Some("11"))
        .at_least(1)
        .no_effect(QUOTAS)
        .doc("Samples kept for client quotas."),
    int("quota.window.size.seconds", Some("1"))
        .at_least(1)
        .no_effect(QUOTAS)
        .doc("Length of one sample of client quotas."),
    string("security.inter.broker.protocol", Some("PLAINTEXT"))
        .one_of(&["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"])
        .no_effect(PEER_PROTOCOL)
        .doc("Security protocol among brokers, where inter.broker.listener.name is not given."),
    long("socket.connection.setup.timeout.max.ms", Some("30000"))
        .no_effect(RAFT_REPLICATES)
        .doc("Longest wait for a connection to another broker to be set up."),
    long("socket.connection.setup.timeout.ms", Some("10000"))
        .no_effect(RAFT_REPLICATES)
        .doc("First wait for a connection to another broker to be set up."),
    int("socket.listen.backlog.size", Some("50"))
        .at_least(1)
        .no_effect(NO_THREAD_POOLS)
        .doc("Connections the kernel queues before they are accepted."),
    int("socket.receive.buffer.bytes", Some("102400"))
        .no_effect(NO_THREAD_POOLS)
        .doc("SO_RCVBUF of clients' sockets; the kernel sizes it by itself here."),
    int("socket.request.max.bytes", Some("104857600"))
        .at_least(1)
        .doc("Largest request; a larger one closes the connection."),
    int("socket.send.buffer.bytes", Some("102400"))
        .no_effect(NO_THREAD_POOLS)
        .doc("SO_SNDBUF of clients' sockets; the kernel sizes it by itself here."),
];
