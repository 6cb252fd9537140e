//! What holds for topics whatever the API: which ones are the broker's own, and answers that are
//! grouped by topic.
//!
//! Pure: no I/O, no clock, no randomness.

use kafka_protocol::messages::TopicName;

/// Topics that only the broker writes (Kafka: `Topic.isInternal`). Other names with underscores in
/// front belong to users.
const INTERNAL_TOPICS: [&str; 3] =
    ["__consumer_offsets", "__transaction_state", "__share_group_state"];

/// The client id by which Kafka's admin tools may write internal topics all the same
/// (`AdminUtils.ADMIN_CLIENT_ID`).
pub const ADMIN_CLIENT_ID: &str = "__admin_client";

/// Whether the broker keeps its own state in that topic.
#[must_use]
pub fn is_internal_topic(name: &str) -> bool {
    INTERNAL_TOPICS.contains(&name)
}

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
    fn only_the_brokers_own_topics_are_internal() {
        assert!(is_internal_topic("__consumer_offsets"));
        assert!(!is_internal_topic("__amazon_msk_canary"));
        assert!(!is_internal_topic("_schemas"));
    }

    #[test]
    fn rows_of_a_topic_named_twice_come_together() {
        let name = |name: &'static str| TopicName(name.into());
        let rows = [(name("b"), 1), (name("a"), 2), (name("b"), 3)];
        assert_eq!(group_by_topic(rows), [(name("b"), vec![1, 3]), (name("a"), vec![2])]);
    }
}
