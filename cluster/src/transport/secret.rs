//! The secret that the brokers of a cluster share, and the proof that a broker knows it.
//!
//! The secret itself never leaves a broker. Each side brings a fresh random number, and proves by
//! an HMAC-SHA256 over both numbers, both ids and its own part in the exchange. So a proof is worth
//! nothing on another connection, from another broker, or sent back to where it came from. Where
//! the connection is encrypted the keys agreed on are in it too: who stands in between as the other
//! end of two encrypted connections has other keys on each.

use std::io;

use protocol::types::BrokerId;
use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};

/// A number that is used once.
pub(super) type Nonce = [u8; 32];

/// An HMAC-SHA256.
pub(super) type Proof = [u8; 32];

/// What the HMAC is for; another protocol that uses the same secret has other words.
const PURPOSE: &[u8] = b"highwater introduction of brokers, 1";

/// What all brokers of a cluster know, and nobody else.
#[derive(Clone)]
pub struct ClusterSecret(hmac::Key);

impl std::fmt::Debug for ClusterSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ClusterSecret(hidden)")
    }
}

/// Who proves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    /// Who has made the connection.
    Caller,
    /// Who has taken it.
    Answerer,
}

/// What both sides know of a connection once both have said who they are.
#[derive(Debug, Clone, Copy)]
pub(super) struct Exchange<'a> {
    pub(super) caller: (BrokerId, Nonce),
    pub(super) answerer: (BrokerId, Nonce),
    /// Of the connection's encryption; empty where there is none.
    pub(super) channel: &'a [u8],
}

impl ClusterSecret {
    /// From the bytes as configured.
    #[must_use]
    pub fn new(secret: &[u8]) -> ClusterSecret {
        ClusterSecret(hmac::Key::new(hmac::HMAC_SHA256, secret))
    }

    pub(super) fn prove(&self, side: Side, exchange: &Exchange<'_>) -> Proof {
        let tag = hmac::sign(&self.0, &statement(side, exchange));
        let mut proof = Proof::default();
        proof.copy_from_slice(tag.as_ref());
        proof
    }

    /// Takes the same time wherever a wrong proof is wrong.
    pub(super) fn is_proven(&self, side: Side, exchange: &Exchange<'_>, proof: &Proof) -> bool {
        hmac::verify(&self.0, &statement(side, exchange), proof).is_ok()
    }
}

/// Every part but the last has a fixed length, so no two exchanges make the same bytes.
fn statement(side: Side, exchange: &Exchange<'_>) -> Vec<u8> {
    let mut bytes = PURPOSE.to_vec();
    bytes.push(match side {
        Side::Caller => 1,
        Side::Answerer => 2,
    });
    for (id, nonce) in [&exchange.caller, &exchange.answerer] {
        bytes.extend_from_slice(&id.0.to_be_bytes());
        bytes.extend_from_slice(nonce);
    }
    bytes.extend_from_slice(exchange.channel);
    bytes
}

/// A number that nobody can foresee.
pub(super) fn fresh_nonce() -> io::Result<Nonce> {
    let mut nonce = Nonce::default();
    let failed = |_| io::Error::other("the system gives no random numbers");
    SystemRandom::new().fill(&mut nonce).map_err(failed)?;
    Ok(nonce)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exchange() -> Exchange<'static> {
        Exchange {
            caller: (BrokerId(1), [1; 32]),
            answerer: (BrokerId(2), [2; 32]),
            channel: b"channel",
        }
    }

    #[test]
    fn a_proof_is_good_for_its_own_side_exchange_and_secret_only() {
        let (secret, exchange) = (ClusterSecret::new(b"tide"), exchange());
        let proof = secret.prove(Side::Caller, &exchange);
        assert!(secret.is_proven(Side::Caller, &exchange, &proof));
        assert!(!secret.is_proven(Side::Answerer, &exchange, &proof), "it was sent back");
        assert!(!ClusterSecret::new(b"ebb").is_proven(Side::Caller, &exchange, &proof));
        let (caller, answerer) = (exchange.caller, exchange.answerer);
        for other in [
            Exchange { caller: (BrokerId(3), caller.1), ..exchange },
            Exchange { caller: (caller.0, [9; 32]), ..exchange },
            Exchange { answerer: (BrokerId(3), answerer.1), ..exchange },
            Exchange { answerer: (answerer.0, [9; 32]), ..exchange },
            Exchange { caller: answerer, answerer: caller, ..exchange },
            Exchange { channel: b"", ..exchange },
        ] {
            assert!(!secret.is_proven(Side::Caller, &other, &proof), "{other:?}");
        }
    }

    #[test]
    fn numbers_differ_and_the_secret_is_not_shown() {
        assert_ne!(fresh_nonce().unwrap(), fresh_nonce().unwrap());
        assert_eq!(format!("{:?}", ClusterSecret::new(b"tide")), "ClusterSecret(hidden)");
    }
}
