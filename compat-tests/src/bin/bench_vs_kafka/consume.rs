//! A backlog is read: from memory, and after the operating system has forgotten it.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use compat_tests::batches::split;
use compat_tests::load::Cost;
use compat_tests::requests::{FETCH_VERSION, fetch, only_fetched};
use compat_tests::{Broker, Connection};
use protocol::compression::Codec;

use crate::ballast;
use crate::load::{Shape, new_topic};
use crate::race::Turn;
use crate::results::Better;
use crate::tools::Tools;

/// Connections that read.
const READERS: i32 = 4;
/// What a consumer takes at once, as the Java client has it by default.
const PARTITION_MAX_BYTES: i32 = 1 << 20;
/// The backlog.
const BACKLOG: Shape = Shape {
    producers: 4,
    partitions: 12,
    batch_bytes: 100_000,
    record_bytes: 1_000,
    acks: -1,
    codec: Codec::None,
};

/// Reads a backlog of the time of two loads.
pub fn measure(turn: &mut Turn, tools: &Tools, name: &str) -> Result<(), String> {
    let topic = new_topic();
    let mut connection = turn.broker.connect();
    connection.create_topic(&topic, BACKLOG.partitions);
    let mut load = BACKLOG.load(turn.broker.address(), &topic);
    ballast::make_room(ballast::ROOM_GIBIBYTES);
    let sent = load.run(turn.settings.each * 2).map_err(|error| error.to_string())?;
    for (state, cold) in [("warm", false), ("dropped from memory", true)] {
        if cold {
            forget(turn.dir).map_err(|error| error.to_string())?;
        }
        let name = format!("{name}, {state}");
        let read = read_all(turn.broker, &topic);
        turn.add("consume", &name, "MB/s", Better::More, read.megabytes_per_second());
        turn.add("consume", &name, "CPU-s/GB", Better::Less, read.cpu_seconds_per_gigabyte());
    }
    let records = sent.requests * BACKLOG.payload_bytes() / BACKLOG.record_bytes as u64;
    tools.consume(turn, &topic, BACKLOG.partitions, records, name)?;
    connection.delete_topic(&topic);
    Ok(())
}

fn read_all(broker: &Broker, topic: &str) -> Cost {
    let cpu = broker.cpu_time();
    let started = Instant::now();
    let bytes = thread::scope(|scope| {
        let readers: Vec<_> = (0..READERS)
            .map(|number| {
                scope.spawn(move || {
                    let mut connection = broker.connect();
                    let own = (0..BACKLOG.partitions).filter(|p| p % READERS == number);
                    own.map(|partition| read_partition(&mut connection, topic, partition)).sum()
                })
            })
            .collect();
        readers.into_iter().map(|reader| -> u64 { reader.join().expect("a reader ends") }).sum()
    });
    let cpu = broker.cpu_time().saturating_sub(cpu);
    Cost { bytes, elapsed: started.elapsed().max(Duration::from_micros(1)), cpu }
}

fn read_partition(connection: &mut Connection, topic: &str, partition: i32) -> u64 {
    let (mut bytes, mut offset) = (0, 0);
    loop {
        let mut request = fetch(topic, partition, offset);
        request.topics[0].partitions[0].partition_max_bytes = PARTITION_MAX_BYTES;
        let response = connection.call(FETCH_VERSION, &request);
        let data = only_fetched(&response);
        assert_eq!(data.error_code, 0, "{topic}-{partition} at {offset}");
        let batches = split(data.records.as_ref());
        let Some(last) = batches.last() else { return bytes };
        offset = last.header().base_offset.0 + i64::from(last.header().last_offset_delta) + 1;
        bytes += batches.iter().map(|batch| batch.size_in_bytes() as u64).sum::<u64>();
    }
}

/// Takes all files below a directory out of the page cache.
fn forget(dir: &Path) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            forget(&path)?;
        } else if let Ok(file) = File::open(&path) {
            // Pages that are not written yet cannot be dropped.
            let _ = file.sync_data();
            // SAFETY: posix_fadvise(2) takes a descriptor that is open here, and no pointers.
            unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
        }
    }
    Ok(())
}
