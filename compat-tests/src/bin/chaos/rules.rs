//! Pure: what becomes of a packet between two hosts of the run's network.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::time::Duration;

/// A host: a broker by its id, or [`CLIENTS`].
pub type Host = u8;

/// The host of all clients.
pub const CLIENTS: Host = 9;

/// The network's first three bytes.
const NETWORK: [u8; 3] = [10, 77, 0];

/// Ports from here on are those of whoever opens a connection; those below, of brokers.
const EPHEMERAL_PORTS: u16 = 32_768;

/// A host's address.
pub fn address(host: Host) -> Ipv4Addr {
    let [a, b, c] = NETWORK;
    Ipv4Addr::new(a, b, c, host)
}

/// What goes wrong between two hosts, in one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Trouble {
    /// Nothing arrives.
    pub cut: bool,
    /// So many of a thousand packets are lost.
    pub lost_of_1000: u64,
    /// How much later they arrive.
    pub delay: Duration,
}

/// The state of the network.
#[derive(Debug, Clone, Default)]
pub struct Rules {
    troubles: BTreeMap<(Host, Host), Trouble>,
    /// Who cannot open a connection to whom.
    one_way: BTreeSet<(Host, Host)>,
}

/// What becomes of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It does not arrive.
    Lost,
    /// It arrives there, after a while.
    Arrives(Host, Duration),
}

impl Rules {
    /// What goes wrong from one host to another.
    pub fn set(&mut self, from: Host, to: Host, trouble: Trouble) {
        self.troubles.insert((from, to), trouble);
    }

    /// The same in both directions.
    pub fn set_both(&mut self, one: Host, other: Host, trouble: Trouble) {
        self.set(one, other, trouble);
        self.set(other, one, trouble);
    }

    /// Connections that `from` opens to `to` do not come about, and those that are there break.
    pub fn set_one_way(&mut self, from: Host, to: Host) {
        self.one_way.insert((from, to));
    }

    /// Judges an IPv4 packet that `from` has sent. `chance` is any number.
    pub fn judge(&self, from: Host, packet: &[u8], chance: u64) -> Verdict {
        let Some((to, ports)) = parse(packet) else { return Verdict::Lost };
        let trouble = self.troubles.get(&(from, to)).copied().unwrap_or_default();
        let opened_by_sender = ports.is_some_and(|(_, port)| port < EPHEMERAL_PORTS);
        let opened_by_receiver = ports.is_some_and(|(port, _)| port < EPHEMERAL_PORTS);
        let barred = opened_by_sender && self.one_way.contains(&(from, to))
            || opened_by_receiver && self.one_way.contains(&(to, from));
        if trouble.cut || barred || chance % 1000 < trouble.lost_of_1000 {
            return Verdict::Lost;
        }
        Verdict::Arrives(to, trouble.delay)
    }
}

/// Where an IPv4 packet goes, and the ports of TCP.
fn parse(packet: &[u8]) -> Option<(Host, Option<(u16, u16)>)> {
    const TCP: u8 = 6;
    let (head, [.., to]) = packet.get(..20)?.split_at(19) else { return None };
    if head[0] >> 4 != 4 || head[16..19] != NETWORK {
        return None;
    }
    let words = usize::from(head[0] & 15);
    let port = |at: usize| Some(u16::from_be_bytes([*packet.get(at)?, *packet.get(at + 1)?]));
    let ports = port(words * 4).zip(port(words * 4 + 2)).filter(|_| head[9] == TCP);
    Some((*to, ports))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(to: Host, from_port: u16, to_port: u16) -> Vec<u8> {
        let mut packet = vec![0x45, 0, 0, 24, 0, 0, 0, 0, 64, 6, 0, 0, 10, 77, 0, 1, 10, 77, 0, to];
        packet.extend(from_port.to_be_bytes());
        packet.extend(to_port.to_be_bytes());
        packet
    }

    const AT_ONCE: Duration = Duration::ZERO;

    #[test]
    fn a_network_without_rules_delivers() {
        let verdict = Rules::default().judge(1, &packet(2, 40_000, 9093), 0);
        assert_eq!(verdict, Verdict::Arrives(2, AT_ONCE));
    }

    #[test]
    fn a_cut_in_one_direction_leaves_the_other() {
        let mut rules = Rules::default();
        rules.set(1, 2, Trouble { cut: true, ..Trouble::default() });
        assert_eq!(rules.judge(1, &packet(2, 1, 2), 0), Verdict::Lost);
        assert_eq!(rules.judge(2, &packet(1, 1, 2), 0), Verdict::Arrives(1, AT_ONCE));
        assert_eq!(rules.judge(1, &packet(3, 1, 2), 0), Verdict::Arrives(3, AT_ONCE));
    }

    #[test]
    fn chance_decides_what_is_lost_and_the_rest_is_late() {
        let mut rules = Rules::default();
        let delay = Duration::from_millis(80);
        rules.set_both(1, 2, Trouble { cut: false, lost_of_1000: 100, delay });
        assert_eq!(rules.judge(2, &packet(1, 1, 2), 5_099), Verdict::Lost);
        assert_eq!(rules.judge(2, &packet(1, 1, 2), 5_100), Verdict::Arrives(1, delay));
    }

    #[test]
    fn one_way_bars_the_connections_that_one_of_them_opens_in_both_directions() {
        let mut rules = Rules::default();
        rules.set_one_way(1, 2);
        assert_eq!(rules.judge(1, &packet(2, 40_000, 9093), 0), Verdict::Lost);
        assert_eq!(rules.judge(2, &packet(1, 9093, 40_000), 0), Verdict::Lost);
        assert_eq!(rules.judge(2, &packet(1, 40_000, 9093), 0), Verdict::Arrives(1, AT_ONCE));
        assert_eq!(rules.judge(1, &packet(2, 9093, 40_000), 0), Verdict::Arrives(2, AT_ONCE));
    }

    #[test]
    fn what_is_no_packet_of_ours_is_lost() {
        let mut foreign = packet(2, 1, 2);
        foreign[16] = 192;
        for bytes in [&b""[..], &[0x60; 40], &foreign, &packet(2, 1, 2)[..19]] {
            assert_eq!(Rules::default().judge(1, bytes, 0), Verdict::Lost);
        }
    }
}
