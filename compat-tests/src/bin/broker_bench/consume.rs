//! A consuming load: reads whole partitions, as fast as the answers come.

use std::thread;
use std::time::Instant;

use compat_tests::batches::split;
use compat_tests::load::Cost;
use compat_tests::requests::{FETCH_VERSION, fetch, only_fetched};
use compat_tests::{Broker, Connection};

use crate::load::{Achieved, CONNECTIONS};

/// What a consumer takes at once, as the Java client has it by default.
const PARTITION_MAX_BYTES: i32 = 1 << 20;

/// Reads all partitions of a topic once.
pub fn consume_all(broker: &Broker, topic: &str, partitions: i32) -> Achieved {
    let (cpu, written) = (broker.cpu_time(), broker.written_bytes());
    let started = Instant::now();
    let counts: Vec<(u64, u64)> = thread::scope(|scope| {
        let readers: Vec<_> = (0..CONNECTIONS as i32)
            .map(|number| {
                scope.spawn(move || {
                    let mut connection = broker.connect();
                    let own = (0..partitions).filter(|p| p % CONNECTIONS as i32 == number);
                    own.map(|partition| read_partition(&mut connection, topic, partition))
                        .fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
                })
            })
            .collect();
        readers.into_iter().map(|reader| reader.join().expect("a reader ends")).collect()
    });
    let cost = Cost {
        bytes: counts.iter().map(|(bytes, _)| bytes).sum(),
        elapsed: started.elapsed(),
        cpu: broker.cpu_time().saturating_sub(cpu),
    };
    Achieved {
        cost,
        requests: counts.iter().map(|(_, requests)| requests).sum(),
        written_bytes: broker.written_bytes().saturating_sub(written),
    }
}

fn read_partition(connection: &mut Connection, topic: &str, partition: i32) -> (u64, u64) {
    let (mut bytes, mut requests, mut offset) = (0, 0, 0);
    loop {
        let mut request = fetch(topic, partition, offset);
        request.topics[0].partitions[0].partition_max_bytes = PARTITION_MAX_BYTES;
        let response = connection.call(FETCH_VERSION, &request);
        let data = only_fetched(&response);
        assert_eq!(data.error_code, 0, "{topic}-{partition} at {offset}");
        requests += 1;
        let batches = split(data.records.as_ref());
        let Some(last) = batches.last() else { return (bytes, requests) };
        offset = last.header().base_offset.0 + i64::from(last.header().last_offset_delta) + 1;
        bytes += batches.iter().map(|batch| batch.size_in_bytes() as u64).sum::<u64>();
    }
}
