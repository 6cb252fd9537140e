//! Who leads which partition and which brokers are there: what every broker knows of all
//! partitions, also of those that it has no replica of, and the controller's board that tells it.
//!
//! Elections are the groups' own, so nothing of this is decided here or written to the metadata
//! log: leaders report to the controller, and the controller passes on what is new. A later leader
//! epoch always wins, so reports may come late or twice.
//!
//! Pure: no I/O, no clock, no randomness.

use std::collections::{BTreeMap, BTreeSet};

use protocol::types::{BrokerId, LeaderEpoch};
use serde::{Deserialize, Serialize};

use crate::metadata::PartitionImage;
use crate::replica::Leadership;

/// What a leader says of its partition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LeaderRow {
    /// The partition's Raft group.
    pub(crate) group: u64,
    pub(crate) leader: BrokerId,
    pub(crate) leader_epoch: LeaderEpoch,
    /// Those that follow closely, the leader included.
    pub(crate) in_sync_replicas: Vec<BrokerId>,
    /// The leader's process has ended since, and with it what it led among several replicas.
    #[serde(default)]
    pub(crate) is_over: bool,
}

impl LeaderRow {
    fn supersedes(&self, known: &LeaderRow) -> bool {
        let same_reign = self.leader_epoch == known.leader_epoch && self.leader == known.leader;
        self.leader_epoch > known.leader_epoch || (same_reign && !known.is_over && self != known)
    }
}

/// What a broker knows.
#[derive(Debug, Default)]
pub(crate) struct View {
    rows: BTreeMap<u64, LeaderRow>,
    /// `None` until the controller has said so: everybody may be there then.
    alive: Option<BTreeSet<BrokerId>>,
    /// Of the controller's metadata, when it was heard of last.
    image_version: u64,
}

impl View {
    /// Whether it was news.
    pub(crate) fn learn(&mut self, row: LeaderRow) -> bool {
        if self.rows.get(&row.group).is_some_and(|known| !row.supersedes(known)) {
            return false;
        }
        self.rows.insert(row.group, row);
        true
    }

    /// Whether it was news.
    pub(crate) fn learn_alive(&mut self, alive: BTreeSet<BrokerId>, image_version: u64) -> bool {
        self.image_version = self.image_version.max(image_version);
        let changed = self.alive.as_ref() != Some(&alive);
        self.alive = Some(alive);
        changed
    }

    pub(crate) fn image_version(&self) -> u64 {
        self.image_version
    }

    pub(crate) fn row(&self, group: u64) -> Option<&LeaderRow> {
        self.rows.get(&group)
    }

    pub(crate) fn is_alive(&self, broker: BrokerId) -> bool {
        self.alive.as_ref().is_none_or(|alive| alive.contains(&broker))
    }

    /// A broker's process has ended: its reigns are over, also when it comes back.
    pub(crate) fn on_ended(&mut self, broker: BrokerId) {
        for row in self.rows.values_mut().filter(|row| row.leader == broker) {
            row.is_over = true;
        }
    }

    /// Whether the controller has said that a broker is there.
    pub(crate) fn is_told_alive(&self, broker: BrokerId) -> bool {
        self.alive.as_ref().is_some_and(|alive| alive.contains(&broker))
    }

    /// Forgets partitions that are gone.
    pub(crate) fn forget(&mut self, groups: &[u64]) {
        for group in groups {
            self.rows.remove(group);
        }
    }
}

/// What the controller tells a broker that knows an earlier version of the board.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct News {
    /// The controller's term: versions of another one mean nothing.
    pub(crate) term: u64,
    pub(crate) version: u64,
    pub(crate) rows: Vec<LeaderRow>,
    pub(crate) alive: BTreeSet<BrokerId>,
    /// Of the controller's metadata.
    pub(crate) image_version: u64,
}

/// What the controller has been told in its term.
#[derive(Debug)]
pub(crate) struct Board {
    term: u64,
    version: u64,
    rows: BTreeMap<u64, (u64, LeaderRow)>,
    /// When each broker was heard of last; one that is not there is dead.
    heard_at_ms: BTreeMap<BrokerId, u64>,
}

impl Board {
    /// Begins with what this broker knew before it became the controller. The brokers have a
    /// session's time to report, but for those that are known to have ended.
    pub(crate) fn new(
        term: u64,
        view: &View,
        brokers: impl IntoIterator<Item = BrokerId>,
        now_ms: u64,
    ) -> Board {
        let rows = view.rows.iter().map(|(group, row)| (*group, (1, row.clone()))).collect();
        let heard_at_ms = brokers.into_iter().map(|id| (id, now_ms)).collect();
        Board { term, version: 1, rows, heard_at_ms }
    }

    pub(crate) fn term(&self) -> u64 {
        self.term
    }

    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// A broker has shown that it is there.
    pub(crate) fn on_heard(&mut self, broker: BrokerId, now_ms: u64) {
        if self.heard_at_ms.insert(broker, now_ms).is_none() {
            self.version += 1;
        }
    }

    /// A broker is known to have ended, or to be none of the cluster's any more.
    pub(crate) fn on_ended(&mut self, broker: BrokerId) {
        if self.heard_at_ms.remove(&broker).is_some() {
            self.version += 1;
        }
        for (version, row) in self.rows.values_mut() {
            if row.leader == broker && !row.is_over {
                self.version += 1;
                (*version, row.is_over) = (self.version, true);
            }
        }
    }

    /// Takes those for dead that have not been heard of for a session's time.
    pub(crate) fn expire(&mut self, now_ms: u64, session_timeout_ms: u64) {
        let before = self.heard_at_ms.len();
        self.heard_at_ms.retain(|_, at| now_ms.saturating_sub(*at) <= session_timeout_ms);
        if self.heard_at_ms.len() != before {
            self.version += 1;
        }
    }

    pub(crate) fn on_report(&mut self, row: LeaderRow) {
        if self.rows.get(&row.group).is_some_and(|(_, known)| !row.supersedes(known)) {
            return;
        }
        self.version += 1;
        self.rows.insert(row.group, (self.version, row));
    }

    /// Forgets partitions that are gone; nobody needs to be told.
    pub(crate) fn forget(&mut self, groups: &[u64]) {
        for group in groups {
            self.rows.remove(group);
        }
    }

    /// What is new to a broker that has seen `version` of `term`.
    pub(crate) fn news_since(&self, term: u64, version: u64, image_version: u64) -> News {
        let seen = if term == self.term { version } else { 0 };
        let rows = self.rows.values().filter(|(at, _)| *at > seen).map(|(_, row)| row.clone());
        News {
            term: self.term,
            version: self.version,
            rows: rows.collect(),
            alive: self.heard_at_ms.keys().copied().collect(),
            image_version,
        }
    }
}

/// A partition's leadership, from what the replica here says and what the controller has told.
pub(crate) fn leadership(
    partition: &PartitionImage,
    own: BrokerId,
    local: Option<Leadership>,
    told: Option<&LeaderRow>,
    is_alive: impl Fn(BrokerId) -> bool,
) -> Leadership {
    let mut leadership = match (local, told) {
        // Nobody knows better than the leader itself.
        (Some(local), _) if local.leader == Some(own) => return local,
        (Some(local), Some(told)) if local.leader_epoch > told.leader_epoch => {
            Leadership { in_sync_replicas: told.in_sync_replicas.clone(), ..local }
        }
        (_, Some(told)) => Leadership {
            leader: Some(told.leader).filter(|_| !told.is_over || partition.replicas.len() == 1),
            leader_epoch: told.leader_epoch,
            in_sync_replicas: told.in_sync_replicas.clone(),
        },
        (Some(local), None) => local,
        // Where there is one replica, nobody else can lead.
        (None, None) => Leadership {
            leader: partition.replicas.first().copied().filter(|_| partition.replicas.len() == 1),
            leader_epoch: LeaderEpoch::UNKNOWN,
            in_sync_replicas: partition.replicas.clone(),
        },
    };
    leadership.leader = leadership.leader.filter(|id| is_alive(*id));
    let there: Vec<_> =
        leadership.in_sync_replicas.iter().copied().filter(|id| is_alive(*id)).collect();
    // As in Kafka, the last ones to have been in sync stay.
    if !there.is_empty() {
        leadership.in_sync_replicas = there;
    }
    leadership
}

#[cfg(test)]
mod tests {
    use protocol::types::PartitionId;

    use super::*;

    fn row(group: u64, leader: i32, epoch: i32, in_sync: &[i32]) -> LeaderRow {
        LeaderRow {
            group,
            leader: BrokerId(leader),
            leader_epoch: LeaderEpoch(epoch),
            in_sync_replicas: in_sync.iter().copied().map(BrokerId).collect(),
            is_over: false,
        }
    }

    fn brokers(ids: &[i32]) -> BTreeSet<BrokerId> {
        ids.iter().copied().map(BrokerId).collect()
    }

    #[test]
    fn a_late_report_of_a_former_leader_changes_nothing() {
        let mut view = View::default();
        assert!(view.learn(row(1, 2, 5, &[2])));
        assert!(!view.learn(row(1, 1, 4, &[1, 2, 3])) && !view.learn(row(1, 1, 5, &[1])));
        assert!(view.learn(row(1, 2, 5, &[2, 3])) && view.learn(row(1, 1, 6, &[1])));
        assert_eq!(view.row(1), Some(&row(1, 1, 6, &[1])));
    }

    #[test]
    fn a_broker_is_told_what_it_has_not_seen_and_all_by_a_new_controller() {
        let mut board = Board::new(7, &View::default(), [1, 2].map(BrokerId), 0);
        let begun = board.version();
        board.on_report(row(1, 1, 1, &[1]));
        let seen = board.version();
        board.on_report(row(2, 1, 1, &[1]));
        let rows = |term, version| board.news_since(term, version, 0).rows.len();
        assert_eq!((rows(7, begun), rows(7, seen), rows(7, board.version())), (2, 1, 0));
        assert_eq!(rows(6, board.version()), 2);
    }

    #[test]
    fn a_new_controller_knows_what_it_knew_before() {
        let mut view = View::default();
        view.learn(row(4, 2, 3, &[2]));
        let news = Board::new(2, &view, [], 0).news_since(0, 0, 0);
        assert_eq!(news.rows, [row(4, 2, 3, &[2])]);
    }

    #[test]
    fn a_broker_that_is_silent_for_a_session_is_dead_until_it_is_heard_again() {
        let mut board = Board::new(1, &View::default(), [1, 2].map(BrokerId), 1_000);
        board.on_heard(BrokerId(1), 5_000);
        board.expire(10_500, 9_000);
        assert_eq!(board.news_since(1, 0, 0).alive, brokers(&[1]));
        let version = board.version();
        board.expire(10_600, 9_000);
        board.on_heard(BrokerId(1), 10_700);
        assert_eq!(board.version(), version, "nothing has changed");
        board.on_heard(BrokerId(2), 10_800);
        assert_eq!(board.news_since(1, 0, 0).alive, brokers(&[1, 2]));
        board.on_ended(BrokerId(1));
        assert_eq!(board.news_since(1, 0, 0).alive, brokers(&[2]));
    }

    fn partition(replicas: &[i32]) -> PartitionImage {
        let replicas = replicas.iter().copied().map(BrokerId).collect();
        PartitionImage { id: PartitionId(0), group: 1, replicas, ..PartitionImage::default() }
    }

    fn local(leader: Option<i32>, epoch: i32) -> Option<Leadership> {
        let leader = leader.map(BrokerId);
        let in_sync_replicas = [1, 2, 3].map(BrokerId).to_vec();
        Some(Leadership { leader, leader_epoch: LeaderEpoch(epoch), in_sync_replicas })
    }

    #[test]
    fn the_later_epoch_says_who_leads() {
        let told = row(1, 2, 5, &[2, 3]);
        let of =
            |local| leadership(&partition(&[1, 2, 3]), BrokerId(1), local, Some(&told), |_| true);
        let leader = |local| of(local).leader.map(|id| id.0);
        assert_eq!(leader(None), Some(2));
        assert_eq!(leader(local(Some(3), 4)), Some(2));
        assert_eq!(leader(local(Some(3), 6)), Some(3));
        assert_eq!(leader(local(None, 6)), None);
        assert_eq!(leader(local(Some(1), 6)), Some(1));
        assert_eq!(of(local(Some(2), 5)).in_sync_replicas, [2, 3].map(BrokerId));
    }

    #[test]
    fn who_is_not_there_leads_nothing_and_follows_nobody() {
        let told = row(1, 2, 5, &[2, 3]);
        let partition = partition(&[1, 2, 3]);
        let seen = |alive: &[i32]| {
            let alive = brokers(alive);
            leadership(&partition, BrokerId(9), None, Some(&told), |id| alive.contains(&id))
        };
        assert_eq!(
            (seen(&[1, 3]).leader, seen(&[1, 3]).in_sync_replicas),
            (None, vec![BrokerId(3)])
        );
        assert_eq!(seen(&[1]).in_sync_replicas, [2, 3].map(BrokerId), "the last ones stay");
    }

    #[test]
    fn a_leader_that_has_ended_leads_no_more_when_it_is_back() {
        let mut view = View::default();
        view.learn(row(1, 2, 5, &[2, 3]));
        let mut board = Board::new(1, &view, [2, 3].map(BrokerId), 0);
        board.on_ended(BrokerId(2));
        board.on_heard(BrokerId(2), 1);
        board.news_since(0, 0, 0).rows.into_iter().for_each(|row| {
            view.learn(row);
        });
        let of = |replicas: &[i32], view: &View| {
            leadership(&partition(replicas), BrokerId(9), None, view.row(1), |_| true).leader
        };
        assert_eq!((of(&[2, 3], &view), of(&[2], &view)), (None, Some(BrokerId(2))));
        view.learn(row(1, 2, 5, &[2]));
        assert_eq!(of(&[2, 3], &view), None, "a late report");
        view.learn(row(1, 2, 6, &[2]));
        assert_eq!(of(&[2, 3], &view), Some(BrokerId(2)));
    }

    #[test]
    fn a_leader_nobody_has_told_of_is_not_guessed() {
        let of = |replicas: &[i32]| {
            leadership(&partition(replicas), BrokerId(9), None, None, |_| true).leader
        };
        assert_eq!(of(&[1, 2]), None);
        assert_eq!(of(&[2]), Some(BrokerId(2)));
    }
}
