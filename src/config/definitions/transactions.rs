//! Transactions.
//!
//! Pure: a table.

use super::reasons::{NO_SEGMENTS, TRANSACTIONS};
use super::{Definition, boolean, int, short};

/// The rows, by name.
pub(super) const ROWS: &[Definition] = &[
    int("add.partitions.to.txn.retry.backoff.max.ms", Some("100"))
        .at_least(0)
        .no_effect(TRANSACTIONS)
        .doc("Longest pause before the coordinator is asked again about a transaction."),
    int("add.partitions.to.txn.retry.backoff.ms", Some("20"))
        .at_least(1)
        .no_effect(TRANSACTIONS)
        .doc("First pause before the coordinator is asked again about a transaction."),
    int("transaction.abort.timed.out.transaction.cleanup.interval.ms", Some("10000"))
        .at_least(1)
        .no_effect(TRANSACTIONS)
        .doc("How often transactions beyond their timeout are aborted."),
    int("transaction.max.timeout.ms", Some("900000"))
        .at_least(1)
        .no_effect(TRANSACTIONS)
        .doc("Longest timeout that a producer may ask for its transactions."),
    boolean("transaction.partition.verification.enable", Some("true"))
        .cluster_wide()
        .no_effect(TRANSACTIONS)
        .doc("Whether the partition asks the coordinator before it takes a transactional batch."),
    int("transaction.remove.expired.transaction.cleanup.interval.ms", Some("3600000"))
        .at_least(1)
        .no_effect(TRANSACTIONS)
        .doc("How often expired transactional ids are removed."),
    int("transaction.state.log.load.buffer.size", Some("5242880"))
        .at_least(1)
        .no_effect(TRANSACTIONS)
        .doc("Bytes read at once when transactions are loaded."),
    int("transaction.state.log.min.isr", Some("2"))
        .at_least(1)
        .no_effect(TRANSACTIONS)
        .doc("In-sync replicas that __transaction_state needs."),
    int("transaction.state.log.num.partitions", Some("50"))
        .at_least(1)
        .doc("Partitions of __transaction_state."),
    short("transaction.state.log.replication.factor", Some("3"))
        .at_least(1)
        .doc("Replicas of __transaction_state; no more than there are brokers."),
    int("transaction.state.log.segment.bytes", Some("104857600"))
        .at_least(1)
        .no_effect(NO_SEGMENTS)
        .doc("Size of the segments of __transaction_state."),
    boolean("transaction.two.phase.commit.enable", Some("false"))
        .no_effect(TRANSACTIONS)
        .doc("Whether producers may take part in two-phase commit."),
    int("transactional.id.expiration.ms", Some("604800000"))
        .at_least(1)
        .no_effect(TRANSACTIONS)
        .doc("How long an unused transactional id is kept."),
];
