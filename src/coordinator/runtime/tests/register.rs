//! A tiny machine: values by key. Every write also counts itself under a key of its own, so that a
//! state says which write it is the state after.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::coordinator::shard::{Effect, Event, KeyValue, Now, RequestToken, Shard, When};

/// The key under which writes are counted.
pub const COUNT: &str = "#";

#[derive(Debug, PartialEq, Eq)]
pub struct Register;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// Answered with the number of the write, once it is durable.
    Write(&'static str, Option<String>),
    /// Answered with the value, once everything before is durable.
    Read(&'static str),
    /// Answered by the next write, whoever asks for it.
    Park,
    /// Answered after so many milliseconds.
    Wait(i64),
}

pub type Record = (String, Option<String>);

#[derive(Debug, Default)]
pub struct Soft {
    pub parked: Vec<RequestToken>,
}

impl Register {
    fn count(hard: &BTreeMap<String, String>) -> u64 {
        hard.get(COUNT).and_then(|count| count.parse().ok()).unwrap_or(0)
    }
}

impl Shard for Register {
    type Hard = BTreeMap<String, String>;
    type Soft = Soft;
    type Request = Request;
    type Reply = String;
    type Record = Record;
    type Timer = RequestToken;

    fn decide(
        hard: &Self::Hard,
        soft: &mut Soft,
        now: Now,
        event: Event<Self>,
        effects: &mut Vec<Effect<Self>>,
    ) {
        let reply = |token, reply: &str, when| Effect::Reply { token, reply: reply.into(), when };
        match event {
            Event::Loaded => {}
            Event::Request(token, Request::Write(key, value)) => {
                let count = (Register::count(hard) + 1).to_string();
                let counted = (COUNT.to_owned(), Some(count.clone()));
                effects.push(Effect::Append(vec![(key.to_owned(), value), counted]));
                effects.push(reply(token, &count, When::Durable));
                effects.extend(soft.parked.drain(..).map(|token| reply(token, "", When::Now)));
            }
            Event::Request(token, Request::Read(key)) => {
                let value = hard.get(key).map_or("none", String::as_str);
                effects.push(reply(token, value, When::Durable));
            }
            Event::Request(token, Request::Park) => soft.parked.push(token),
            Event::Request(token, Request::Wait(ms)) => {
                effects.push(Effect::SetTimer(token, now.steady.after_ms(ms)));
            }
            Event::Timer(token) => effects.push(reply(token, "time", When::Now)),
        }
    }

    fn replay(hard: &mut Self::Hard, (key, value): &Record) {
        match value {
            Some(value) => hard.insert(key.clone(), value.clone()),
            None => hard.remove(key),
        };
    }

    fn snapshot(hard: &Self::Hard) -> Vec<Record> {
        hard.iter().map(|(key, value)| (key.clone(), Some(value.clone()))).collect()
    }

    fn encode((key, value): &Record) -> KeyValue {
        let value = value.clone().map(Bytes::from);
        KeyValue { key: Bytes::from(key.clone()), value }
    }

    fn decode(record: &KeyValue) -> Result<Option<Record>, String> {
        let text = |bytes: &Bytes| {
            String::from_utf8(bytes.to_vec()).map_err(|_| "it is no text".to_owned())
        };
        let value = record.value.as_ref().map(text).transpose()?;
        Ok(Some((text(&record.key)?, value)))
    }
}
