//! Which replica a consumer reads from: one of its own rack, if that follows closely (KIP-392;
//! Kafka: `RackAwareReplicaSelector`, `ReplicaManager.findPreferredReadReplica`).
//!
//! Pure: no I/O, no clock, no randomness.

use protocol::types::{BrokerId, Offset};

/// A follower that the consumer could read from: it is in sync and has the offset asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// Which broker.
    pub id: BrokerId,
    /// Its `broker.rack`.
    pub rack: Option<String>,
    /// The end of its log, as the leader knows it.
    pub log_end_offset: Offset,
}

/// The follower that a consumer of `rack` should read from; `None` = from the leader, which is in
/// `leader_rack`. Of several the one that has most. Nobody asks for `followers` where the leader is
/// near: every fetch comes by here.
#[must_use]
pub fn preferred(
    rack: &str,
    leader_rack: Option<&str>,
    followers: impl FnOnce() -> Vec<Candidate>,
) -> Option<BrokerId> {
    if rack.is_empty() || leader_rack == Some(rack) {
        return None;
    }
    let near = followers().into_iter().filter(|follower| follower.rack.as_deref() == Some(rack));
    near.max_by_key(|follower| (follower.log_end_offset, std::cmp::Reverse(follower.id)))
        .map(|follower| follower.id)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidates() -> Vec<Candidate> {
        [(2, Some("b"), 10), (3, Some("b"), 12), (4, Some("b"), 12), (5, None, 20)]
            .map(|(id, rack, end)| Candidate {
                id: BrokerId(id),
                rack: rack.map(str::to_owned),
                log_end_offset: Offset(end),
            })
            .to_vec()
    }

    #[test]
    fn the_one_of_the_rack_that_has_most() {
        assert_eq!(preferred("b", Some("a"), candidates), Some(BrokerId(3)));
        assert_eq!(preferred("b", None, candidates), Some(BrokerId(3)));
    }

    #[test]
    fn the_leader_where_it_is_as_near_or_nobody_is() {
        assert_eq!(preferred("b", Some("b"), candidates), None);
        assert_eq!(preferred("c", Some("a"), candidates), None);
        assert_eq!(preferred("", Some("a"), candidates), None);
    }
}
