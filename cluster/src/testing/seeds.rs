//! How seeds are run: each in a process of its own, because openraft's randomness lives in the
//! thread; a sweep over many, and the replay of one, which must give the same history twice.

use std::process::{Command, ExitCode, Output};
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

const DEFAULT_ITERATIONS: u64 = 200;
const CHILD: &str = "HIGHWATER_SIM_CHILD";

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// The main function of a simulation: `SEED=n` runs one seed twice and compares the histories;
/// otherwise `ITERATIONS` seeds run. `run` panics when something does not hold, and prints a line
/// `seed n … hash h` in the end.
pub fn main(run: fn(u64)) -> ExitCode {
    if !cfg!(tokio_unstable) {
        println!("without RUSTFLAGS=\"--cfg tokio_unstable\" histories are not reproducible");
    }
    if let Some(seed) = number(CHILD) {
        super::seed_chance(seed);
        run(seed);
        return ExitCode::SUCCESS;
    }
    match (number("SEED"), number("ITERATIONS")) {
        (Some(seed), None) => replay(seed),
        (first, iterations) => sweep(first.unwrap_or(1), iterations.unwrap_or(DEFAULT_ITERATIONS)),
    }
}

/// Runs one seed in a process of its own.
fn child(seed: u64) -> std::io::Result<Output> {
    Command::new(std::env::current_exe()?).env(CHILD, seed.to_string()).output()
}

/// The line with seed and hash, or `None` if the run failed.
fn verdict(output: &Output) -> Option<String> {
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().rfind(|line| line.starts_with("seed "))?.to_owned();
    output.status.success().then_some(line)
}

fn show(output: &Output) {
    print!("{}", String::from_utf8_lossy(&output.stdout));
    print!("{}", String::from_utf8_lossy(&output.stderr));
}

fn replay(seed: u64) -> ExitCode {
    let (Ok(first), Ok(second)) = (child(seed), child(seed)) else {
        println!("seed {seed} could not be started");
        return ExitCode::FAILURE;
    };
    show(&first);
    match (verdict(&first), verdict(&second)) {
        (Some(one), Some(other)) if one == other => ExitCode::SUCCESS,
        (Some(one), Some(other)) => {
            println!("seed {seed} is not reproducible:\n{one}\n{other}");
            ExitCode::FAILURE
        }
        _ => ExitCode::FAILURE,
    }
}

fn sweep(first: u64, iterations: u64) -> ExitCode {
    let workers = std::thread::available_parallelism().map_or(1, std::num::NonZero::get) as u64;
    let next = AtomicU64::new(first);
    let failed = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= first + iterations {
                        return;
                    }
                    match child(seed) {
                        Ok(output) => match verdict(&output) {
                            Some(line) => println!("{line}"),
                            None => {
                                show(&output);
                                failed.lock().push(seed);
                            }
                        },
                        Err(error) => {
                            println!("seed {seed}: {error}");
                            failed.lock().push(seed);
                        }
                    }
                }
            });
        }
    });
    let failed = failed.into_inner();
    if !failed.is_empty() {
        println!("{} of {iterations} seeds failed: {failed:?}", failed.len());
        println!("replay one with SEED={}", failed[0]);
        return ExitCode::FAILURE;
    }
    println!("{iterations} seeds passed");
    // The claim that a seed is a history, on the first one.
    replay(first)
}
