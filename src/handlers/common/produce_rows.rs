//! The rows of a Produce response: where a batch went, or why it did not.

use cluster::AppendError;
use cluster::replica::{self, Replica};
use kafka_protocol::messages::produce_response::{
    BatchIndexAndErrorMessage, LeaderIdAndEpoch, NodeEndpoint, PartitionProduceResponse,
    TopicProduceResponse,
};
use kafka_protocol::messages::{BrokerId as WireBrokerId, ProduceResponse, TopicName};
use protocol::error_code::ErrorCode;
use protocol::record_batch::ValidationError;
use protocol::types::{Offset, Timestamp, TopicId};

use super::leadership::{CurrentLeader, NamedLeaders};
use super::nodes::Node;
use crate::error_map::ToErrorCode;

/// Before it answers name no leaders.
const CURRENT_LEADER_SINCE: i16 = 10;
/// Before it answers name no single records.
const RECORD_ERRORS_SINCE: i16 = 8;
/// Before it answers have no log start offset.
const LOG_START_OFFSET_SINCE: i16 = 5;

/// Where a batch went.
#[derive(Debug, Clone, Copy)]
pub struct Appended {
    base_offset: Offset,
    log_start_offset: Offset,
    log_append_time: Timestamp,
}

impl Appended {
    /// `log_append_time` is -1 where the producer's timestamps stand.
    #[must_use]
    pub fn new(appended: &replica::Appended, log_append_time: Timestamp) -> Self {
        let replica::Appended { base_offset, log_start_offset, .. } = *appended;
        Self { base_offset, log_start_offset, log_append_time }
    }
}

/// Why a batch was not appended.
#[derive(Debug, Clone)]
pub struct Refusal {
    error: ErrorCode,
    message: Option<String>,
    record_errors: Vec<(i32, String)>,
    log_start_offset: Offset,
    current_leader: Option<CurrentLeader>,
}

impl Refusal {
    /// For this reason, with nothing to add.
    #[must_use]
    pub fn new(error: ErrorCode) -> Self {
        let (message, record_errors, current_leader) = (None, Vec::new(), None);
        Self { error, message, record_errors, log_start_offset: Offset(-1), current_leader }
    }

    /// The same, and the leader that the client should go to.
    #[must_use]
    pub fn elsewhere(error: ErrorCode, replica: &Replica) -> Self {
        Self { current_leader: CurrentLeader::of(replica), ..Self::new(error) }
    }

    /// With a sentence for a person.
    #[must_use]
    pub fn with_message(self, message: impl Into<String>) -> Self {
        Self { message: Some(message.into()), ..self }
    }

    /// With the first offset of this replica's log, if it was looked at.
    #[must_use]
    pub fn seen_by_the_log_of(self, replica: &Replica) -> Self {
        self.seen_by_the_log(replica.offsets().log_start_offset)
    }

    /// With the partition's first offset, by which a producer tells data loss from a gap: where
    /// it is the records that are refused, and not the bytes (Kafka:
    /// `ReplicaManager.appendToLocalLog`).
    #[must_use]
    fn seen_by_the_log(self, log_start_offset: Offset) -> Self {
        match self.error {
            ErrorCode::InvalidRecord
            | ErrorCode::InvalidTimestamp
            | ErrorCode::OutOfOrderSequenceNumber
            | ErrorCode::InvalidProducerEpoch => Self { log_start_offset, ..self },
            _ => self,
        }
    }
}

impl From<ErrorCode> for Refusal {
    fn from(error: ErrorCode) -> Self {
        Self::new(error)
    }
}

impl From<ValidationError> for Refusal {
    fn from(error: ValidationError) -> Self {
        let ValidationError { error_code, record_errors, message } = error;
        Self { record_errors, ..Self::new(error_code) }.with_message(message)
    }
}

impl From<&AppendError> for Refusal {
    fn from(error: &AppendError) -> Self {
        let refusal = Self::new(error.error_code());
        match error {
            AppendError::NotLeader { leader: Some(leader), leader_epoch } => {
                let (leader, leader_epoch) = (*leader, *leader_epoch);
                let current_leader = Some(CurrentLeader { leader, leader_epoch });
                Self { current_leader, ..refusal }
            }
            _ => refusal,
        }
    }
}

/// A partition's row.
#[derive(Debug, Clone)]
pub struct ProduceRow {
    /// The partition.
    pub index: i32,
    /// What became of its batch.
    pub outcome: Result<Appended, Refusal>,
}

impl ProduceRow {
    fn current_leader(&self) -> Option<&CurrentLeader> {
        self.outcome.as_ref().err()?.current_leader.as_ref()
    }
}

/// A topic's rows.
#[derive(Debug, Clone)]
pub struct TopicRows {
    name: TopicName,
    id: TopicId,
    /// In the order of the request.
    pub partitions: Vec<ProduceRow>,
}

impl TopicRows {
    /// No rows yet, under the name or the id that the request has.
    #[must_use]
    pub fn new(name: TopicName, id: TopicId) -> Self {
        Self { name, id, partitions: Vec::new() }
    }

    /// Whether a row sends the client to another broker.
    #[must_use]
    pub fn name_a_leader(&self) -> bool {
        self.partitions.iter().any(|row| row.current_leader().is_some())
    }

    /// The first error among the rows.
    #[must_use]
    pub fn first_error(&self) -> Option<ErrorCode> {
        self.partitions.iter().find_map(|row| row.outcome.as_ref().err().map(|r| r.error))
    }
}

/// The whole response; `nodes` are the brokers that the client may be sent to.
#[must_use]
pub fn response(topics: Vec<TopicRows>, version: i16, nodes: &[Node]) -> ProduceResponse {
    let mut leaders = NamedLeaders::among(nodes);
    let topics = topics.into_iter().map(|TopicRows { name, id, partitions }| {
        let rows = partitions.into_iter().map(|row| {
            let leader = row.current_leader().cloned();
            let mut row = partition_row(row, version);
            if let Some(leader) = leader.filter(|_| version >= CURRENT_LEADER_SINCE) {
                row.current_leader = LeaderIdAndEpoch::default()
                    .with_leader_id(WireBrokerId(leader.leader.0))
                    .with_leader_epoch(leader.leader_epoch.0);
                leaders.name(&leader);
            }
            row
        });
        TopicProduceResponse::default()
            .with_name(name)
            .with_topic_id(id.0)
            .with_partition_responses(rows.collect())
    });
    let responses = topics.collect();
    let endpoints = leaders.endpoints(|node| {
        NodeEndpoint::default()
            .with_node_id(node.wire_id())
            .with_host(node.wire_host())
            .with_port(i32::from(node.port))
            .with_rack(node.wire_rack())
    });
    ProduceResponse::default().with_responses(responses).with_node_endpoints(endpoints)
}

fn partition_row(row: ProduceRow, version: i16) -> PartitionProduceResponse {
    let answer = PartitionProduceResponse::default()
        .with_index(row.index)
        .with_base_offset(-1)
        .with_log_append_time_ms(-1)
        .with_log_start_offset(-1);
    let with_log_start = |answer: PartitionProduceResponse, offset: Offset| {
        if version >= LOG_START_OFFSET_SINCE {
            answer.with_log_start_offset(offset.0)
        } else {
            answer
        }
    };
    match row.outcome {
        Ok(appended) => with_log_start(answer, appended.log_start_offset)
            .with_base_offset(appended.base_offset.0)
            .with_log_append_time_ms(appended.log_append_time.0),
        Err(refusal) => {
            let answer = with_log_start(answer, refusal.log_start_offset)
                .with_error_code(refusal.error.code());
            if version < RECORD_ERRORS_SINCE {
                return answer;
            }
            let record_errors = refusal.record_errors.into_iter().map(|(index, message)| {
                BatchIndexAndErrorMessage::default()
                    .with_batch_index(index)
                    .with_batch_index_error_message(Some(message.into()))
            });
            answer
                .with_record_errors(record_errors.collect())
                .with_error_message(refusal.message.map(Into::into))
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;
    use kafka_protocol::protocol::Encodable;
    use protocol::types::{BrokerId, LeaderEpoch};

    use super::*;

    fn nodes() -> Vec<Node> {
        vec![Node { id: BrokerId(2), host: "b2.example".to_owned(), port: 9092, rack: None }]
    }

    fn rows() -> Vec<TopicRows> {
        let mut topic = TopicRows::new(TopicName("t".into()), TopicId::default());
        let leader = Some(BrokerId(2));
        let moved = AppendError::NotLeader { leader, leader_epoch: LeaderEpoch(4) };
        let refused = ValidationError {
            error_code: ErrorCode::InvalidRecord,
            record_errors: vec![(3, "no key".to_owned())],
            message: "one record is refused".to_owned(),
        };
        let appended = replica::Appended {
            base_offset: Offset(10),
            log_start_offset: Offset(2),
            duplicate: false,
        };
        let outcomes = [
            Ok(Appended::new(&appended, Timestamp::UNKNOWN)),
            Err(Refusal::from(&moved)),
            Err(Refusal::from(refused).seen_by_the_log(Offset(2))),
        ];
        let rows = (0..).zip(outcomes).map(|(index, outcome)| ProduceRow { index, outcome });
        topic.partitions = rows.collect();
        vec![topic]
    }

    #[test]
    fn every_version_can_be_encoded() {
        for version in 3..=12 {
            let response = response(rows(), version, &nodes());
            response.encode(&mut BytesMut::new(), version).unwrap();
        }
        let by_id = vec![TopicRows::new(TopicName::default(), TopicId(uuid::Uuid::max()))];
        let response = response(by_id, 13, &nodes());
        response.encode(&mut BytesMut::new(), 13).unwrap();
    }

    #[test]
    fn a_moved_partition_names_its_leader_from_version_10_on() {
        let old = response(rows(), 9, &nodes());
        assert_eq!(old.responses[0].partition_responses[1].current_leader.leader_id.0, -1);
        assert!(old.node_endpoints.is_empty());
        let new = response(rows(), 10, &nodes());
        let row = &new.responses[0].partition_responses[1];
        assert_eq!((row.error_code, row.base_offset), (6, -1));
        assert_eq!((row.current_leader.leader_id.0, row.current_leader.leader_epoch), (2, 4));
        assert_eq!(&new.node_endpoints[0].host.to_string(), "b2.example");
    }

    #[test]
    fn single_records_are_named_from_version_8_on() {
        let row = |version| {
            let response = response(rows(), version, &nodes());
            response.responses[0].partition_responses[2].clone()
        };
        assert!(row(7).record_errors.is_empty());
        assert!(row(7).error_message.is_none());
        assert_eq!(row(8).record_errors[0].batch_index, 3);
        assert_eq!(row(8).error_message.as_deref(), Some("one record is refused"));
        assert_eq!(row(8).log_start_offset, 2);
    }

    #[test]
    fn an_appended_batch_has_its_offsets() {
        let response = response(rows(), 9, &nodes());
        let row = &response.responses[0].partition_responses[0];
        assert_eq!((row.error_code, row.base_offset, row.log_append_time_ms), (0, 10, -1));
        assert_eq!(row.log_start_offset, 2);
    }
}
