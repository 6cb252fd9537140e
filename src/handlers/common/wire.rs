//! From our types to those of messages.

use kafka_protocol::messages::{self, ResponseKind, TopicName};
use kafka_protocol::protocol::StrBytes;
use protocol::error_code::ErrorCode;
use protocol::types::BrokerId;

use crate::handlers::{Reply, ResponseBody};

/// A text.
#[must_use]
pub fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

/// A topic's name.
#[must_use]
pub fn topic_name(name: &str) -> TopicName {
    TopicName(text(name))
}

/// Broker ids.
#[must_use]
pub fn broker_ids(ids: &[BrokerId]) -> Vec<messages::BrokerId> {
    ids.iter().map(|id| messages::BrokerId(id.0)).collect()
}

/// An answer that is ready.
#[must_use]
pub fn reply(response: impl Into<ResponseKind>) -> Reply {
    Reply::Now(ResponseBody::Message(Box::new(response.into())))
}

/// An error as a row of an answer has it: the code, and a sentence for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// What the client decides by.
    pub code: ErrorCode,
    /// What a person reads.
    pub message: String,
}

impl Refusal {
    /// A refusal with a sentence.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Refusal {
        Refusal { code, message: message.into() }
    }
}

/// The code of a result.
#[must_use]
pub fn code_of<T>(result: &Result<T, Refusal>) -> i16 {
    result.as_ref().err().map_or(ErrorCode::None, |refusal| refusal.code).code()
}

/// The sentence of a result.
#[must_use]
pub fn message_of<T>(result: &Result<T, Refusal>) -> Option<StrBytes> {
    result.as_ref().err().map(|refusal| text(&refusal.message))
}
