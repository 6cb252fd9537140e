//! How a partition's Raft group becomes the one that the metadata asks for, one step after the
//! other: new replicas learn, then the voters change, then the old ones are let go.
//!
//! Every step follows from what is now, so a new leader goes on where the one before has stopped,
//! and another target in between is just another target.
//!
//! Pure: no I/O, no clock, no randomness.

use std::collections::BTreeSet;

/// The members of a group, as its leader has them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Members {
    /// The voters; two sets while one is being replaced by the other.
    pub(crate) voters: Vec<BTreeSet<u64>>,
    /// Those that follow without a vote.
    pub(crate) learners: BTreeSet<u64>,
    /// No change is under way.
    pub(crate) is_committed: bool,
}

/// What a leader does next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// Something is under way.
    Wait,
    /// These begin to follow.
    AddLearners(BTreeSet<u64>),
    /// These vote from now on; whoever did and is not among them is let go.
    ChangeVoters(BTreeSet<u64>),
    /// Learners that nobody asks for.
    RemoveLearners(BTreeSet<u64>),
    /// The leader is to leave, so another one has to do it.
    HandOver(u64),
    /// The group is what was asked for.
    Done,
}

/// The next step of leader `own` towards a group of `target`, in the order of preference. A group
/// that `may_grow` takes in who has caught up without waiting for the others, which may be gone.
pub(crate) fn next_step(
    own: u64,
    members: &Members,
    target: &[u64],
    may_grow: bool,
    has_caught_up: impl Fn(u64) -> bool,
) -> Step {
    if !members.is_committed {
        return Step::Wait;
    }
    let wanted: BTreeSet<u64> = target.iter().copied().collect();
    let known: BTreeSet<u64> = members.voters.iter().flatten().copied().collect();
    let unknown: BTreeSet<u64> = wanted
        .iter()
        .filter(|id| !known.contains(id) && !members.learners.contains(id))
        .copied()
        .collect();
    if !unknown.is_empty() {
        return Step::AddLearners(unknown);
    }
    let (ready, late): (BTreeSet<u64>, BTreeSet<u64>) =
        wanted.iter().partition(|id| **id == own || has_caught_up(**id));
    if !late.is_empty() {
        let grown: BTreeSet<u64> = known.union(&ready).copied().collect();
        let grows = may_grow && grown.is_subset(&wanted) && grown != known;
        return if grows { Step::ChangeVoters(grown) } else { Step::Wait };
    }
    // A leader that lets itself go would leave the group without one for a while.
    let mut voters = wanted.clone();
    voters.insert(own);
    if members.voters != [voters.clone()] {
        return Step::ChangeVoters(voters);
    }
    if !wanted.contains(&own) {
        return target.first().map_or(Step::Wait, |id| Step::HandOver(*id));
    }
    let stray: BTreeSet<u64> = members.learners.difference(&wanted).copied().collect();
    if stray.is_empty() { Step::Done } else { Step::RemoveLearners(stray) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(ids: &[u64]) -> BTreeSet<u64> {
        ids.iter().copied().collect()
    }

    fn members(voters: &[&[u64]], learners: &[u64]) -> Members {
        let voters = voters.iter().map(|ids| set(ids)).collect();
        Members { voters, learners: set(learners), is_committed: true }
    }

    /// Takes steps until it is done, whoever leads; returns them.
    fn take(mut members: Members, mut leader: u64, target: &[u64]) -> Vec<Step> {
        let mut steps = Vec::new();
        loop {
            let step = next_step(leader, &members, target, false, |_| true);
            match &step {
                Step::AddLearners(ids) => members.learners.extend(ids),
                Step::ChangeVoters(ids) => {
                    members.voters = vec![ids.clone()];
                    members.learners = members.learners.difference(ids).copied().collect();
                }
                Step::RemoveLearners(ids) => {
                    members.learners = members.learners.difference(ids).copied().collect();
                }
                Step::HandOver(to) => leader = *to,
                Step::Wait => panic!("nothing to wait for: {steps:?}"),
                Step::Done => {
                    assert_eq!(members, super::tests::members(&[target], &[]));
                    return steps;
                }
            }
            steps.push(step);
            assert!(steps.len() < 10, "{steps:?}");
        }
    }

    #[test]
    fn a_replica_is_replaced_by_another() {
        let steps = take(members(&[&[1, 2, 3]], &[]), 1, &[1, 2, 4]);
        assert_eq!(steps, [Step::AddLearners(set(&[4])), Step::ChangeVoters(set(&[1, 2, 4]))]);
    }

    #[test]
    fn a_leader_that_is_to_leave_hands_over_first() {
        let steps = take(members(&[&[1]], &[]), 1, &[2]);
        let expected = [
            Step::AddLearners(set(&[2])),
            Step::ChangeVoters(set(&[1, 2])),
            Step::HandOver(2),
            Step::ChangeVoters(set(&[2])),
        ];
        assert_eq!(steps, expected);
    }

    #[test]
    fn nothing_changes_before_the_new_ones_have_caught_up() {
        let members = members(&[&[1, 2]], &[3]);
        assert_eq!(next_step(1, &members, &[1, 3], false, |id| id != 3), Step::Wait);
        assert_eq!(
            next_step(1, &members, &[1, 3], false, |_| true),
            Step::ChangeVoters(set(&[1, 3]))
        );
    }

    #[test]
    fn a_group_that_has_lost_its_majority_takes_in_who_is_back() {
        let members = members(&[&[1]], &[2, 3]);
        let step = |may_grow| next_step(1, &members, &[1, 2, 3], may_grow, |id| id == 2);
        assert_eq!(step(false), Step::Wait);
        assert_eq!(step(true), Step::ChangeVoters(set(&[1, 2])));
        let members = super::tests::members(&[&[1, 2]], &[3]);
        assert_eq!(next_step(1, &members, &[1, 2, 3], true, |id| id == 2), Step::Wait);
    }

    #[test]
    fn another_leader_goes_on_from_the_middle() {
        let joint = members(&[&[1, 2], &[2, 3]], &[]);
        assert_eq!(
            next_step(2, &joint, &[2, 3], false, |_| true),
            Step::ChangeVoters(set(&[2, 3]))
        );
        let under_way = Members { is_committed: false, ..joint };
        assert_eq!(next_step(2, &under_way, &[2, 3], false, |_| true), Step::Wait);
    }

    #[test]
    fn what_was_cancelled_is_undone() {
        assert_eq!(take(members(&[&[1, 2]], &[3]), 1, &[1, 2]), [Step::RemoveLearners(set(&[3]))]);
        assert_eq!(
            take(members(&[&[3]], &[]), 3, &[1, 2]),
            [
                Step::AddLearners(set(&[1, 2])),
                Step::ChangeVoters(set(&[1, 2, 3])),
                Step::HandOver(1),
                Step::ChangeVoters(set(&[1, 2])),
            ]
        );
    }
}
