//! Consumers read from a replica of their own rack (KIP-392).

use compat_tests::Connection;
use compat_tests::batches::records;
use compat_tests::broker::is_kafka;
use compat_tests::requests::{CREATE_TOPICS_VERSION, FETCH_VERSION, fetch, only_fetched};
use kafka_protocol::messages::fetch_response::PartitionData;
use protocol::ErrorCode;

use crate::cluster::{IDS, TOPIC, Trio, assigned, eventually};
use crate::harness::error;

/// The last version in which a client cannot say its rack.
const WITHOUT_RACK: i16 = 10;
const NOBODY: i32 = -1;

/// Brokers 1 to 3 in racks a to c, and a topic that broker 1 leads.
fn racks() -> Trio {
    let (mut trio, options) = Trio::prepare();
    let options = options.into_iter().zip(["a", "b", "c"]).map(|(options, rack)| {
        let selector = "org.apache.kafka.common.replica.RackAwareReplicaSelector";
        options.with("broker.rack", rack).with("replica.selector.class", selector)
    });
    trio.start_again(options.collect());
    let created = trio.anyone().call(CREATE_TOPICS_VERSION, &assigned(TOPIC, &[&IDS]));
    assert_eq!(error(created.topics[0].error_code), ErrorCode::None);
    trio.see("preferred leader", 1, |rows| rows[0].leader_id.0 == 1);
    trio
}

fn fetch_as(connection: &mut Connection, rack: &str) -> PartitionData {
    let request = fetch(TOPIC, 0, 0).with_rack_id(rack.to_owned().into());
    only_fetched(&connection.call(FETCH_VERSION, &request)).clone()
}

fn values(data: &PartitionData) -> Vec<bytes::Bytes> {
    records(data.records.as_ref()).into_iter().filter_map(|record| record.value).collect()
}

#[test]
fn a_consumer_is_sent_to_the_follower_in_its_rack_and_served_there() {
    if is_kafka() {
        return;
    }
    let trio = racks();
    assert_eq!(trio.append(0, "near"), 0);
    let mut leader = trio.brokers[&1].connect();
    // Until the follower is known to have it, the leader itself is read from.
    let sent_on = eventually("follower to be sent to", || {
        let data = fetch_as(&mut leader, "b");
        assert_eq!(error(data.error_code), ErrorCode::None);
        (data.preferred_read_replica.0 != NOBODY).then_some(data)
    });
    assert_eq!((sent_on.preferred_read_replica.0, sent_on.high_watermark), (2, 1));
    assert!(values(&sent_on).is_empty(), "it is to read elsewhere");
    for rack in ["a", "elsewhere", ""] {
        let data = fetch_as(&mut leader, rack);
        assert_eq!(data.preferred_read_replica.0, NOBODY, "{rack}");
        assert_eq!(values(&data), ["near"], "{rack}");
    }
    let mut follower = trio.brokers[&2].connect();
    let data = eventually("record at the follower", || {
        let data = fetch_as(&mut follower, "b");
        assert_eq!(error(data.error_code), ErrorCode::None);
        (data.high_watermark == 1).then_some(data)
    });
    assert_eq!(data.preferred_read_replica.0, NOBODY);
    assert_eq!(values(&data), ["near"]);
    let old = follower.call(WITHOUT_RACK, &fetch(TOPIC, 0, 0));
    let row = &old.responses[0].partitions[0];
    assert_eq!(error(row.error_code), ErrorCode::NotLeaderOrFollower);
}
