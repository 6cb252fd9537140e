//! One run: the cluster, its clients, the faults, and the reading of everything at the end.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use compat_tests::requests::{CREATE_TOPICS_VERSION, create_topics};

use crate::client::{Client, Shared};
use crate::clock::Clock;
use crate::cluster::{Cluster, IDS, Plan, binary};
use crate::consumer::{CATCHES_UP_WITHIN, read_everything};
use crate::disk::Disk;
use crate::history::{History, Log};
use crate::nemesis::{INTERRUPTED, Nemesis};
use crate::network::Network;
use crate::offsets::committed_of_group;
use crate::rules::Host;
use crate::schedule::{Fault, Schedule};
use crate::settings::Settings;
use crate::stalls::Window;
use crate::{consumer, consumer_group, group, moves, producer};

/// Topics, and how many partitions each has.
const TOPICS: [(&str, i32); 2] = [("chaos-a", 4), ("chaos-b", 2)];
/// Producers to each partition.
const PRODUCERS: u64 = 2;
/// Consumers without a group; they are the readers 0, 1 and so on.
const CONSUMERS: u16 = 2;
/// A group of the classic protocol and one of the new one, which are readers as well.
const GROUPS: [u16; 2] = [100, 101];
/// Members of each group.
const MEMBERS: u64 = 3;
/// Whose clock jumps.
const CLOCK_OF: i32 = 2;
/// How long the cluster may take to form.
const FORMS_WITHIN: Duration = Duration::from_secs(60);
/// How long a final read may take.
pub const READS_WITHIN: Duration = Duration::from_secs(60);

/// What a run has found.
#[derive(Debug, Default)]
pub struct Found {
    /// What the clients did and saw.
    pub history: History,
    /// What is read in the end: from the leaders of then, and from those that lead while each
    /// broker in turn is down.
    pub reads: Vec<Log>,
    /// Who should have seen everything.
    pub readers: BTreeSet<u16>,
    /// Faults and their times.
    pub windows: Vec<Window>,
    /// What went wrong beside what the clients saw.
    pub problems: Vec<String>,
    /// What is worth a sentence, and no anomaly.
    pub notes: Vec<String>,
    /// The names of the partitions.
    pub partitions: Vec<String>,
}

type Clients<'scope> = Vec<ScopedJoinHandle<'scope, History>>;

/// Carries a run out.
///
/// # Errors
/// It could not begin.
pub fn run(settings: &Settings, dir: &Path) -> Result<Found, String> {
    let mut found = Found::default();
    let host = |id: i32| Host::try_from(id).unwrap_or_default();
    let network = match settings.namespaces {
        true => Some(Network::new(&IDS.map(host), settings.seed)?),
        false => None,
    };
    let clock = Clock::new(CLOCK_OF, dir).map_err(|why| skipped(&mut found, "clock jump", &why));
    let disk = Disk::new(dir).map_err(|why| skipped(&mut found, "slow disk", &why));
    let (clock, disk) = (clock.ok(), disk.ok());
    let environment = clock.iter().map(|clock| (clock.broker(), clock.environment()));
    let plan = Plan {
        binary: binary()?,
        dir: dir.to_owned(),
        overrides: settings.overrides.clone(),
        environment: environment.collect(),
    };
    let made = Cluster::new(&plan, network.clone());
    let (mut cluster, addresses) = made.map_err(|error| error.to_string())?;
    cluster.start_all().map_err(|error| format!("the brokers cannot be started: {error}"))?;
    let topics = TOPICS.map(|(topic, partitions)| (topic.to_owned(), partitions));
    let shared = Shared::new(addresses, topics.to_vec(), &GROUPS);
    form(&shared, &mut cluster)?;
    println!("three brokers have formed a cluster after {} ms", shared.now());

    let mut nemesis = Nemesis {
        cluster: &mut cluster,
        network,
        clock,
        disk,
        moves: moves::are_served(&mut Client::new(&shared, settings.seed)),
        moved: Vec::new(),
        client: Client::new(&shared, settings.seed),
        windows: Vec::new(),
        problems: Vec::new(),
        until: Instant::now() + settings.time,
    };
    if !nemesis.moves {
        skipped(&mut found, "reassignment", "the brokers do not serve it");
    }
    let faults = faults(settings, &nemesis);
    thread::scope(|scope| {
        let producers = start_producers(scope, &shared, settings.seed);
        let readers = start_readers(scope, &shared, settings.seed);
        nemesis.run(Schedule::new(settings.seed, faults));
        say(&shared, "the faults are over: the producers finish, and everything is read");
        shared.stop_sending.store(true, Ordering::Release);
        join(producers, &mut found);
        read_at_the_end(&shared, settings.seed, &mut found);
        say(&shared, "everything is read with each broker down in turn");
        nemesis.read_without_each(&mut found.reads);
        say(&shared, "the readers come to the end");
        finish(&shared, readers, &mut found);
    });
    say(&shared, "the history is checked");
    found.history.merge(std::mem::take(&mut nemesis.client.history));
    found.windows = std::mem::take(&mut nemesis.windows);
    found.problems.append(&mut nemesis.problems);
    found.problems.extend(nemesis.cluster.ended());
    found.problems.extend(nemesis.cluster.errors());
    // Before the control group that they may be in is removed.
    nemesis.cluster.kill(&IDS);
    found.partitions = shared
        .partitions()
        .map(|partition| shared.place(partition))
        .map(|(topic, index)| format!("{topic}-{index}"))
        .collect();
    Ok(found)
}

fn say(shared: &Shared, what: &str) {
    println!("{:7.1} s       {what}", f64::from(shared.now()) / 1e3);
}

fn skipped(found: &mut Found, what: &str, why: &str) {
    let note = format!("skipped: {what}, for {why}");
    println!("{note}");
    found.notes.push(note);
}

/// The faults that can be had here and were asked for.
fn faults(settings: &Settings, nemesis: &Nemesis<'_>) -> Vec<Fault> {
    let possible = |fault: &Fault| match fault {
        Fault::ClockJump(_) => nemesis.clock.is_some(),
        Fault::SlowDisk(_) => nemesis.disk.is_some(),
        Fault::Reassign | Fault::ElectLeaders => nemesis.moves,
        fault => nemesis.network.is_some() || !fault.needs_network(),
    };
    let asked = |fault: &Fault| fault.to_string().contains(&settings.only);
    Fault::ALL.iter().copied().filter(possible).filter(asked).collect()
}

/// Waits until the brokers are one cluster that has made the topics.
fn form(shared: &Shared, cluster: &mut Cluster) -> Result<(), String> {
    let mut client = Client::new(shared, 0);
    let deadline = Instant::now() + FORMS_WITHIN;
    let mut missing: Vec<(String, i32)> = shared.topics.clone();
    let mut why = String::new();
    while !(missing.is_empty() && is_led(&mut client)) {
        if INTERRUPTED.load(Ordering::Relaxed) {
            return Err("interrupted".to_owned());
        }
        if let Some(ended) = cluster.ended().first() {
            return Err(ended.clone());
        }
        if Instant::now() > deadline {
            return Err(format!("no cluster has formed in {FORMS_WITHIN:?}: {why}"));
        }
        missing.retain(|(topic, partitions)| {
            let mut request = create_topics(topic, *partitions, &[("min.insync.replicas", "2")]);
            request.topics[0].replication_factor = 3;
            let broker = client.anyone();
            match client.call(broker, CREATE_TOPICS_VERSION, &request) {
                Ok(answer) => {
                    why = format!("{:?}", answer.topics);
                    !matches!(answer.topics.first().map(|topic| topic.error_code), Some(0 | 36))
                }
                Err(error) => {
                    why = error.to_string();
                    true
                }
            }
        });
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

fn is_led(client: &mut Client<'_>) -> bool {
    client.shared.partitions().all(|partition| client.leader(partition).is_ok())
}

fn start_producers<'scope>(
    scope: &'scope Scope<'scope, '_>,
    shared: &'scope Shared,
    seed: u64,
) -> Clients<'scope> {
    let lanes = (0..PRODUCERS).flat_map(|turn| shared.partitions().map(move |p| (turn, p)));
    lanes
        .map(|(turn, partition)| {
            let seed = seed ^ (turn << 32) ^ (u64::from(partition) << 40);
            scope.spawn(move || producer::run(shared, partition, seed))
        })
        .collect()
}

fn start_readers<'scope>(
    scope: &'scope Scope<'scope, '_>,
    shared: &'scope Shared,
    seed: u64,
) -> Clients<'scope> {
    let consumers = (0..CONSUMERS).map(|reader| {
        let seed = seed ^ (u64::from(reader) << 48);
        scope.spawn(move || consumer::run(shared, reader, seed))
    });
    let mut clients: Clients<'scope> = consumers.collect();
    for member in 0..MEMBERS {
        let (seed, [classic, new]) = (seed ^ (member << 56), GROUPS);
        clients.push(scope.spawn(move || group::run(shared, classic, seed)));
        clients.push(scope.spawn(move || consumer_group::run(shared, new, !seed)));
    }
    clients
}

fn join(clients: Clients<'_>, found: &mut Found) {
    for client in clients {
        match client.join() {
            Ok(history) => found.history.merge(history),
            Err(_) => found.problems.push("a client has stopped: see above".to_owned()),
        }
    }
}

/// What the leaders hold, and what the group has committed.
fn read_at_the_end(shared: &Shared, seed: u64, found: &mut Found) {
    let mut client = Client::new(shared, seed);
    match read_everything(&mut client, READS_WITHIN) {
        Ok(log) => {
            for (end, partition) in shared.ends.iter().zip(&log) {
                let next = partition.last().map_or(0, |(offset, _)| offset + 1);
                end.store(next, Ordering::Release);
            }
            found.reads.push(log);
        }
        Err(why) => found.problems.push(format!("the final read does not come to its end: {why}")),
    }
    for group in GROUPS {
        if !committed_of_group(&mut client, group, READS_WITHIN) {
            found.problems.push(format!("nobody says what group {group} has committed"));
        }
    }
    found.history.merge(client.history);
}

/// Lets the readers come to the end, for some time.
fn finish(shared: &Shared, readers: Clients<'_>, found: &mut Found) {
    shared.finish.store(true, Ordering::Release);
    let deadline = Instant::now() + CATCHES_UP_WITHIN;
    while Instant::now() < deadline && !readers.iter().all(ScopedJoinHandle::is_finished) {
        thread::sleep(Duration::from_millis(20));
    }
    let late = readers.iter().filter(|reader| !reader.is_finished()).count();
    if late > 0 {
        let text = format!("{late} readers have not come to the end in {CATCHES_UP_WITHIN:?}");
        found.problems.push(text);
    }
    shared.stop.store(true, Ordering::Release);
    join(readers, found);
    found.readers = (0..CONSUMERS).chain(GROUPS).collect();
}
