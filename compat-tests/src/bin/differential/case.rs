//! A case: the requests that both brokers get, one after another on one connection, as data.

use std::collections::HashMap;
use std::io;
use std::ops::RangeInclusive;

use bytes::{Bytes, BytesMut};
use compat_tests::requests::topic_name;
use kafka_protocol::messages::{ApiKey, TopicName};
use kafka_protocol::protocol::{Decodable, Request};
use uuid::Uuid;

/// What the steps of a case know about one broker: ids that it gave, which differ between the two.
#[derive(Debug, Clone, Default)]
pub struct Memory {
    /// The version of the API that the case is about.
    pub version: i16,
    /// The version of the request that is being made.
    pub asked_version: i16,
    /// In front of the names of topics and groups that are this case's and version's own.
    pub prefix: String,
    /// Full names of the topics that all versions of this case share, by alias.
    pub shared: HashMap<&'static str, String>,
    /// Topic ids by name.
    pub topic_ids: HashMap<String, Uuid>,
    /// The leader epoch of every partition: leaders do not change during a run.
    pub leader_epoch: i32,
    numbers: HashMap<&'static str, i64>,
    texts: HashMap<&'static str, String>,
}

impl Memory {
    /// The full name of something of this case's own.
    pub fn own(&self, alias: &str) -> String {
        match self.shared.get(alias) {
            Some(name) => name.clone(),
            None => format!("{}{alias}", self.prefix),
        }
    }

    /// The name of a topic of the case's own, or of a fixture (which starts with `fixture-`).
    pub fn topic(&self, alias: &str) -> TopicName {
        topic_name(&self.full_name(alias))
    }

    /// The id of such a topic; nil for one that was not made beforehand.
    pub fn id(&self, alias: &str) -> Uuid {
        self.topic_ids.get(&self.full_name(alias)).copied().unwrap_or_default()
    }

    fn full_name(&self, alias: &str) -> String {
        if alias.starts_with("fixture-") { alias.to_owned() } else { self.own(alias) }
    }

    /// A number that an earlier answer brought; -1 when it did not.
    pub fn number(&self, name: &str) -> i64 {
        self.numbers.get(name).copied().unwrap_or(-1)
    }

    /// Keeps a number for later steps.
    pub fn keep(&mut self, name: &'static str, number: impl Into<i64>) {
        self.numbers.insert(name, number.into());
    }

    /// A string that an earlier answer brought.
    pub fn text(&self, name: &str) -> String {
        self.texts.get(name).cloned().unwrap_or_default()
    }

    /// Keeps a string for later steps; it stands for itself in what is compared.
    pub fn keep_text(&mut self, name: &'static str, text: &str) {
        self.texts.insert(name, text.to_owned());
    }

    /// Strings that differ between the brokers, with the name that stands for each.
    pub fn kept_texts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.texts.iter().map(|(name, text)| (text.as_str(), *name))
    }
}

type Build = Box<dyn Fn(&Memory, i16) -> io::Result<Bytes> + Send + Sync>;
type Learn = Box<dyn Fn(Bytes, i16, &mut Memory) + Send + Sync>;

/// One request of a case.
pub struct Step {
    /// Where a difference shows it; empty in cases of one step.
    pub name: String,
    /// The API.
    pub api: ApiKey,
    /// A version for the whole request, other than the case's.
    pub version: Option<i16>,
    /// The body, without the header.
    pub build: Build,
    /// Takes from the answer what later steps need.
    pub learn: Option<Learn>,
    /// No answer comes by design (Produce with acks=0): the next step shows what became of it.
    pub silent: bool,
    /// Asked again, for a while, until both brokers are ready and answer alike.
    pub settles: bool,
    /// Of the topics or groups in the answer only fixtures and this case's are looked at.
    pub only_own: bool,
}

/// Requests for one connection, repeated for every version of an API.
pub struct Case {
    /// Says what is asked.
    pub name: String,
    /// What it is about: its version runs through all that both brokers serve.
    pub api: ApiKey,
    /// Versions in which the case makes sense.
    pub versions: RangeInclusive<i16>,
    /// Topics to be made beforehand: alias, partitions, configs.
    pub topics: Vec<OwnTopic>,
    /// Each version has its topics for itself. Else the versions share them, one after another.
    pub fresh: bool,
    /// It runs when no other case does: what it asks about is not its own.
    pub alone: bool,
    /// The requests.
    pub steps: Vec<Step>,
}

/// A topic of a case's own.
#[derive(Debug, Clone)]
pub struct OwnTopic {
    /// What the case calls it.
    pub alias: &'static str,
    /// Its number of partitions.
    pub partitions: i32,
    /// Its configs.
    pub configs: &'static [(&'static str, &'static str)],
}

impl Case {
    /// A case about an API.
    pub fn new(api: ApiKey, name: impl Into<String>) -> Case {
        let (topics, steps) = (Vec::new(), Vec::new());
        let versions = 0..=i16::MAX;
        Case { name: name.into(), api, versions, topics, fresh: false, alone: false, steps }
    }

    /// The case changes its topics so that a second version would find them otherwise.
    pub fn fresh(mut self) -> Case {
        self.fresh = true;
        self
    }

    /// What it asks about is not its own.
    pub fn alone(mut self) -> Case {
        self.alone = true;
        self
    }

    /// Only these versions.
    pub fn versions(mut self, versions: RangeInclusive<i16>) -> Case {
        self.versions = versions;
        self
    }

    /// A topic of one's own.
    pub fn topic(self, alias: &'static str, partitions: i32) -> Case {
        self.topic_with(alias, partitions, &[])
    }

    /// A topic of one's own with configs.
    pub fn topic_with(
        mut self,
        alias: &'static str,
        partitions: i32,
        configs: &'static [(&'static str, &'static str)],
    ) -> Case {
        self.topics.push(OwnTopic { alias, partitions, configs });
        self
    }

    /// Asks, in the version of the case when it is about this API.
    pub fn ask<R: Request>(self, build: impl Fn(&Memory) -> R + Send + Sync + 'static) -> Case {
        self.step("", build)
    }

    /// The same, with a name among several steps.
    pub fn step<R: Request>(
        mut self,
        name: &str,
        build: impl Fn(&Memory) -> R + Send + Sync + 'static,
    ) -> Case {
        let encode = move |memory: &Memory, version| {
            let mut body = BytesMut::new();
            build(memory).encode(&mut body, version).map_err(io::Error::other)?;
            Ok(body.freeze())
        };
        self.steps.push(Step::new(name, api_key(R::KEY), Box::new(encode)));
        self
    }

    /// Asks with a body of bytes.
    pub fn bytes(
        mut self,
        name: &str,
        build: impl Fn(&Memory, i16) -> Bytes + Send + Sync + 'static,
    ) -> Case {
        let encode = move |memory: &Memory, version| Ok(build(memory, version));
        self.steps.push(Step::new(name, self.api, Box::new(encode)));
        self
    }

    fn last(&mut self) -> &mut Step {
        self.steps.last_mut().expect("a case has a step before this is said of it")
    }

    /// In this version, whatever the case's is.
    pub fn in_version(mut self, version: i16) -> Case {
        self.last().version = Some(version);
        self
    }

    /// The last step is a request of this API, with bytes that it does not have.
    pub fn about(mut self, api: ApiKey) -> Case {
        self.last().api = api;
        self
    }

    /// The last step is not answered.
    pub fn silent(mut self) -> Case {
        self.last().silent = true;
        self
    }

    /// The last step is about what comes a moment later: it is asked until both are ready.
    pub fn settles(mut self) -> Case {
        self.last().settles = true;
        self
    }

    /// The last step lists topics or groups, among which there are those of other cases.
    pub fn only_own(mut self) -> Case {
        self.last().only_own = true;
        self
    }

    /// Takes from the last step's answer, one to an `R`, what later steps need.
    pub fn learn<R: Request>(
        mut self,
        take: impl Fn(&R::Response, &mut Memory) + Send + Sync + 'static,
    ) -> Case {
        let decode = move |mut body: Bytes, version: i16, memory: &mut Memory| {
            if let Ok(response) = R::Response::decode(&mut body, version) {
                take(&response, memory);
            }
        };
        self.last().learn = Some(Box::new(decode));
        self
    }
}

impl Step {
    fn new(name: &str, api: ApiKey, build: Build) -> Step {
        Step {
            name: name.to_owned(),
            api,
            version: None,
            build,
            learn: None,
            silent: false,
            settles: false,
            only_own: false,
        }
    }
}

/// The key by its number.
pub fn api_key(key: i16) -> ApiKey {
    ApiKey::try_from(key).expect("kafka-protocol knows its own keys")
}
