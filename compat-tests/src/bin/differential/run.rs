//! Runs cases: which versions, which requests, and what becomes of the answers.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use kafka_protocol::messages::ApiKey;
use parking_lot::Mutex;

use crate::case::{Case, Memory, OwnTopic, Step};
use crate::compare::compare;
use crate::exchange::{Outcome, Talk, neutral};
use crate::report::{Report, known};
use crate::setup::Side;
use crate::tree::Node;

/// How long a step that settles may take until both answers are alike and without those errors.
const SETTLED_WITHIN: Duration = Duration::from_secs(5);
/// How long answers that are alike may go on saying that a broker is not ready: some cases expect
/// one of those errors in the end.
const READY_WITHIN: Duration = Duration::from_secs(1);
/// Cases that run at a time: most of a run is waiting.
const AT_A_TIME: usize = 8;
/// APIs that tell or change something of the whole broker: one case after another, at the end.
const OF_THE_WHOLE_BROKER: [ApiKey; 9] = [
    ApiKey::ApiVersions,
    ApiKey::Metadata,
    ApiKey::DescribeCluster,
    ApiKey::DescribeTopicPartitions,
    ApiKey::DescribeLogDirs,
    ApiKey::DescribeConfigs,
    ApiKey::AlterConfigs,
    ApiKey::IncrementalAlterConfigs,
    ApiKey::ListGroups,
];
/// Errors of a broker that is not ready yet.
const NOT_READY: [i64; 5] = [5, 6, 14, 15, 16];

/// A case in one version.
pub struct Planned<'a> {
    pub case: &'a Case,
    pub version: i16,
    /// In front of the names that are of this version alone.
    pub prefix: String,
    number: usize,
}

impl Planned<'_> {
    /// The full names of the case's topics, by alias.
    pub fn topics(&self) -> impl Iterator<Item = (String, &OwnTopic)> {
        self.case.topics.iter().map(|topic| {
            let name = match self.case.fresh {
                true => format!("{}{}", self.prefix, topic.alias),
                false => format!("c{:03}-{}", self.number, topic.alias),
            };
            (name, topic)
        })
    }
}

/// How a case is called.
pub fn title(case: &Case) -> String {
    format!("{:?}/{}", case.api, case.name)
}

/// Every case in every version that both brokers serve.
pub fn plan<'a>(cases: &'a [Case], ours: &Side, kafka: &Side) -> Vec<Planned<'a>> {
    let mut planned = Vec::new();
    for (number, case) in cases.iter().enumerate() {
        let Some((min, max)) = common(case.api, ours, kafka) else { continue };
        for version in min.max(*case.versions.start())..=max.min(*case.versions.end()) {
            let prefix = format!("c{number:03}v{version:02}-");
            planned.push(Planned { case, version, prefix, number });
        }
    }
    planned
}

/// Versions that both advertise and that `kafka-protocol` has.
fn common(api: ApiKey, ours: &Side, kafka: &Side) -> Option<(i16, i16)> {
    let (ours, kafka) = (ours.versions.get(&(api as i16))?, kafka.versions.get(&(api as i16))?);
    let known = api.valid_versions();
    Some((ours.0.max(kafka.0).max(known.min), ours.1.min(kafka.1).min(known.max)))
}

/// Both brokers, and where it is told how they differ.
pub struct Comparison<'a> {
    pub ours: &'a Side,
    pub kafka: &'a Side,
    pub report: &'a Mutex<Report>,
    pub verbose: bool,
}

impl Comparison<'_> {
    /// Runs all cases, the versions of each one after another.
    pub fn run_all(&self, planned: &[Planned]) -> Result<(), String> {
        let (last, apart): (Vec<_>, Vec<_>) = planned
            .chunk_by(|a, b| a.number == b.number)
            .partition(|versions| is_alone(versions[0].case));
        let next = AtomicUsize::new(0);
        thread::scope(|scope| {
            let work = || -> Result<(), String> {
                while let Some(versions) = apart.get(next.fetch_add(1, Ordering::Relaxed)) {
                    self.run_versions(versions)?;
                }
                Ok(())
            };
            let workers: Vec<_> = (0..AT_A_TIME).map(|_| scope.spawn(work)).collect();
            workers
                .into_iter()
                .try_for_each(|worker| worker.join().map_err(|_| "a case panicked".to_owned())?)
        })?;
        last.into_iter().try_for_each(|versions| self.run_versions(versions))
    }

    fn run_versions(&self, versions: &[Planned]) -> Result<(), String> {
        let started = Instant::now();
        versions.iter().try_for_each(|planned| self.run(planned))?;
        self.report.lock().took(versions[0].case, started.elapsed());
        Ok(())
    }

    /// Asks both brokers and reports what differs.
    fn run(&self, planned: &Planned) -> Result<(), String> {
        let mut sides = [Asked::new(self.ours, planned)?, Asked::new(self.kafka, planned)?];
        for step in &planned.case.steps {
            if !self.run_step(planned, step, &mut sides)? {
                break;
            }
        }
        Ok(())
    }

    /// Whether the case goes on after the step.
    fn run_step(
        &self,
        planned: &Planned,
        step: &Step,
        sides: &mut [Asked; 2],
    ) -> Result<bool, String> {
        let version = self.version_of(planned, step);
        let api = format!("{:?}", step.api);
        let asked_at = Instant::now();
        let (outcomes, differences) = loop {
            let mut outcomes = Vec::new();
            for side in &mut *sides {
                side.memory.asked_version = version;
                let Ok(body) = (step.build)(&side.memory, version) else {
                    // The version has no field for what the case asks.
                    self.report.lock().not_in_version(planned.case);
                    return Ok(false);
                };
                outcomes.push(side.ask(step, version, &body)?);
            }
            let differences = compare(&api, &outcomes[0].node(), &outcomes[1].node());
            let is_alike = !differences.iter().any(|d| known(planned, step, d).is_none());
            let waited = asked_at.elapsed();
            let is_settled =
                is_alike && (waited > READY_WITHIN || !outcomes.iter().any(is_not_ready));
            if !step.settles || is_settled || waited > SETTLED_WITHIN {
                break (outcomes, differences);
            }
            thread::sleep(Duration::from_millis(10));
        };
        if self.verbose {
            println!(
                "{} {} v{version}\n  Highwater {}\n  Kafka     {}",
                title(planned.case),
                step.name,
                outcomes[0].node(),
                outcomes[1].node()
            );
        }
        self.report.lock().add(planned, step, differences);
        let is_over = |outcome: &Outcome| matches!(outcome, Outcome::Closed | Outcome::Nothing);
        Ok(!outcomes.iter().any(is_over))
    }

    fn version_of(&self, planned: &Planned, step: &Step) -> i16 {
        match step.version {
            Some(version) => version,
            None if step.api == planned.case.api => planned.version,
            None => common(step.api, self.ours, self.kafka).map_or(0, |(_, max)| max),
        }
    }
}

/// A broker in the middle of a case.
struct Asked {
    talk: Talk,
    memory: Memory,
}

impl Asked {
    fn new(side: &Side, planned: &Planned) -> Result<Asked, String> {
        let mut memory = side.memory.clone();
        memory.version = planned.version;
        memory.prefix.clone_from(&planned.prefix);
        memory.shared = planned.topics().map(|(name, topic)| (topic.alias, name)).collect();
        let talk = Talk::new(side.broker.connect()).map_err(|error| error.to_string())?;
        Ok(Asked { talk, memory })
    }

    fn ask(&mut self, step: &Step, version: i16, body: &Bytes) -> Result<Outcome, String> {
        let io = |error: std::io::Error| format!("{}: {error}", step.name);
        if step.silent {
            let _ = self.talk.send(step.api, version, body);
            return Ok(Outcome::Answer(Node::word("sent")));
        }
        let (mut outcome, answer) = self.talk.ask(step.api, version, body).map_err(io)?;
        if let Outcome::Answer(node) = &mut outcome {
            if let Some(learn) = &step.learn {
                learn(answer, version, &mut self.memory);
            }
            if step.only_own {
                keep_own(node, &self.memory.prefix);
            }
            neutral(node, &self.memory);
        }
        Ok(outcome)
    }
}

/// Drops topics and groups of other cases, which run at the same time or did something else.
fn keep_own(answer: &mut Node, prefix: &str) {
    let Node::Fields(fields) = answer else { return };
    for (name, value) in fields {
        if let ("groups" | "topics", Node::List(rows)) = (name.as_str(), value) {
            rows.retain(|row| {
                let row = row.to_string();
                row.contains(prefix) || row.contains("fixture-")
            });
        }
    }
}

fn is_alone(case: &Case) -> bool {
    case.alone || OF_THE_WHOLE_BROKER.contains(&case.api)
}

fn is_not_ready(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Answer(node) if says_not_ready(node))
}

/// Whether an error of one that is not ready stands anywhere in an answer.
fn says_not_ready(node: &Node) -> bool {
    match node {
        Node::Fields(fields) => fields.iter().any(|(name, value)| {
            let code = if name == "error_code" { value.number() } else { None };
            code.is_some_and(|code| NOT_READY.contains(&code)) || says_not_ready(value)
        }),
        Node::List(items) => items.iter().any(says_not_ready),
        _ => false,
    }
}
