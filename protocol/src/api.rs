//! The type of a row of the API table: what the broker says it can, and what it can.
//!
//! Pure: no I/O, no clock, no randomness.

use std::ops::RangeInclusive;

use kafka_protocol::messages::ApiKey;

/// How far an API has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// It does what Kafka's does, but for the gaps named.
    Complete,
    /// Clients get along with it; whole parts of Kafka's behaviour are missing.
    Partial,
    /// It answers with what is true of a broker that lacks the feature, an empty list for one.
    Stub,
}

/// One API of the broker. The table of them drives dispatch, ApiVersions, metrics and the
/// compatibility document, so that what is advertised is what is implemented.
#[derive(Debug, Clone)]
pub struct ApiSpec {
    /// Which API.
    pub key: ApiKey,
    /// The versions whose requests are decoded and answered.
    pub implemented: RangeInclusive<i16>,
    /// The lowest version that ApiVersions names. Below `implemented` only where clients look at
    /// the number without ever using it (Produce: librdkafka before 2.11.1 needs a 0 there).
    pub advertised_min: i16,
    /// What Kafka does and we do not, in a sentence each.
    pub gaps: &'static [&'static str],
    /// How far it has come.
    pub stage: Stage,
}

impl ApiSpec {
    /// A complete API that advertises what it implements.
    #[must_use]
    pub const fn new(key: ApiKey, implemented: RangeInclusive<i16>) -> ApiSpec {
        let advertised_min = *implemented.start();
        ApiSpec { key, implemented, advertised_min, gaps: &[], stage: Stage::Complete }
    }

    /// The number on the wire.
    #[must_use]
    pub const fn code(&self) -> i16 {
        self.key as i16
    }

    /// Whether requests of that version are decoded.
    #[must_use]
    pub fn supports(&self, api_version: i16) -> bool {
        self.implemented.contains(&api_version)
    }

    /// What ApiVersions says: lowest and highest version.
    #[must_use]
    pub const fn advertised(&self) -> (i16, i16) {
        (self.advertised_min, *self.implemented.end())
    }
}
