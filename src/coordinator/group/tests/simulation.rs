//! Seeded simulation: members that join, leave, lag, die and come back, in either protocol or
//! changing from one to the other, messages that are lost, late and doubled, and a coordinator that
//! moves at any moment and keeps what was committed.
//!
//! `SEED=` runs one seed and tells what happened, `ITERATIONS=` more of them (`make sim`).

mod classic;
mod consumer;
mod coordinator;
mod network;
mod positions;
mod truth;
mod world;

use self::world::{Plan, World};

/// The group.
const GROUP: &str = "g";
/// How many processes there are.
const MEMBERS: usize = 5;
/// How long there are faults, and when everything must have settled.
const FAULTS_MS: i64 = 240_000;
const SETTLED_MS: i64 = 330_000;

/// The seeds to run.
fn seeds(default: u64) -> std::ops::Range<u64> {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    match (number("SEED"), number("ITERATIONS")) {
        (Some(seed), _) => seed..seed + 1,
        (None, count) => 0..count.unwrap_or(default),
    }
}

fn simulate(plan: Plan) {
    for seed in seeds(200) {
        let mut world = World::new(seed, plan);
        let run = std::panic::AssertUnwindSafe(|| {
            world.run(FAULTS_MS);
            world.heal();
            world.run(SETTLED_MS);
            world.assert_settled();
        });
        if let Err(panic) = std::panic::catch_unwind(run) {
            world.tell_history();
            eprintln!("{plan:?} failed with SEED={seed}");
            std::panic::resume_unwind(panic);
        }
    }
}

#[test]
fn classic_groups_stay_whole_and_settle() {
    simulate(Plan::Classic);
}

#[test]
fn consumer_groups_stay_whole_and_settle() {
    simulate(Plan::Consumer);
}

#[test]
fn groups_stay_whole_and_settle_while_members_change_their_protocol() {
    simulate(Plan::Both);
}
