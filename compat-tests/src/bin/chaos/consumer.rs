//! A consumer without a group: reads every partition with assign and poll, and now and then goes
//! back to read something again.

use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use crate::client::{Client, Shared};
use crate::history::{History, Log, Partition, Poll, Session};

/// How long it rests when there is nothing new.
const REST: Duration = Duration::from_millis(30);
/// How far it goes back at most.
const BACK: u64 = 3_000;
/// How long it may take to read to the end once all is healed.
pub const CATCHES_UP_WITHIN: Duration = Duration::from_secs(45);

/// One partition as it is being read.
#[derive(Debug)]
pub struct Reading {
    /// What was seen since the last seek.
    pub session: Session,
    /// Where it is.
    pub position: i64,
}

impl Reading {
    /// Begins at an offset.
    pub fn new(reader: u16, partition: Partition, start: i64) -> Reading {
        let polls = Vec::new();
        Reading { session: Session { reader, partition, start, polls }, position: start }
    }

    /// Reads once. Whether there was something.
    pub fn poll(&mut self, client: &mut Client<'_>) -> bool {
        let partition = self.session.partition;
        match client.fetch(partition, self.position) {
            Ok(fetched) => {
                self.position = fetched.next;
                client.shared.reach(self.session.reader, partition, self.position);
                let at = client.shared.now();
                let records = fetched.records;
                let some = !records.is_empty();
                if some {
                    self.session.polls.push(Poll { at, records });
                }
                some
            }
            Err(failure) => {
                client.failed("fetch", partition, &failure);
                false
            }
        }
    }

    /// Keeps what was seen.
    pub fn end(self, history: &mut History) {
        if !self.session.polls.is_empty() {
            history.sessions.push(self.session);
        }
    }
}

/// Reads until the run is over, or says that everything is to be read to its end.
pub fn run(shared: &Shared, reader: u16, seed: u64) -> History {
    let mut client = Client::new(shared, seed);
    let mut readings: Vec<Reading> =
        shared.partitions().map(|partition| Reading::new(reader, partition, 0)).collect();
    let mut turn_at = Instant::now() + turn(&mut client);
    while !shared.is_over() {
        let mut some = false;
        for reading in &mut readings {
            some |= reading.poll(&mut client);
        }
        let done = |r: &Reading| shared.is_read(r.session.partition, r.position);
        if readings.iter().all(done) {
            break;
        }
        if !some {
            thread::sleep(REST);
        }
        if Instant::now() > turn_at {
            turn_at = Instant::now() + turn(&mut client);
            let chosen = client.dice.below(readings.len() as u64) as usize;
            seek(&mut client, &mut readings[chosen]);
        }
    }
    readings.into_iter().for_each(|reading| reading.end(&mut client.history));
    client.history
}

/// How long until something is read again.
fn turn(client: &mut Client<'_>) -> Duration {
    Duration::from_millis(1_000 + client.dice.below(4_000))
}

/// Never forward: what it has not seen it must be shown.
fn seek(client: &mut Client<'_>, reading: &mut Reading) {
    let back = client.dice.below(BACK) as i64;
    let start = (reading.position - back).max(0);
    let Session { reader, partition, .. } = reading.session;
    let before = std::mem::replace(reading, Reading::new(reader, partition, start));
    before.end(&mut client.history);
}

/// Everything that the partitions' leaders hold. One that has just become the leader shows all of
/// it a moment later: whatever was acknowledged is waited for, as long as there is time.
///
/// # Errors
/// A partition that cannot be read.
pub fn read_everything(client: &mut Client<'_>, within: Duration) -> Result<Log, String> {
    let deadline = Instant::now() + within;
    let shared = client.shared;
    let mut log = Vec::new();
    for (partition, end) in shared.partitions().zip(&shared.acknowledged_ends) {
        let (mut all, mut next) = (Vec::new(), 0);
        loop {
            let late = Instant::now() > deadline;
            match client.fetch(partition, next) {
                Ok(fetched) if fetched.next == next => {
                    if late || next >= end.load(Ordering::Acquire) {
                        break;
                    }
                    thread::sleep(REST);
                }
                Ok(fetched) => {
                    next = fetched.next;
                    all.extend(fetched.records);
                }
                Err(failure) if late => {
                    let (topic, index) = shared.place(partition);
                    return Err(format!("{topic}-{index} at {next}: {}", failure.name()));
                }
                Err(failure) => client.failed("final read", partition, &failure),
            }
        }
        log.push(all);
    }
    Ok(log)
}
