//! ApiVersions, and frames that are no requests.

use bytes::{BufMut, Bytes, BytesMut};
use compat_tests::requests::{metadata, text};
use kafka_protocol::messages::{ApiKey, ApiVersionsRequest};

use crate::case::Case;

fn named(name: &'static str, version: &'static str) -> ApiVersionsRequest {
    ApiVersionsRequest::default()
        .with_client_software_name(text(name))
        .with_client_software_version(text(version))
}

pub fn cases() -> Vec<Case> {
    use ApiKey::ApiVersions as Api;
    let mut cases = vec![
        Case::new(Api, "a well-named client").ask(|_| named("librdkafka", "2.12.1")),
        Case::new(Api, "a client without a name").versions(3..=4).ask(|_| named("", "1")),
        Case::new(Api, "a client without a version").versions(3..=4).ask(|_| named("a", "")),
        Case::new(Api, "a client with a bad name").versions(3..=4).ask(|_| named("-a", "1")),
        Case::new(Api, "a client with a space").versions(3..=4).ask(|_| named("a b", "1")),
        Case::new(Api, "a client with a long version")
            .versions(3..=4)
            .ask(|_| named("a.b-c", "1.2.3-SNAPSHOT")),
        Case::new(Api, "a version of the future")
            .versions(0..=0)
            .bytes("", |_, _| Bytes::from_static(&[2, b'a', 2, b'1', 0]))
            .in_version(100),
        Case::new(Api, "a negative version")
            .versions(0..=0)
            .bytes("", |_, _| Bytes::new())
            .in_version(-1),
        Case::new(Api, "a cut-off body").versions(3..=4).bytes("", |_, _| Bytes::new()),
    ];
    for (key, name) in [
        (ApiKey::Metadata, "an empty body"),
        (ApiKey::Produce, "an empty body"),
        (ApiKey::Fetch, "an empty body"),
        (ApiKey::ListOffsets, "an empty body"),
        (ApiKey::CreateTopics, "an empty body"),
        (ApiKey::DescribeConfigs, "an empty body"),
    ] {
        cases.push(Case::new(key, name).bytes("", |_, _| Bytes::new()));
    }
    for key in [ApiKey::Metadata, ApiKey::Produce, ApiKey::Fetch, ApiKey::CreateTopics] {
        let case = Case::new(key, "an array longer than the frame").bytes("", |_, _| {
            let mut body = BytesMut::new();
            body.put_slice(&[0xff, 0xff, 0xff, 0xff, 0x07, 0x7f, 0xff, 0xff, 0xff, 0, 0]);
            body.freeze()
        });
        // Some versions of Metadata read it as a null array: all topics.
        cases.push(case.only_own());
    }
    cases.push(
        Case::new(ApiKey::Metadata, "a version of the future")
            .versions(4..=4)
            .step("the present", |_| metadata(&[], false))
            .bytes("the future", |_, _| Bytes::from_static(&[1, 0, 0, 0]))
            .in_version(99),
    );
    for (key, name) in [
        (ApiKey::Vote, "an API of the controller"),
        (ApiKey::BrokerRegistration, "an API of the controller, too"),
    ] {
        cases.push(
            Case::new(Api, name)
                .versions(0..=0)
                .bytes("", |_, _| Bytes::from_static(&[0; 16]))
                .about(key)
                .in_version(0),
        );
    }
    cases
}
