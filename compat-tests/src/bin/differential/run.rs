//! Runs cases: which versions, which requests, and what becomes of the answers.

use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use kafka_protocol::messages::ApiKey;

use crate::case::{Case, Memory, OwnTopic, Step};
use crate::compare::compare;
use crate::exchange::{Outcome, Talk, neutral};
use crate::report::{Report, known};
use crate::setup::Side;
use crate::tree::Node;

/// How long a step that settles may take until both answers are alike and without those errors.
const SETTLED_WITHIN: Duration = Duration::from_secs(5);
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

/// Asks both brokers and reports what differs.
pub fn run(
    planned: &Planned,
    ours: &Side,
    kafka: &Side,
    report: &mut Report,
    verbose: bool,
) -> Result<(), String> {
    let mut sides = [Asked::new(ours, planned)?, Asked::new(kafka, planned)?];
    for step in &planned.case.steps {
        let version = match step.version {
            Some(version) => version,
            None if step.api == planned.case.api => planned.version,
            None => common(step.api, ours, kafka).map_or(0, |(_, max)| max),
        };
        let api = format!("{:?}", step.api);
        let deadline = Instant::now() + SETTLED_WITHIN;
        let (outcomes, differences) = loop {
            let mut outcomes = Vec::new();
            for side in &mut sides {
                side.memory.asked_version = version;
                let Ok(body) = (step.build)(&side.memory, version) else {
                    // The version has no field for what the case asks.
                    report.not_in_version(planned.case);
                    return Ok(());
                };
                outcomes.push(side.ask(step, version, &body)?);
            }
            let differences = compare(&api, &outcomes[0].node(), &outcomes[1].node());
            let is_new = |difference| known(planned, step, difference).is_none();
            let is_settled = !differences.iter().any(is_new) && !outcomes.iter().any(is_not_ready);
            if !step.settles || is_settled || Instant::now() > deadline {
                break (outcomes, differences);
            }
            thread::sleep(Duration::from_millis(10));
        };
        if verbose {
            println!("{} {} v{version}", title(planned.case), step.name);
            println!("  Highwater {}", outcomes[0].node());
            println!("  Kafka     {}", outcomes[1].node());
        }
        report.add(planned, step, differences);
        if outcomes.iter().any(|outcome| matches!(outcome, Outcome::Closed | Outcome::Nothing)) {
            break;
        }
    }
    Ok(())
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
            neutral(node, &self.memory);
        }
        Ok(outcome)
    }
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
