//! What holds for topics whatever the API: who may write the broker's own, and answers that are
//! grouped by topic.
//!
//! Pure: no I/O, no clock, no randomness.

use kafka_protocol::messages::TopicName;

/// The client id by which Kafka's admin tools may write internal topics all the same
/// (`AdminUtils.ADMIN_CLIENT_ID`).
pub const ADMIN_CLIENT_ID: &str = "__admin_client";

/// Rows of an answer in the order of the request, those of one topic together.
#[must_use]
pub fn group_by_topic<R>(
    rows: impl IntoIterator<Item = (TopicName, R)>,
) -> Vec<(TopicName, Vec<R>)> {
    let mut grouped = indexmap::IndexMap::<TopicName, Vec<R>>::new();
    for (topic, row) in rows {
        grouped.entry(topic).or_default().push(row);
    }
    grouped.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_a_topic_named_twice_come_together() {
        let name = |name: &'static str| TopicName(name.into());
        let rows = [(name("b"), 1), (name("a"), 2), (name("b"), 3)];
        assert_eq!(group_by_topic(rows), [(name("b"), vec![1, 3]), (name("a"), vec![2])]);
    }
}
