//! What every producing load is made of: a connection that keeps five requests in flight, each
//! request encoded once and sent again and again; and what such a load cost.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kafka_protocol::messages::ProduceRequest;

use crate::Connection;
use crate::requests::PRODUCE_VERSION;

/// Requests of one connection that wait for their answers, as clients have it by default.
const IN_FLIGHT: usize = 5;

/// What was moved, and what it cost.
#[derive(Debug, Clone, Copy)]
pub struct Cost {
    /// How much.
    pub bytes: u64,
    /// How long it took.
    pub elapsed: Duration,
    /// The broker's processor time.
    pub cpu: Duration,
}

impl Cost {
    /// Megabytes (10^6) a second.
    #[must_use]
    pub fn megabytes_per_second(&self) -> f64 {
        self.bytes as f64 / 1e6 / self.elapsed.as_secs_f64()
    }

    /// Processor seconds a gigabyte (10^9).
    #[must_use]
    pub fn cpu_seconds_per_gigabyte(&self) -> f64 {
        self.cpu.as_secs_f64() / (self.bytes as f64 / 1e9)
    }
}

/// Sends produce requests in turn until it is told to stop. Returns the bytes and the number of
/// requests that were acknowledged: all that were sent.
///
/// # Errors
/// The connection broke, or a produce was refused.
pub fn send_until(
    address: SocketAddr,
    mut frames: Vec<Vec<u8>>,
    stop: &AtomicBool,
) -> io::Result<(u64, u64)> {
    let mut connection = Connection::open(address)?;
    let (mut bytes, mut sent, mut answered) = (0, 0, 0);
    loop {
        while sent - answered < IN_FLIGHT && !stop.load(Ordering::Relaxed) {
            let turn = sent % frames.len();
            let frame = &mut frames[turn];
            // The correlation id stands behind length, key and version.
            frame[8..12].copy_from_slice(&(sent as i32).to_be_bytes());
            connection.send_raw(frame)?;
            bytes += frame.len() as u64;
            sent += 1;
        }
        if answered == sent {
            return Ok((bytes, sent as u64));
        }
        let (correlation_id, response) = connection.receive::<ProduceRequest>(PRODUCE_VERSION)?;
        let mut rows = response.responses.iter().flat_map(|topic| &topic.partition_responses);
        if correlation_id != answered as i32 || rows.any(|row| row.error_code != 0) {
            return Err(io::Error::other(format!("a produce failed: {response:?}")));
        }
        answered += 1;
    }
}
