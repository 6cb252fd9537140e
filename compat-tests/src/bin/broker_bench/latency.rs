//! How long one small record takes: to its acknowledgement, and to a waiting consumer.

use std::time::{Duration, Instant};

use compat_tests::batches::batch;
use compat_tests::requests::{FETCH_VERSION, fetch, only_fetched};
use kafka_protocol::messages::FetchRequest;

use crate::Settings;
use crate::table::Table;

pub fn run(settings: &Settings) {
    let mut table = Table::new(&["100 B, acks=all", "sync", "p50", "p99", "p99.9", "records"]);
    for synced in [true, false] {
        let subject = settings.start(synced);
        let mut producer = subject.broker.connect();
        let mut consumer = subject.broker.connect();
        producer.create_topic("latency", 1);
        let records = batch(&[[b'x'; 100]]);
        let mut acknowledged = Vec::new();
        let mut delivered = Vec::new();
        let started = Instant::now();
        let mut offset = 0;
        while started.elapsed() < settings.each {
            let waiting = fetch("latency", 0, offset).with_max_wait_ms(20_000);
            consumer.send(FETCH_VERSION, &waiting).expect("sent");
            let sent = Instant::now();
            offset = producer.append("latency", 0, records.clone()) + 1;
            acknowledged.push(sent.elapsed());
            let (_, response) = consumer.receive::<FetchRequest>(FETCH_VERSION).expect("an answer");
            delivered.push(sent.elapsed());
            assert_eq!(only_fetched(&response).error_code, 0);
        }
        for (what, times) in [("produce", &mut acknowledged), ("end to end", &mut delivered)] {
            times.sort_unstable();
            let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
            table.row(vec![
                what.to_owned(),
                if synced { "on" } else { "off" }.to_owned(),
                milliseconds(at(0.5)),
                milliseconds(at(0.99)),
                milliseconds(at(0.999)),
                times.len().to_string(),
            ]);
        }
    }
    table.print("Latency (one record at a time)");
}

fn milliseconds(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1e3)
}
