//! Leaders that a majority answers no more give leadership up (Kafka:
//! `controller.quorum.fetch.timeout.ms`, by which a leader of the metadata log resigns).
//!
//! Where a network lets packets through in one direction only, the followers still hear their
//! leader, so they would never elect another one, while nothing can be committed. Where the others
//! are known to be gone nobody could take over, and the leader stays, for those who read.

use std::time::Duration;

use protocol::types::BrokerId;

use super::failover::Led;
use crate::raft::{RaftGroup, broker_id};

/// Looks at what this broker leads, every `pace`: whoever has not been answered by a majority for
/// `window`, twice in a row and in the same term, abdicates.
pub(crate) async fn run(
    pace: Duration,
    window: Duration,
    is_alive: impl Fn(BrokerId) -> bool,
    groups: impl Fn() -> Vec<Led>,
) {
    let mut suspects: Vec<(RaftGroup, u64)> = Vec::new();
    loop {
        tokio::time::sleep(pace).await;
        let mut silent = Vec::new();
        for led in groups() {
            let group = &led.group;
            let is_silent = group.is_leader() && !group.hears_majority(window);
            if !is_silent || !is_majority_there(&led, &is_alive) {
                continue;
            }
            let term = group.leader_state().term;
            if suspects.iter().any(|(suspect, then)| suspect.is(group) && *then == term) {
                tracing::warn!(node = group.node_id(), term, "no majority answers: abdicating");
                group.abdicate().await;
            } else {
                silent.push((led.group, term));
            }
        }
        suspects = silent;
    }
}

fn is_majority_there(led: &Led, is_alive: impl Fn(BrokerId) -> bool) -> bool {
    let is_there = |node: &&u64| broker_id(**node).is_some_and(&is_alive);
    led.nodes.iter().filter(is_there).count() > led.nodes.len() / 2
}
