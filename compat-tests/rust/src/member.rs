//! A member of a group as a process: `member BOOTSTRAP TOPIC`. It prints `PARTITION VALUE` for each
//! record before it commits, leaves the group when its input ends, and dies without a word on
//! SIGKILL. GROUP_MODE says how it is a member: static (as GROUP_INSTANCE), cooperative, or kip848.

use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use compat_rdkafka::Broker;
use rdkafka::consumer::{CommitMode, Consumer};
use rdkafka::message::Message;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let (Some(bootstrap), Some(topic)) = (arguments.next(), arguments.next()) else {
        panic!("member BOOTSTRAP TOPIC");
    };
    let done = Arc::new(AtomicBool::new(false));
    let ended = Arc::clone(&done);
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        ended.store(true, Ordering::Relaxed);
    });
    let broker = Broker { bootstrap };
    let mode = std::env::var("GROUP_MODE").unwrap_or_default();
    let instance = std::env::var("GROUP_INSTANCE").unwrap_or_default();
    let mut options = vec![("group.id", topic.as_str()), ("auto.offset.reset", "earliest")];
    match mode.as_str() {
        // The broker says how long a session is.
        "kip848" => options.push(("group.protocol", "consumer")),
        _ => options.extend([("session.timeout.ms", "6000"), ("heartbeat.interval.ms", "500")]),
    }
    match mode.as_str() {
        "static" => options.push(("group.instance.id", instance.as_str())),
        "cooperative" => options.push(("partition.assignment.strategy", "cooperative-sticky")),
        _ => {}
    }
    let consumer = broker.consumer(&options);
    consumer.subscribe(&[&topic]).expect("subscribes");
    while !done.load(Ordering::Relaxed) {
        let Some(Ok(message)) = consumer.poll(Duration::from_millis(100)) else { continue };
        let value = String::from_utf8_lossy(message.payload().unwrap_or_default());
        let mut output = std::io::stdout().lock();
        let _ = writeln!(output, "{} {value}", message.partition());
        let _ = output.flush();
        // An error means that a rebalance came between: who has the partition now commits.
        let _ = consumer.commit_message(&message, CommitMode::Sync);
    }
}
