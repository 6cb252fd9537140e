//! What every producing load is made of: connections that keep five requests in flight each, every
//! request encoded once and sent again and again; and what such a load cost.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

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

/// What a load sent; all of it was acknowledged.
#[derive(Debug, Clone, Copy)]
pub struct Sent {
    /// The requests' bytes.
    pub bytes: u64,
    /// How many requests.
    pub requests: u64,
    /// From the first request to the last answer.
    pub elapsed: Duration,
}

/// Connections and what each of them sends in turn: everything is encoded and connected before the
/// clock starts, so that next to nothing of the measured time is the client's.
#[derive(Debug)]
pub struct Load {
    senders: Vec<Sender>,
}

impl Load {
    /// A connection to `address` for each element of `frames`: its produce requests, encoded.
    ///
    /// # Errors
    /// A connection cannot be opened.
    pub fn new(address: SocketAddr, frames: Vec<Vec<Vec<u8>>>) -> io::Result<Load> {
        Load::to(frames.into_iter().map(|frames| (address, frames)).collect())
    }

    /// The same, where each connection has an address of its own.
    ///
    /// # Errors
    /// A connection cannot be opened.
    pub fn to(senders: Vec<(SocketAddr, Vec<Vec<u8>>)>) -> io::Result<Load> {
        let sender =
            |(address, frames)| Ok(Sender { connection: Connection::open(address)?, frames });
        Ok(Load { senders: senders.into_iter().map(sender).collect::<io::Result<_>>()? })
    }

    /// Sends for `time`, and waits for every answer.
    ///
    /// # Errors
    /// A connection broke, or a produce was refused.
    pub fn run(&mut self, time: Duration) -> io::Result<Sent> {
        let stop = AtomicBool::new(false);
        let started = Instant::now();
        let sent: Vec<(u64, u64)> = thread::scope(|scope| {
            let run = |sender: &'_ mut Sender| sender.send_until(&stop);
            let senders: Vec<_> =
                self.senders.iter_mut().map(|sender| scope.spawn(move || run(sender))).collect();
            thread::sleep(time);
            stop.store(true, Ordering::Relaxed);
            let join = |sender: thread::ScopedJoinHandle<'_, io::Result<(u64, u64)>>| {
                sender.join().map_err(|_| io::Error::other("a sender panicked"))?
            };
            senders.into_iter().map(join).collect::<io::Result<_>>()
        })?;
        Ok(Sent {
            bytes: sent.iter().map(|(bytes, _)| bytes).sum(),
            requests: sent.iter().map(|(_, requests)| requests).sum(),
            elapsed: started.elapsed(),
        })
    }
}

#[derive(Debug)]
struct Sender {
    connection: Connection,
    frames: Vec<Vec<u8>>,
}

impl Sender {
    /// Sends the requests in turn until it is told to stop, and takes all answers. Returns the
    /// bytes and the number of requests.
    fn send_until(&mut self, stop: &AtomicBool) -> io::Result<(u64, u64)> {
        let (mut bytes, mut sent, mut answered) = (0, 0, 0);
        loop {
            while sent - answered < IN_FLIGHT && !stop.load(Ordering::Relaxed) {
                let turn = sent % self.frames.len();
                let frame = &mut self.frames[turn];
                // The correlation id stands behind length, key and version.
                frame[8..12].copy_from_slice(&(sent as i32).to_be_bytes());
                self.connection.send_raw(frame)?;
                bytes += frame.len() as u64;
                sent += 1;
            }
            if answered == sent {
                return Ok((bytes, sent as u64));
            }
            let (correlation_id, response) =
                self.connection.receive::<ProduceRequest>(PRODUCE_VERSION)?;
            let mut rows = response.responses.iter().flat_map(|topic| &topic.partition_responses);
            if correlation_id != answered as i32 || rows.any(|row| row.error_code != 0) {
                return Err(io::Error::other(format!("a produce failed: {response:?}")));
            }
            answered += 1;
        }
    }
}
