//! Produce: record batches to the logs of partitions, answered once they are as safe as the
//! producer asks.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use cluster::AppendError;
use cluster::metadata::MetadataImage;
use cluster::replica::{AppendTicket, Replica};
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::{ApiKey, ProduceRequest, ResponseKind};
use protocol::api::{ApiSpec, Stage};
use protocol::error_code::ErrorCode;
use protocol::record_batch::{RecordBatch, validate_for_append};
use protocol::types::{PartitionId, Timestamp, TopicId};

use super::common::deadline::replication_wait;
use super::common::leadership::check_leader;
use super::common::nodes::nodes;
use super::common::produce_checks::{Duplicates, is_transactional, refuses_all, rules};
use super::common::produce_rows::{Appended, ProduceRow, Refusal, TopicRows, response};
use super::common::resolve;
use super::common::topic_errors::ADMIN_CLIENT_ID;
use super::{Reply, ResponseBody};
use crate::config::TopicConfig;
use crate::context::{RequestContext, Services};

/// Versions:
/// - 3: record batches of format v2, transactional id (KIP-98)
/// - 4: KAFKA_STORAGE_ERROR may be answered (KIP-112)
/// - 5: log start offset (KIP-107)
/// - 6: throttled answers go out before the connection is muted (KIP-219)
/// - 7: zstd (KIP-110)
/// - 8: errors of single records, error message (KIP-467)
/// - 9: flexible
/// - 10: the current leader and its address on NOT_LEADER_OR_FOLLOWER (KIP-951)
/// - 11: TRANSACTION_ABORTABLE may be answered (KIP-890)
/// - 12: partitions join a transaction by being produced to (KIP-890)
/// - 13: topic ids instead of names (KIP-516)
pub const SPEC: ApiSpec = ApiSpec {
    // librdkafka before 2.11.1 compresses nothing where 0 is not offered (KAFKA-18659).
    advertised_min: 0,
    gaps: &[
        "There is no transaction coordinator yet: transactional batches are refused with \
         INVALID_TXN_STATE, as from a partition that was not added to the transaction.",
        "A partition that is named twice in one request is refused with INVALID_REQUEST; Kafka \
         drops the first batch without a word.",
    ],
    stage: Stage::Partial,
    ..ApiSpec::new(ApiKey::Produce, 3..=13)
};

/// From this version on topics are named by id.
const TOPIC_IDS_SINCE: i16 = 13;

/// When a producer wants its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Acks {
    /// Never.
    None,
    /// Once the leader has written it.
    Leader,
    /// Once all replicas in sync have.
    All,
}

impl Acks {
    fn from_wire(acks: i16) -> Option<Acks> {
        match acks {
            0 => Some(Acks::None),
            1 => Some(Acks::Leader),
            -1 => Some(Acks::All),
            _ => None,
        }
    }
}

/// A partition of the request: refused, or on its way into the replica's log.
type Queued = Result<(AppendTicket, Timestamp, Arc<Replica>), Refusal>;

/// The partitions of one topic row, under the names by which the client knows them.
struct QueuedTopic {
    rows: TopicRows,
    partitions: Vec<(i32, Queued)>,
}

/// Queues every batch that may be appended, in the order of the request, before it returns; then
/// waits for them.
pub async fn handle(
    services: &Arc<Services>,
    context: &RequestContext,
    request: ProduceRequest,
) -> Reply {
    let image = services.cluster.metadata();
    let acks = Acks::from_wire(request.acks);
    let timeout = replication_wait(request.timeout_ms);
    let append = Append {
        services,
        context,
        image: &image,
        acks,
        refuse_all: refuses_all(&request),
        duplicates: Duplicates::of(&request),
    };
    // As in Kafka, a topic without partitions is not answered.
    let asked = request.topic_data.into_iter().filter(|data| !data.partition_data.is_empty());
    let topics: Vec<_> = asked.map(|data| append.topic(data)).collect();
    if acks == Some(Acks::None) {
        return Reply::Silent(Box::pin(async move {
            let rows = wait(topics, Acks::None, timeout).await;
            match rows.iter().find_map(TopicRows::first_error) {
                None => Ok(()),
                // It is the only way to tell the client that something is wrong.
                Some(error) => Err(format!("a produce request with acks=0 failed: {error}")),
            }
        }));
    }
    let (services, context) = (services.clone(), context.clone());
    Reply::Later(Box::pin(async move {
        let rows = wait(topics, acks.unwrap_or(Acks::Leader), timeout).await;
        let nodes = if rows.iter().any(TopicRows::name_a_leader) {
            nodes(&services, &context, &services.cluster.metadata())
        } else {
            Vec::new()
        };
        let response = response(rows, context.api_version, &nodes);
        ResponseBody::Message(Box::new(ResponseKind::Produce(response)))
    }))
}

/// Waits for the appends of a request as long as it allows.
async fn wait(topics: Vec<QueuedTopic>, acks: Acks, timeout: Duration) -> Vec<TopicRows> {
    let mut expiry = pin!(tokio::time::sleep(timeout));
    let mut answered = Vec::with_capacity(topics.len());
    for QueuedTopic { mut rows, partitions } in topics {
        for (index, queued) in partitions {
            let row = match queued {
                Err(refusal) => ProduceRow { index, outcome: Err(refusal) },
                Ok((ticket, log_append_time, replica)) => {
                    let appended = async {
                        Ok::<_, AppendError>(match acks {
                            Acks::None | Acks::Leader => (ticket.written().await?, true),
                            Acks::All => {
                                let appended = ticket.committed().await?;
                                let is_held = replica.is_held_by_enough(appended.base_offset);
                                (appended, is_held.await)
                            }
                        })
                    };
                    let outcome = tokio::select! {
                        // What is done counts, also when the time is up.
                        biased;
                        appended = appended => match appended {
                            Ok((appended, true)) => Ok(Appended::new(&appended, log_append_time)),
                            Ok((_, false)) => {
                                Err(Refusal::new(ErrorCode::NotEnoughReplicasAfterAppend))
                            }
                            Err(error) => {
                                Err(Refusal::from(&error).seen_by_the_log_of(&replica))
                            }
                        },
                        // The leader alone needs no more time than it takes to write.
                        () = &mut expiry, if acks == Acks::All => {
                            Err(Refusal::new(ErrorCode::RequestTimedOut))
                        }
                    };
                    ProduceRow { index, outcome }
                }
            };
            rows.partitions.push(row);
        }
        answered.push(rows);
    }
    answered
}

/// What the partitions of a request have in common.
struct Append<'a> {
    services: &'a Services,
    context: &'a RequestContext,
    image: &'a MetadataImage,
    /// `None` = not a number that means anything.
    acks: Option<Acks>,
    refuse_all: Option<ErrorCode>,
    duplicates: Duplicates,
}

impl Append<'_> {
    fn topic(&self, data: TopicProduceData) -> QueuedTopic {
        let id = TopicId(data.topic_id);
        let mut config = None;
        let partitions = data.partition_data.into_iter().map(|partition| {
            let index = partition.index;
            let queued = if self.duplicates.contains(id, &data.name, index) {
                Err(Refusal::new(ErrorCode::InvalidRequest))
            } else {
                self.partition(id, &data.name, partition, &mut config)
            };
            (index, queued)
        });
        let partitions = partitions.collect();
        QueuedTopic { rows: TopicRows::new(data.name, id), partitions }
    }

    /// Refuses a partition's batch, or queues it.
    fn partition(
        &self,
        id: TopicId,
        name: &str,
        data: PartitionProduceData,
        config: &mut Option<TopicConfig>,
    ) -> Queued {
        if let Some(error) = self.refuse_all {
            return Err(Refusal::new(error));
        }
        let partition = PartitionId(data.index);
        let topic = if self.context.api_version >= TOPIC_IDS_SINCE {
            resolve::topic_id_with_partition(self.image, id, partition)?
        } else {
            resolve::topic_with_partition(self.image, name, partition)?
        };
        let acks = self.acks.ok_or(ErrorCode::InvalidRequiredAcks)?;
        let is_admin = self.context.client_id.as_deref() == Some(ADMIN_CLIENT_ID);
        if topic.is_internal() && !is_admin {
            return Err(Refusal::new(ErrorCode::InvalidTopicException));
        }
        let replica = resolve::local_replica(self.services, topic.id, partition)?;
        check_leader(&replica, None).map_err(|error| Refusal::elsewhere(error, &replica))?;
        if is_transactional(&data) {
            let message = "Partition was not added to the transaction";
            return Err(Refusal::new(ErrorCode::InvalidTxnState).with_message(message));
        }
        let config = config.get_or_insert_with(|| self.services.topic_config(self.image, topic));
        let (batch, log_append_time) =
            self.validate(data, config).map_err(|refusal| refusal.seen_by_the_log_of(&replica))?;
        let ticket = match acks {
            Acks::All => replica.append(batch),
            Acks::None | Acks::Leader => replica.append_to_leader(batch),
        };
        Ok((ticket, log_append_time, replica))
    }

    fn validate(
        &self,
        data: PartitionProduceData,
        config: &TopicConfig,
    ) -> Result<(RecordBatch, Timestamp), Refusal> {
        let rules = rules(config, self.context.api_version, self.context.now);
        let records = data.records.unwrap_or_default();
        let validated = validate_for_append(&records, &rules).map_err(Refusal::from)?;
        if validated.batch.size_in_bytes() > config.segment_bytes {
            return Err(Refusal::new(ErrorCode::RecordListTooLarge));
        }
        Ok((validated.batch, validated.log_append_time))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acks_are_none_leader_or_all() {
        assert_eq!(Acks::from_wire(0), Some(Acks::None));
        assert_eq!(Acks::from_wire(1), Some(Acks::Leader));
        assert_eq!(Acks::from_wire(-1), Some(Acks::All));
        assert_eq!(Acks::from_wire(2), None);
        assert_eq!(Acks::from_wire(-2), None);
    }
}
