//! ApiVersions: what the broker speaks (KIP-35, KIP-511). A version that we do not know is
//! answered by dispatch, for this API must be answered in any.

use std::sync::{Arc, LazyLock};

use kafka_protocol::messages::api_versions_response::{
    ApiVersion, FinalizedFeatureKey, SupportedFeatureKey,
};
use kafka_protocol::messages::{ApiKey, ApiVersionsRequest, ApiVersionsResponse};
use protocol::api::ApiSpec;
use protocol::error_code::ErrorCode;

use super::common::wire::{reply, text};
use super::{Reply, TABLE};
use crate::context::{RequestContext, Services};

/// Versions:
/// - 0: keys with their lowest and highest version
/// - 1: throttle time
/// - 2: throttling does not delay the answer (KIP-219)
/// - 3: flexible; the client's software name and version; features
/// - 4: features may have 0 as their lowest level
pub const SPEC: ApiSpec = ApiSpec::new(ApiKey::ApiVersions, 0..=4);

/// First version in which clients say what they are, and are told of features.
const CLIENT_SOFTWARE_VERSION: i16 = 3;
/// First version in which a feature may have 0 as its lowest level. Clients of earlier ones fail on
/// such a feature, and are not told of it (`ApiVersionsResponse.maybeFilterSupportedFeatureKeys`).
const ZERO_LEVEL_VERSION: i16 = 4;

/// Features, each with the level that is in force, the highest. Others of Kafka's gate formats of
/// its own metadata log, or protocols (transactions v2) that have to be built first.
const FEATURES: &[(&str, i16)] = &[("group.version", 1)];

/// Answers with the table and the features.
pub async fn handle(
    _services: &Arc<Services>,
    context: &RequestContext,
    request: ApiVersionsRequest,
) -> Reply {
    if context.api_version >= CLIENT_SOFTWARE_VERSION
        && !(is_software(&request.client_software_name)
            && is_software(&request.client_software_version))
    {
        let code = ErrorCode::InvalidRequest.code();
        return reply(ApiVersionsResponse::default().with_error_code(code));
    }
    static API_KEYS: LazyLock<Vec<ApiVersion>> = LazyLock::new(api_keys);
    let response = ApiVersionsResponse::default().with_api_keys(API_KEYS.clone());
    reply(with_features(response, context.api_version))
}

fn with_features(response: ApiVersionsResponse, version: i16) -> ApiVersionsResponse {
    if version < CLIENT_SOFTWARE_VERSION {
        return response;
    }
    let supported =
        FEATURES.iter().filter(|_| version >= ZERO_LEVEL_VERSION).map(|(name, level)| {
            SupportedFeatureKey::default().with_name(text(name)).with_max_version(*level)
        });
    let finalized = FEATURES.iter().map(|(name, level)| {
        FinalizedFeatureKey::default()
            .with_name(text(name))
            .with_min_version_level(*level)
            .with_max_version_level(*level)
    });
    response
        .with_supported_features(supported.collect())
        .with_finalized_features(finalized.collect())
        // They never change.
        .with_finalized_features_epoch(0)
}

fn api_keys() -> Vec<ApiVersion> {
    let rows = TABLE.iter().map(|row| {
        let (min, max) = row.spec.advertised();
        ApiVersion::default()
            .with_api_key(row.spec.code())
            .with_min_version(min)
            .with_max_version(max)
    });
    rows.collect()
}

/// Letters and digits, with dots and hyphens in between.
fn is_software(name: &str) -> bool {
    let bytes = name.as_bytes();
    let within = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.');
    let outer = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    outer(bytes.first()) && outer(bytes.last()) && bytes.iter().all(within)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_clients_are_judged_as_kafka_judges_them() {
        for name in ["apache-kafka-java", "4.4.0", "a", "librdkafka", "v2.0.2-rc1"] {
            assert!(is_software(name), "{name}");
        }
        for name in ["", "-a", "a-", ".1", "1.", "a b", "a_b", "ä", "\0"] {
            assert!(!is_software(name), "{name}");
        }
    }

    #[test]
    fn old_clients_are_not_told_of_features_that_they_fail_on() {
        let told = |version| {
            let response = with_features(ApiVersionsResponse::default(), version);
            (response.supported_features.len(), response.finalized_features.len())
        };
        assert_eq!((told(2), told(3), told(4)), ((0, 0), (0, 1), (1, 1)));
    }

    #[test]
    fn what_is_in_the_table_is_advertised() {
        let keys = api_keys();
        assert_eq!(keys.len(), TABLE.len());
        assert!(keys.is_sorted_by_key(|key| key.api_key));
        assert!(keys.iter().all(|key| key.min_version <= key.max_version));
        let own = keys.iter().find(|key| key.api_key == SPEC.code()).expect("it is in it");
        assert_eq!((own.min_version, own.max_version), (0, 4));
    }
}
