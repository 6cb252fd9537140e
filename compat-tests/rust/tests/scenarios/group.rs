//! Two member processes on six partitions; records come in rounds, one to each partition.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use compat_rdkafka::{Broker, Record};

pub const PARTITIONS: i32 = 6;

/// How often the record of a partition and a round was processed.
type Counts = BTreeMap<(i32, i64), usize>;

/// A process of `src/member.rs`, and what it has printed.
pub struct Member {
    process: Child,
    seen: Arc<Mutex<Counts>>,
    reader: Option<JoinHandle<()>>,
}

impl Member {
    fn start(bootstrap: &str, topic: &str, mode: &str, number: usize) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_member"))
            .args([bootstrap, topic])
            .env("GROUP_MODE", mode)
            .env("GROUP_INSTANCE", format!("member-{number}"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("starts");
        let output = BufReader::new(process.stdout.take().expect("piped"));
        let seen = Arc::new(Mutex::new(Counts::new()));
        let kept = Arc::clone(&seen);
        let reader = std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                let Some((partition, round)) = line.split_once(' ') else { continue };
                let place = (partition.parse().expect("a number"), round.parse().expect("one"));
                *kept.lock().expect("no panic").entry(place).or_default() += 1;
            }
        });
        Self { process, seen, reader: Some(reader) }
    }

    /// The partitions whose record of the round it has processed.
    fn partitions_of(&self, round: i64) -> BTreeSet<i32> {
        let seen = self.seen.lock().expect("no panic");
        seen.keys().filter(|(_, found)| *found == round).map(|(partition, _)| *partition).collect()
    }

    /// Its input ends: it leaves.
    pub fn leave(&mut self) {
        drop(self.process.stdin.take());
        assert!(self.process.wait().expect("ends").success());
        self.reader.take().map(JoinHandle::join);
    }

    /// SIGKILL.
    pub fn die(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        self.reader.take().map(JoinHandle::join);
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

pub struct Group<'a> {
    broker: &'a Broker,
    topic: String,
    rounds: i64,
    pub members: [Member; 2],
}

impl<'a> Group<'a> {
    pub fn start(broker: &'a Broker, topic: &str, mode: &str) -> Self {
        broker.create_topic(topic, PARTITIONS).expect("creates");
        let member = |number| Member::start(&broker.bootstrap, topic, mode, number);
        Self { broker, topic: topic.to_owned(), rounds: 0, members: [0, 1].map(member) }
    }

    /// Kills the first member and starts it anew under its name; what it has processed stays known.
    pub fn restart_static(&mut self) {
        self.members[0].die();
        let member = Member::start(&self.broker.bootstrap, &self.topic, "static", 0);
        let before = std::mem::replace(&mut self.members[0], member);
        let seen = before.seen.lock().expect("no panic").clone();
        self.members[0].seen.lock().expect("no panic").extend(seen);
    }

    /// Sends a record to each partition and waits until all six are processed.
    pub fn round(&mut self) -> [BTreeSet<i32>; 2] {
        let record =
            |partition| Record { partition, ..Record::of(self.rounds.to_string().into_bytes()) };
        let records: Vec<Record> = (0..PARTITIONS).map(record).collect();
        self.broker.produce(&self.topic, &records, &[]).expect("produces");
        self.rounds += 1;
        let end = Instant::now() + Duration::from_secs(20);
        loop {
            let got = self.members.each_ref().map(|member| member.partitions_of(self.rounds - 1));
            let all = got[0].union(&got[1]).count();
            if all == PARTITIONS as usize || Instant::now() > end {
                return got;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Until each of the two processes three partitions.
    pub fn until_shared(&mut self) -> [BTreeSet<i32>; 2] {
        let end = Instant::now() + Duration::from_secs(90);
        loop {
            let got = self.round();
            if got.iter().all(|partitions| partitions.len() == 3) {
                return got;
            }
            assert!(Instant::now() < end, "they do not share: {got:?}");
        }
    }

    pub fn rounds(&self) -> i64 {
        self.rounds
    }

    fn counts(&self) -> Counts {
        let mut counts = Counts::new();
        for member in &self.members {
            for (place, count) in &*member.seen.lock().expect("no panic") {
                *counts.entry(*place).or_default() += count;
            }
        }
        counts
    }

    /// Until all that was sent is committed.
    pub fn until_committed(&self) {
        let end = Instant::now() + Duration::from_secs(20);
        let wanted = vec![self.rounds; PARTITIONS as usize];
        loop {
            let committed = self.broker.committed(&self.topic, &self.topic, PARTITIONS);
            if committed == wanted {
                return;
            }
            assert!(Instant::now() < end, "they do not commit: {committed:?} of {}", self.rounds);
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Rewinds the group; processed again then is the round `first` and all behind it.
    pub fn rewind(&self, how: &str, first: i64) {
        let before = self.counts();
        let command = std::env::var("REWIND").expect("the runner sets it");
        let command = format!("{command} {} {how}", self.topic);
        assert!(Command::new("sh").args(["-c", &command]).status().expect("runs").success());
        let wanted: BTreeSet<_> = (first..self.rounds)
            .flat_map(|round| (0..PARTITIONS).map(move |p| (p, round)))
            .collect();
        let end = Instant::now() + Duration::from_secs(40);
        loop {
            let counts = self.counts();
            let more = counts.iter().filter(|(at, count)| before.get(at) < Some(count));
            let again: BTreeSet<_> = more.map(|(at, _)| *at).collect();
            if again.is_superset(&wanted) {
                assert_eq!(again, wanted);
                return;
            }
            assert!(Instant::now() < end, "read again: {again:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub fn check_all_processed(&self) {
        for round in 0..self.rounds {
            let [first, second] = self.members.each_ref().map(|member| member.partitions_of(round));
            assert_eq!(first.union(&second).count(), PARTITIONS as usize, "round {round}");
        }
        let committed = self.broker.committed(&self.topic, &self.topic, PARTITIONS);
        assert_eq!(committed, vec![self.rounds; PARTITIONS as usize]);
    }
}
