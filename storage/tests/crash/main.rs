//! The store through crashes: whatever operation of the disk is the last, what was reported
//! durable is there afterwards, in order and with its offsets, and nothing that was not written.
//!
//! The journal is one sequence, so the claim is stronger and simpler than one for each group: what
//! the store holds after a crash is what it held after *some* operation, in all groups at once,
//! and not before the last operation that was reported durable.
//!
//! `CRASH_SEEDS=1000` runs more seeds than CI does, `CRASH_SEED=7` one of them.

mod faults;
mod model;
mod recovery;
mod world;

use world::World;

/// The seeds to run: `count` of them, more or one alone if the environment says so.
pub fn seeds(count: u64) -> Vec<u64> {
    let number = |name| std::env::var(name).ok().map(|text| text.parse().expect("a number"));
    match number("CRASH_SEED") {
        Some(seed) => vec![seed],
        None => (0..number("CRASH_SEEDS").unwrap_or(count)).collect(),
    }
}

#[test]
fn without_a_crash_the_store_holds_what_was_written() {
    for seed in seeds(30) {
        let mut world = World::new(seed);
        for step in 0..400 {
            world.act();
            if step % 20 == 0 {
                world.check();
            }
        }
        world.drain();
        world.check();
        world.store().close().unwrap();
        world.store = None;
        world.open().unwrap();
        world.check();
    }
}

/// The same history again and again, each time stopped at the next operation of the disk.
#[test]
fn every_write_and_every_sync_may_be_the_last() {
    for seed in seeds(20) {
        let mut history_goes_on = true;
        let mut operation = 1;
        while history_goes_on {
            let mut world = World::new(seed);
            world.disk.crash_at(world.disk.operations() + operation);
            history_goes_on = run_until_down(&mut world, 120);
            world.crash_and_recover();
            for _ in 0..10 {
                world.act();
            }
            world.drain();
            world.check();
            operation += 1;
        }
    }
}

#[test]
fn one_crash_after_the_other_loses_nothing_that_was_durable() {
    for seed in seeds(150) {
        let mut world = World::new(seed);
        for life in 0..15u64 {
            let operation = world.disk.operations() + 1 + (seed * 31 + life * 17) % 60;
            world.disk.crash_at(operation);
            run_until_down(&mut world, 150);
            world.crash_and_recover();
            world.check();
        }
    }
}

/// Acts until the disk goes down; `false` if it did not.
fn run_until_down(world: &mut World, actions: usize) -> bool {
    for _ in 0..actions {
        world.act();
        if world.disk.is_down() {
            return true;
        }
    }
    world.drain();
    world.disk.is_down()
}
