//! The map from every error of our crates to Kafka's error codes: the only place where the two
//! meet. No match here has a wildcard, so that a new variant does not compile until it is mapped.

use cluster::{AppendError, ClusterError, ReadError};
use protocol::ErrorCode;
use protocol::record_batch::BatchError;
use storage::StorageError;

use crate::coordinator::runtime::CoordinatorError;

/// An error that a client is told as a code.
pub trait ToErrorCode {
    /// The code that makes clients do the right thing.
    fn error_code(&self) -> ErrorCode;
}

impl ToErrorCode for AppendError {
    fn error_code(&self) -> ErrorCode {
        match self {
            AppendError::NotLeader { .. } => ErrorCode::NotLeaderOrFollower,
            AppendError::OutOfOrderSequence => ErrorCode::OutOfOrderSequenceNumber,
            AppendError::InvalidProducerEpoch => ErrorCode::InvalidProducerEpoch,
            AppendError::NotEnoughReplicas => ErrorCode::NotEnoughReplicas,
            // Of the retriable codes this one says to every client that nothing was appended, so
            // that it tries again after its backoff and does not look for another leader.
            AppendError::Busy => ErrorCode::NotEnoughReplicas,
            AppendError::Gone => ErrorCode::UnknownTopicOrPartition,
            AppendError::Storage(error) => error.error_code(),
        }
    }
}

impl ToErrorCode for ReadError {
    fn error_code(&self) -> ErrorCode {
        match self {
            ReadError::NotLeader { .. } => ErrorCode::NotLeaderOrFollower,
            ReadError::Gone => ErrorCode::UnknownTopicOrPartition,
            ReadError::Storage(error) => error.error_code(),
        }
    }
}

impl ToErrorCode for StorageError {
    fn error_code(&self) -> ErrorCode {
        match self {
            // Retriable, so that producers wait for space, and consumers for a repaired range.
            StorageError::NoSpace(_)
            | StorageError::Stopped(_)
            | StorageError::Corrupt(_)
            | StorageError::Io(_)
            | StorageError::Locked(_) => ErrorCode::KafkaStorageError,
            StorageError::OffsetOutOfRange { .. } | StorageError::Purged { .. } => {
                ErrorCode::OffsetOutOfRange
            }
            StorageError::GroupGone(_) => ErrorCode::UnknownTopicOrPartition,
        }
    }
}

impl ToErrorCode for ClusterError {
    fn error_code(&self) -> ErrorCode {
        match self {
            ClusterError::TopicExists(_) => ErrorCode::TopicAlreadyExists,
            ClusterError::UnknownTopic(_) => ErrorCode::UnknownTopicOrPartition,
            ClusterError::UnknownTopicId(_) => ErrorCode::UnknownTopicId,
            ClusterError::InvalidTopicName(_) => ErrorCode::InvalidTopicException,
            ClusterError::InvalidPartitions(_) => ErrorCode::InvalidPartitions,
            ClusterError::InvalidReplicationFactor(_) => ErrorCode::InvalidReplicationFactor,
            ClusterError::InvalidReplicaAssignment(_) => ErrorCode::InvalidReplicaAssignment,
            ClusterError::NoReassignment => ErrorCode::NoReassignmentInProgress,
            ClusterError::UnknownBroker(_) => ErrorCode::BrokerIdNotRegistered,
            // Retriable: admin clients look for the controller again.
            ClusterError::NoController | ClusterError::ShuttingDown => ErrorCode::NotController,
            ClusterError::Undecided => ErrorCode::RequestTimedOut,
            ClusterError::ForeignCluster { .. } => ErrorCode::InconsistentClusterId,
            ClusterError::Storage(_) => ErrorCode::KafkaStorageError,
        }
    }
}

impl ToErrorCode for CoordinatorError {
    fn error_code(&self) -> ErrorCode {
        match self {
            CoordinatorError::NotCoordinator => ErrorCode::NotCoordinator,
            // A full queue is what clients know least of: this one they wait after, and come back.
            CoordinatorError::Loading | CoordinatorError::Busy => {
                ErrorCode::CoordinatorLoadInProgress
            }
            CoordinatorError::Unavailable => ErrorCode::CoordinatorNotAvailable,
        }
    }
}

impl ToErrorCode for BatchError {
    fn error_code(&self) -> ErrorCode {
        match self {
            BatchError::Truncated(_) | BatchError::CrcMismatch { .. } => ErrorCode::CorruptMessage,
            BatchError::UnsupportedMagic(_)
            | BatchError::Invalid(_)
            | BatchError::Compression(_) => ErrorCode::InvalidRecord,
            BatchError::TooLarge { .. } => ErrorCode::MessageTooLarge,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_passes_by_itself_is_retriable() {
        let storage = StorageError::NoSpace("full".to_owned());
        assert!(storage.error_code().is_retriable());
        assert!(AppendError::Busy.error_code().is_retriable());
        assert!(AppendError::Storage(storage).error_code().is_retriable());
        assert!(ClusterError::NoController.error_code().is_retriable());
        assert!(ClusterError::ShuttingDown.error_code().is_retriable());
    }

    #[test]
    fn what_the_client_did_wrong_is_not_retriable() {
        assert!(!BatchError::Invalid(String::new()).error_code().is_retriable());
        assert!(!AppendError::InvalidProducerEpoch.error_code().is_retriable());
        assert!(!ClusterError::TopicExists(String::new()).error_code().is_retriable());
    }
}
