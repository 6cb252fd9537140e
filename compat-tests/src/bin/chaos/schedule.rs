//! Pure: which faults come when. A seed says it all; whom a fault hits is decided when it comes,
//! for who leads is not known before.

use std::fmt;

/// A small generator of numbers that only look random: SplitMix64.
#[derive(Debug, Clone)]
pub struct Dice(u64);

impl Dice {
    /// The same numbers for the same seed.
    pub fn new(seed: u64) -> Dice {
        Dice(seed)
    }

    /// The next number.
    pub fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number from 0 to `end`, without it.
    pub fn below(&mut self, end: u64) -> u64 {
        self.roll() % end.max(1)
    }

    /// One of them.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        from.get(self.below(from.len() as u64) as usize)
    }

    fn shuffle<T>(&mut self, list: &mut [T]) {
        for end in (1..list.len()).rev() {
            list.swap(end, self.below(end as u64 + 1) as usize);
        }
    }
}

/// Whom a fault hits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// The leader of some partition.
    Leader,
    /// A broker that follows in some partition.
    Follower,
    /// The leader of the metadata log.
    Controller,
}

/// What is done to the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// kill -9 of one broker; it is started again.
    Kill(Target),
    /// kill -9 of all three at once.
    KillAll,
    /// SIGSTOP, and SIGCONT later.
    Pause(Target),
    /// SIGTERM and a start, one broker after the other.
    RollingRestart,
    /// Nobody reaches it and it reaches nobody.
    Isolate(Target),
    /// The other brokers do not reach it, nor it them; clients do.
    CutFromPeers(Target),
    /// Nothing that it sends to the other brokers arrives; what they send does.
    Mute(Target),
    /// Nothing that the other brokers send to it arrives; what it sends does.
    Deafen(Target),
    /// It can open no connection to another broker; the others can, to it.
    OneWay(Target),
    /// One other broker and it do not reach each other; both reach the third.
    CutPair(Target),
    /// Everything to it and from it takes longer.
    SlowLink(Target),
    /// Some of the packets to it and from it are lost.
    PacketLoss(Target),
    /// Its clock jumps.
    ClockJump(Target),
    /// Its disk is slow.
    SlowDisk(Target),
    /// A partition gets other replicas, and later its old ones back.
    Reassign,
    /// Every partition is to be led by its first replica, again and again.
    ElectLeaders,
}

impl Fault {
    /// Every fault in its kinds.
    pub const ALL: &'static [Fault] = &[
        Fault::Kill(Target::Leader),
        Fault::Kill(Target::Follower),
        Fault::Kill(Target::Controller),
        Fault::KillAll,
        Fault::Pause(Target::Leader),
        Fault::Pause(Target::Follower),
        Fault::RollingRestart,
        Fault::Isolate(Target::Leader),
        Fault::Isolate(Target::Controller),
        Fault::CutFromPeers(Target::Leader),
        Fault::Mute(Target::Leader),
        Fault::Deafen(Target::Leader),
        Fault::OneWay(Target::Leader),
        Fault::CutPair(Target::Leader),
        Fault::SlowLink(Target::Leader),
        Fault::PacketLoss(Target::Leader),
        Fault::ClockJump(Target::Leader),
        Fault::SlowDisk(Target::Leader),
        Fault::Reassign,
        Fault::ElectLeaders,
    ];

    /// Its kind, as the table names it.
    pub fn name(self) -> &'static str {
        match self {
            Fault::Kill(_) => "kill -9",
            Fault::KillAll => "kill -9 of all at once",
            Fault::Pause(_) => "SIGSTOP",
            Fault::RollingRestart => "rolling restart",
            Fault::Isolate(_) => "cut off from everybody",
            Fault::CutFromPeers(_) => "cut off from the brokers",
            Fault::Mute(_) => "half-open: it is not heard",
            Fault::Deafen(_) => "half-open: it does not hear",
            Fault::OneWay(_) => "asymmetric: it cannot connect",
            Fault::CutPair(_) => "two of three cut",
            Fault::SlowLink(_) => "slow link",
            Fault::PacketLoss(_) => "packet loss",
            Fault::ClockJump(_) => "clock jump",
            Fault::SlowDisk(_) => "slow disk",
            Fault::Reassign => "reassignment",
            Fault::ElectLeaders => "preferred leaders",
        }
    }

    /// Whom it hits; `None` when it hits all.
    pub fn target(self) -> Option<Target> {
        match self {
            Fault::KillAll | Fault::RollingRestart => None,
            Fault::Reassign | Fault::ElectLeaders => None,
            Fault::Kill(target)
            | Fault::Pause(target)
            | Fault::Isolate(target)
            | Fault::CutFromPeers(target)
            | Fault::Mute(target)
            | Fault::Deafen(target)
            | Fault::OneWay(target)
            | Fault::CutPair(target)
            | Fault::SlowLink(target)
            | Fault::PacketLoss(target)
            | Fault::ClockJump(target)
            | Fault::SlowDisk(target) => Some(target),
        }
    }

    /// Whether it needs a network of our own.
    pub fn needs_network(self) -> bool {
        matches!(
            self,
            Fault::Isolate(_)
                | Fault::CutFromPeers(_)
                | Fault::Mute(_)
                | Fault::Deafen(_)
                | Fault::OneWay(_)
                | Fault::CutPair(_)
                | Fault::SlowLink(_)
                | Fault::PacketLoss(_)
        )
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        match self.target() {
            Some(Target::Leader) => f.write_str(", a leader"),
            Some(Target::Follower) => f.write_str(", a follower"),
            Some(Target::Controller) => f.write_str(", the controller"),
            None => Ok(()),
        }
    }
}

/// One fault of a schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// What is done.
    pub fault: Fault,
    /// For how long.
    pub hold_ms: u64,
    /// How long all is well behind it.
    pub calm_ms: u64,
    /// Decides whatever else there is to decide.
    pub dice: u64,
}

/// The steps of a seed: round after round of all the faults, each round in another order.
#[derive(Debug)]
pub struct Schedule {
    dice: Dice,
    faults: Vec<Fault>,
    round: Vec<Fault>,
}

impl Schedule {
    /// A schedule of these faults.
    pub fn new(seed: u64, faults: Vec<Fault>) -> Schedule {
        Schedule { dice: Dice::new(seed), faults, round: Vec::new() }
    }
}

impl Iterator for Schedule {
    type Item = Step;

    fn next(&mut self) -> Option<Step> {
        if self.round.is_empty() {
            self.round.clone_from(&self.faults);
            self.dice.shuffle(&mut self.round);
        }
        let fault = self.round.pop()?;
        // Now and then long enough for whoever waits for a timeout to be past it.
        let hold_ms = match self.dice.below(4) {
            0 => 200 + self.dice.below(1_500),
            1 | 2 => 2_000 + self.dice.below(4_000),
            _ => 6_000 + self.dice.below(4_000),
        };
        let calm_ms = 500 + self.dice.below(2_000);
        Some(Step { fault, hold_ms, calm_ms, dice: self.dice.roll() })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_seed_gives_the_same_steps_again() {
        let steps = |seed| Schedule::new(seed, Fault::ALL.to_vec()).take(100).collect::<Vec<_>>();
        assert_eq!(steps(7), steps(7));
        assert_ne!(steps(7), steps(8));
    }

    #[test]
    fn every_fault_comes_once_in_each_round() {
        let mut schedule = Schedule::new(1, Fault::ALL.to_vec());
        for _ in 0..5 {
            let round: BTreeSet<Fault> =
                schedule.by_ref().take(Fault::ALL.len()).map(|step| step.fault).collect();
            assert_eq!(round.len(), Fault::ALL.len());
        }
    }

    #[test]
    fn without_faults_there_are_no_steps() {
        assert_eq!(Schedule::new(1, Vec::new()).next(), None);
    }
}
