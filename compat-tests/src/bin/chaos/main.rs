//! Chaos: three brokers in a network of their own lose processes, links, clocks and disks, while
//! clients produce, read and commit; a checker says whether anything that was promised is gone.
//!
//! A seed replays a schedule. Exits with 1 when anything is wrong.

#![allow(clippy::disallowed_methods, reason = "a test waits for real time")]

mod checker;
mod client;
mod clock;
mod cluster;
mod consumer;
mod consumer_group;
mod disk;
mod group;
mod history;
mod moves;
mod nemesis;
mod network;
mod offsets;
mod producer;
mod report;
mod rules;
mod run;
mod schedule;
mod settings;
mod stalls;

use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::UNIX_EPOCH;

use crate::nemesis::INTERRUPTED;
use crate::settings::{Settings, USAGE};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|argument| argument == "--help") {
        println!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    match chaos(arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("chaos: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Whether all was well.
fn chaos(arguments: Vec<String>) -> Result<bool, String> {
    let drawn = UNIX_EPOCH.elapsed().map_or(0, |now| now.as_millis() as u64 % 1_000_000);
    let settings = Settings::parse(arguments.into_iter(), drawn)?;
    for signal in [libc::SIGINT, libc::SIGTERM] {
        let handler = interrupted as extern "C" fn(libc::c_int);
        // SAFETY: the handler only stores to an atomic.
        unsafe { libc::signal(signal, handler as libc::sighandler_t) };
    }
    let kept = settings.dir.clone();
    let temporary = tempfile::tempdir().map_err(|error| error.to_string())?;
    let dir = kept.as_deref().unwrap_or(temporary.path());
    std::fs::create_dir_all(dir).map_err(|error| format!("{}: {error}", dir.display()))?;
    println!("seed {}, {:.1} minutes", settings.seed, settings.time.as_secs_f64() / 60.0);
    let found = run::run(&settings, dir)?;
    let well = report::print(&found, settings.seed);
    if !well && kept.is_none() {
        println!("data and logs: {}", temporary.keep().display());
    }
    Ok(well && !INTERRUPTED.load(Ordering::Relaxed))
}

extern "C" fn interrupted(_: libc::c_int) {
    INTERRUPTED.store(true, Ordering::Relaxed);
}
