//! The seeded simulation: three brokers with simulated disks and a simulated network, one
//! replicated partition and the metadata log, under crashes and cuts. One seed gives one history.
//!
//! `SEED=n` runs one seed twice and compares the histories; otherwise `ITERATIONS` seeds run (200
//! if it is not given). Needs `RUSTFLAGS="--cfg tokio_unstable"`, by which turmoil seeds tokio's
//! scheduler.

mod node;
mod oracle;
mod run;
mod workload;
mod world;

use std::process::ExitCode;

fn main() -> ExitCode {
    cluster::testing::seeds::main(|seed| {
        show_logs();
        run::run(seed);
    })
}

/// What the machines log, as `RUST_LOG` asks for; nothing without it.
fn show_logs() {
    if let Ok(filter) = std::env::var("RUST_LOG") {
        tracing_subscriber::fmt().with_env_filter(filter).without_time().init();
    }
}
