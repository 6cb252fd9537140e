//! Why the voters of the metadata log stay who they are: they are those of
//! `controller.quorum.voters` on every broker, which Kafka calls kraft.version 0. Common to
//! AddRaftVoter and RemoveRaftVoter.
//!
//! Pure: no I/O, no clock, no randomness.

use protocol::error_code::ErrorCode;
use uuid::Uuid;

use super::wire::Refusal;

/// As Kafka's own configurations name it.
pub const CONTROLLER_LISTENER: &str = "CONTROLLER";

/// What neither of the two APIs does.
pub const VOTERS_GAPS: &[&str] = &["The voters are those of controller.quorum.voters, so what is \
     asked is answered as by a Kafka cluster with such voters: UNSUPPORTED_VERSION."];

/// What both requests say.
#[derive(Debug, Clone, Copy)]
pub struct VoterChange<'a> {
    /// The cluster that is meant, if one is named.
    pub cluster_id: Option<&'a str>,
    /// Whose `node.id`.
    pub voter_id: i32,
    /// Which of its directories.
    pub directory_id: Uuid,
    /// Whether it has an address for controllers; a voter that goes needs none.
    pub has_address: bool,
}

/// The refusal, judged in the order of Kafka's `KafkaRaftClient`.
#[must_use]
pub fn refusal(change: &VoterChange<'_>, cluster_id: &str) -> Refusal {
    if let Some(meant) = change.cluster_id.filter(|meant| *meant != cluster_id) {
        let message = format!("This is the cluster {cluster_id}, not {meant}.");
        return Refusal::new(ErrorCode::InconsistentClusterId, message);
    }
    if change.voter_id < 0 || change.directory_id.is_nil() {
        let message = "A voter has a node id and a directory id.";
        return Refusal::new(ErrorCode::InvalidRequest, message);
    }
    if !change.has_address {
        let message = format!("The voter has no address for the listener {CONTROLLER_LISTENER}.");
        return Refusal::new(ErrorCode::InvalidRequest, message);
    }
    let message = "The voters are configured by controller.quorum.voters: kraft.version is 0.";
    Refusal::new(ErrorCode::UnsupportedVersion, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_with_a_request_comes_before_what_cannot_be_done() {
        let good = VoterChange {
            cluster_id: Some("c"),
            voter_id: 4,
            directory_id: Uuid::from_u128(1),
            has_address: true,
        };
        let code = |change| refusal(&change, "c").code;
        assert_eq!(code(good), ErrorCode::UnsupportedVersion);
        assert_eq!(code(VoterChange { cluster_id: None, ..good }), ErrorCode::UnsupportedVersion);
        assert_eq!(code(VoterChange { has_address: false, ..good }), ErrorCode::InvalidRequest);
        assert_eq!(code(VoterChange { voter_id: -1, ..good }), ErrorCode::InvalidRequest);
        let nil = VoterChange { directory_id: Uuid::nil(), ..good };
        assert_eq!(code(nil), ErrorCode::InvalidRequest);
        let other = VoterChange { cluster_id: Some("d"), ..nil };
        assert_eq!(code(other), ErrorCode::InconsistentClusterId);
    }
}
