//! FindCoordinator: answered in every version, also where there is none.

use compat_tests::broker::is_kafka;
use compat_tests::requests::text;
use kafka_protocol::messages::FindCoordinatorRequest;
use protocol::ErrorCode;

use crate::harness::{connect, error};

#[test]
fn every_version_is_told_that_no_coordinator_is_available() {
    if is_kafka() {
        return;
    }
    let mut connection = connect();
    for version in 0..=3 {
        let request = FindCoordinatorRequest::default().with_key(text("group"));
        let response = connection.call(version, &request);
        let code = error(response.error_code);
        assert_eq!(code, ErrorCode::CoordinatorNotAvailable, "v{version}");
        assert_eq!(response.node_id.0, -1, "v{version}");
    }
    for version in 4..=6 {
        let request = FindCoordinatorRequest::default()
            .with_coordinator_keys(vec![text("group"), text("another")]);
        let response = connection.call(version, &request);
        let keys: Vec<_> = response.coordinators.iter().map(|row| row.key.as_str()).collect();
        assert_eq!(keys, ["group", "another"], "v{version}");
        for row in &response.coordinators {
            assert_eq!(error(row.error_code), ErrorCode::CoordinatorNotAvailable, "v{version}");
        }
    }
}
