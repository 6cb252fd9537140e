//! Who is at the other end: the first exchange of every connection between brokers.
//!
//! The caller says its protocol version, its id and its cluster, and so does who answers; a broker
//! of another cluster is refused with a sentence. A broker that has not joined any cluster yet has
//! no cluster id.
//!
//! ```text
//! without a secret          with one
//! ────────────────          ────────────────────────────────────
//! caller    introduction →  caller    id, a random number      →
//!         ← introduction            ← id, a random number
//!                           caller    introduction with proof  →
//!                                   ← introduction with proof
//! ```
//! The caller proves first: who only listens to it learns nothing that a stranger could not know.

use std::collections::BTreeMap;
use std::io;

use bytes::Bytes;
use parking_lot::RwLock;
use protocol::types::BrokerId;
use serde::{Deserialize, Serialize};
use storage::log_store::GroupId;
use tokio::io::{AsyncRead, AsyncWrite};

use super::PeerMessage;
use super::frame::{self, FrameType, PeerFrame};
use super::secret::{ClusterSecret, Exchange, Nonce, Proof, Side, fresh_nonce};
use super::tls::{PeerTls, refused};
use crate::limits::PEER_HELLO_BYTES;

/// What this code speaks. A change that an older broker does not understand raises it; brokers of
/// different versions speak the lower one.
pub(super) const PEER_PROTOCOL_VERSION: u16 = 1;

/// The lowest version that this code still speaks.
const LOWEST_VERSION: u16 = 1;

/// The key by which a secret is given, for sentences.
const SECRET_KEY: &str = "highwater.cluster.secret";

/// This broker, as it introduces itself, and what it asks of the others.
#[derive(Debug)]
pub struct Identity {
    broker_id: BrokerId,
    cluster_id: RwLock<String>,
    /// Told to brokers that do not know them.
    voters: BTreeMap<BrokerId, String>,
    security: PeerSecurity,
}

/// How connections between brokers are protected; nothing is, by default.
#[derive(Debug, Clone, Default)]
pub struct PeerSecurity {
    /// They are encrypted.
    pub tls: Option<PeerTls>,
    /// They are for those who know it.
    pub secret: Option<ClusterSecret>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Hello {
    version: u16,
    broker_id: i32,
    cluster_id: String,
    #[serde(default)]
    voters: BTreeMap<BrokerId, String>,
    /// Of a broker that has a secret. One that has none sends what it always sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    nonce: Option<Nonce>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    proof: Option<Proof>,
}

/// Who is at the other end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Met {
    pub(super) broker_id: BrokerId,
    /// Who votes on metadata, and where they are reached, as far as it knows.
    pub(super) voters: BTreeMap<BrokerId, String>,
}

impl Identity {
    /// Of a broker that may know its cluster already (empty: not yet).
    #[must_use]
    pub fn new(broker_id: BrokerId, cluster_id: String) -> Identity {
        let (voters, security) = (BTreeMap::new(), PeerSecurity::default());
        Identity { broker_id, cluster_id: RwLock::new(cluster_id), voters, security }
    }

    /// The same, of a broker that knows who votes on metadata.
    #[must_use]
    pub fn with_voters(self, voters: BTreeMap<BrokerId, String>) -> Identity {
        Identity { voters, ..self }
    }

    /// The same, of a broker whose connections are protected.
    #[must_use]
    pub fn with_security(self, security: PeerSecurity) -> Identity {
        Identity { security, ..self }
    }

    /// The cluster that this broker has joined.
    pub fn set_cluster_id(&self, cluster_id: &str) {
        let mut own = self.cluster_id.write();
        if *own != cluster_id {
            cluster_id.clone_into(&mut own);
        }
    }

    pub(super) fn tls(&self) -> Option<&PeerTls> {
        self.security.tls.as_ref()
    }

    /// The caller's part of the exchange.
    pub(super) async fn introduce<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        stream: &mut S,
        channel: &[u8],
    ) -> io::Result<Met> {
        let Some(secret) = &self.security.secret else {
            return self.check(&ask(stream, &self.hello(None)).await?).map_err(refused);
        };
        let nonce = fresh_nonce()?;
        let theirs = ask(stream, &self.opening(nonce)).await?;
        let Some(their_nonce) = theirs.nonce else {
            return Err(refused(self.has_no_secret(&theirs)));
        };
        let exchange = Exchange {
            caller: (self.broker_id, nonce),
            answerer: (BrokerId(theirs.broker_id), their_nonce),
            channel,
        };
        let proof = secret.prove(Side::Caller, &exchange);
        let proven = ask(stream, &self.hello(Some(proof))).await?;
        self.check_proof(secret, Side::Answerer, &exchange, &proven).map_err(refused)?;
        self.check(&proven).map_err(refused)
    }

    /// The part of who answers. A caller that is refused is told why.
    pub(super) async fn meet<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        stream: &mut S,
        channel: &[u8],
    ) -> io::Result<Met> {
        let met = self.hear(stream, channel).await;
        if let Err(error) = &met
            && error.kind() == io::ErrorKind::PermissionDenied
        {
            frame::write(stream, PeerFrame::refusal(0, GroupId(0), error.to_string())).await?;
        }
        met
    }

    async fn hear<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        stream: &mut S,
        channel: &[u8],
    ) -> io::Result<Met> {
        let opening = read_hello(stream, FrameType::Request).await?;
        let (secret, nonce) = match (&self.security.secret, opening.nonce) {
            (None, None) => {
                let met = self.check(&opening).map_err(refused)?;
                write_hello(stream, FrameType::Answer, &self.hello(None)).await?;
                return Ok(met);
            }
            (None, Some(_)) => return Err(refused(self.has_a_secret(&opening))),
            (Some(_), None) => return Err(refused(self.has_no_secret(&opening))),
            (Some(secret), Some(nonce)) => (secret, nonce),
        };
        let own_nonce = fresh_nonce()?;
        write_hello(stream, FrameType::Answer, &self.opening(own_nonce)).await?;
        let exchange = Exchange {
            caller: (BrokerId(opening.broker_id), nonce),
            answerer: (self.broker_id, own_nonce),
            channel,
        };
        let proven = read_hello(stream, FrameType::Request).await?;
        self.check_proof(secret, Side::Caller, &exchange, &proven).map_err(refused)?;
        let met = self.check(&proven).map_err(refused)?;
        let proof = secret.prove(Side::Answerer, &exchange);
        write_hello(stream, FrameType::Answer, &self.hello(Some(proof))).await?;
        Ok(met)
    }

    fn hello(&self, proof: Option<Proof>) -> Hello {
        Hello {
            version: PEER_PROTOCOL_VERSION,
            broker_id: self.broker_id.0,
            cluster_id: self.cluster_id.read().clone(),
            voters: self.voters.clone(),
            nonce: None,
            proof,
        }
    }

    /// What is said to who has not proven anything yet.
    fn opening(&self, nonce: Nonce) -> Hello {
        Hello {
            version: PEER_PROTOCOL_VERSION,
            broker_id: self.broker_id.0,
            cluster_id: String::new(),
            voters: BTreeMap::new(),
            nonce: Some(nonce),
            proof: None,
        }
    }

    fn has_no_secret(&self, other: &Hello) -> String {
        format!("broker {} has no {SECRET_KEY}, broker {} has one", other.broker_id, self.broker_id)
    }

    fn has_a_secret(&self, other: &Hello) -> String {
        format!("broker {} has a {SECRET_KEY}, broker {} has none", other.broker_id, self.broker_id)
    }

    /// Whether the other side, `side`, knows the secret.
    fn check_proof(
        &self,
        secret: &ClusterSecret,
        side: Side,
        exchange: &Exchange<'_>,
        hello: &Hello,
    ) -> Result<(), String> {
        let (said, _) = if side == Side::Caller { exchange.caller } else { exchange.answerer };
        let proven = hello.proof.is_some_and(|proof| secret.is_proven(side, exchange, &proof));
        // The proof is one of the id that was said first.
        if proven && hello.broker_id == said.0 {
            return Ok(());
        }
        Err(format!("broker {said} has another {SECRET_KEY} than broker {}", self.broker_id))
    }

    /// Judges the other side's introduction; a sentence when it is refused.
    fn check(&self, hello: &Hello) -> Result<Met, String> {
        if hello.version < LOWEST_VERSION {
            return Err(format!(
                "broker {} speaks version {} between brokers, at least {LOWEST_VERSION} is needed",
                hello.broker_id, hello.version
            ));
        }
        let own = self.cluster_id.read();
        if !own.is_empty() && !hello.cluster_id.is_empty() && *own != hello.cluster_id {
            return Err(format!(
                "broker {} belongs to cluster {}, broker {} to cluster {own}",
                hello.broker_id, hello.cluster_id, self.broker_id
            ));
        }
        if hello.broker_id == self.broker_id.0 {
            return Err(format!("two brokers have node.id {}", hello.broker_id));
        }
        Ok(Met { broker_id: BrokerId(hello.broker_id), voters: hello.voters.clone() })
    }
}

async fn ask<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    hello: &Hello,
) -> io::Result<Hello> {
    write_hello(stream, FrameType::Request, hello).await?;
    read_hello(stream, FrameType::Answer).await
}

async fn write_hello<S: AsyncWrite + Unpin>(
    stream: &mut S,
    frame_type: FrameType,
    hello: &Hello,
) -> io::Result<()> {
    let head = serde_json::to_vec(hello).map_err(io::Error::other)?;
    let message = PeerMessage { kind: 0, head: head.into(), body: Vec::new() };
    let (correlation, group) = (0, GroupId(0));
    frame::write(stream, PeerFrame { frame_type, correlation, group, message }).await
}

async fn read_hello<S: AsyncRead + Unpin>(
    stream: &mut S,
    expected: FrameType,
) -> io::Result<Hello> {
    let read = frame::read_within(stream, PEER_HELLO_BYTES).await?;
    let frame = read.ok_or(io::ErrorKind::UnexpectedEof)?;
    match frame.frame_type {
        FrameType::Refused => Err(refused(frame.sentence())),
        found if found == expected => parse(&frame.message.head).map_err(refused),
        _ => Err(refused("no introduction, but something else".to_owned())),
    }
}

fn parse(hello: &Bytes) -> Result<Hello, String> {
    serde_json::from_slice(hello).map_err(|error| format!("no introduction: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(own: &Identity, other: &Identity) -> Result<BrokerId, String> {
        own.check(&other.hello(None)).map(|met| met.broker_id)
    }

    #[test]
    fn a_broker_of_another_cluster_is_refused_and_one_of_none_is_not() {
        let own = Identity::new(BrokerId(1), "blue".into());
        assert_eq!(judged(&own, &Identity::new(BrokerId(2), "blue".into())), Ok(BrokerId(2)));
        let joining = Identity::new(BrokerId(3), String::new());
        assert_eq!(judged(&own, &joining), Ok(BrokerId(3)));
        joining.set_cluster_id("red");
        let refused = judged(&own, &joining).unwrap_err();
        assert_eq!(refused, "broker 3 belongs to cluster red, broker 1 to cluster blue");
    }

    #[test]
    fn a_second_broker_of_the_same_id_is_refused() {
        let own = Identity::new(BrokerId(1), "blue".into());
        let twin = Identity::new(BrokerId(1), "blue".into());
        assert_eq!(judged(&own, &twin).unwrap_err(), "two brokers have node.id 1");
        assert!(parse(&Bytes::from_static(b"GET / HTTP/1.1")).is_err());
    }

    #[test]
    fn a_broker_without_a_secret_says_what_it_always_said() {
        let own = Identity::new(BrokerId(1), "blue".into());
        let said = serde_json::to_string(&own.hello(None)).unwrap();
        assert_eq!(said, r#"{"version":1,"broker_id":1,"cluster_id":"blue","voters":{}}"#);
        let older = r#"{"version":1,"broker_id":2,"cluster_id":"blue"}"#;
        assert_eq!(own.check(&parse(&older.into()).unwrap()).unwrap().broker_id, BrokerId(2));
    }

    fn with_secret(id: i32, secret: Option<&str>) -> Identity {
        let secret = secret.map(|secret| ClusterSecret::new(secret.as_bytes()));
        let security = PeerSecurity { tls: None, secret };
        Identity::new(BrokerId(id), "blue".into()).with_security(security)
    }

    /// What both sides make of each other.
    async fn exchanged(caller: &Identity, answerer: &Identity) -> [Result<BrokerId, String>; 2] {
        let (mut one, mut other) = tokio::io::duplex(4096);
        let met = tokio::join!(
            caller.introduce(&mut one, b"channel"),
            answerer.meet(&mut other, b"channel"),
        );
        let told = |met: io::Result<Met>| met.map(|met| met.broker_id).map_err(|e| e.to_string());
        [told(met.0), told(met.1)]
    }

    #[tokio::test]
    async fn who_knows_the_secret_is_met_and_both_sides_are_told_who_does_not() {
        let (caller, answerer) = (with_secret(1, Some("tide")), with_secret(2, Some("tide")));
        assert_eq!(exchanged(&caller, &answerer).await, [Ok(BrokerId(2)), Ok(BrokerId(1))]);
        for (one, other, sentence) in [
            (Some("tide"), Some("ebb"), "broker 1 has another SECRET than broker 2"),
            (None, Some("tide"), "broker 1 has no SECRET, broker 2 has one"),
            (Some("tide"), None, "broker 1 has a SECRET, broker 2 has none"),
        ] {
            let expected = Err(sentence.replace("SECRET", SECRET_KEY));
            let met = exchanged(&with_secret(1, one), &with_secret(2, other)).await;
            assert_eq!(met, [expected.clone(), expected]);
        }
    }

    #[tokio::test]
    async fn a_broker_that_cannot_prove_that_it_knows_the_secret_is_not_believed() {
        let caller = with_secret(1, Some("tide"));
        // It answers, knows the form, and sends the caller's own proof back.
        let (mut one, mut other) = tokio::io::duplex(4096);
        let mirror = async {
            let opening = read_hello(&mut other, FrameType::Request).await.unwrap();
            let answer = Hello { broker_id: 2, ..opening };
            write_hello(&mut other, FrameType::Answer, &answer).await.unwrap();
            let proven = read_hello(&mut other, FrameType::Request).await.unwrap();
            let answer = Hello { broker_id: 2, ..proven };
            write_hello(&mut other, FrameType::Answer, &answer).await.unwrap();
        };
        let (met, ()) = tokio::join!(caller.introduce(&mut one, b""), mirror);
        let why = met.unwrap_err().to_string();
        assert_eq!(why, format!("broker 2 has another {SECRET_KEY} than broker 1"));
        // One that never had a secret has nothing to answer with.
        let (mut one, mut other) = tokio::io::duplex(4096);
        let older = async {
            read_hello(&mut other, FrameType::Request).await.unwrap();
            let answer = Identity::new(BrokerId(2), "blue".into()).hello(None);
            write_hello(&mut other, FrameType::Answer, &answer).await.unwrap();
        };
        let (met, ()) = tokio::join!(caller.introduce(&mut one, b""), older);
        let why = met.unwrap_err().to_string();
        assert_eq!(why, format!("broker 2 has no {SECRET_KEY}, broker 1 has one"));
    }

    #[tokio::test]
    async fn a_stranger_learns_nothing_of_the_cluster() {
        let voters = BTreeMap::from([(BrokerId(2), "secret-place:9093".to_owned())]);
        let answerer = with_secret(2, Some("tide")).with_voters(voters);
        let (mut one, mut other) = tokio::io::duplex(4096);
        let stranger = async {
            let opening = with_secret(1, None).opening([7; 32]);
            let theirs = ask(&mut one, &opening).await.unwrap();
            assert_eq!((theirs.cluster_id.as_str(), theirs.voters.len()), ("", 0));
            assert_eq!(theirs.proof, None);
            drop(one);
        };
        let (met, ()) = tokio::join!(answerer.meet(&mut other, b""), stranger);
        assert!(met.is_err());
    }
}
