//! The seeded simulation of whole brokers: three of them on simulated disks, and clients that talk
//! to them in Kafka's own frames over a simulated network, under crashes and cuts. One seed gives
//! one history.
//!
//! `SEED=n` runs one seed twice and compares the histories; otherwise `ITERATIONS` seeds run.
//! Needs `RUSTFLAGS="--cfg tokio_unstable"`, by which turmoil seeds tokio's scheduler.

mod client;
mod front;
mod node;
mod oracle;
mod run;
mod workload;
mod world;

use std::process::ExitCode;

fn main() -> ExitCode {
    cluster::testing::seeds::main(|seed| {
        show_logs();
        end_with_a_panic();
        run::run(seed);
    })
}

/// What the machines log, as `RUST_LOG` asks for; nothing without it.
fn show_logs() {
    if let Ok(filter) = std::env::var("RUST_LOG") {
        tracing_subscriber::fmt().with_env_filter(filter).without_time().init();
    }
}

/// A panic in any task fails the seed: the dispatcher would take one in a handler for a lost
/// connection, and tokio one in a task for its end.
fn end_with_a_panic() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        report(panic);
        std::process::exit(101);
    }));
}
