//! Seeded simulation: members that join, leave, lag, die and come back, messages that are lost,
//! late and doubled, and a coordinator that moves at any moment and keeps what was committed.
//!
//! `SEED=` runs one seed, `GROUP_SEEDS=` more of them.

mod classic;
mod consumer;
mod coordinator;

/// The seeds to run.
fn seeds(default: u64) -> std::ops::Range<u64> {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    match (number("SEED"), number("GROUP_SEEDS")) {
        (Some(seed), _) => seed..seed + 1,
        (None, count) => 0..count.unwrap_or(default),
    }
}

/// Tells which seed it was that failed.
fn with_seed(seed: u64, run: impl FnOnce(u64) + std::panic::UnwindSafe) {
    if let Err(panic) = std::panic::catch_unwind(|| run(seed)) {
        eprintln!("failed with SEED={seed}");
        std::panic::resume_unwind(panic);
    }
}
