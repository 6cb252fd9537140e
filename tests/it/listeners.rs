//! Several listeners: a client is told the address that belongs to the one it came in by.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use compat_tests::broker::{free_ports, is_kafka};
use compat_tests::requests::{METADATA_VERSION, metadata};
use compat_tests::{BrokerOptions, Connection};

use crate::harness::Scene;

fn advertised_to(connection: &mut Connection) -> (String, i32) {
    let response = connection.call(METADATA_VERSION, &metadata(&[], false));
    (response.brokers[0].host.to_string(), response.brokers[0].port)
}

#[test]
fn each_listener_advertises_its_own_name() {
    if is_kafka() {
        return;
    }
    let [second] = free_ports().expect("a free port");
    let scene = Scene::start_with(|options: BrokerOptions| {
        let listeners =
            format!("INSIDE://127.0.0.1:{},OUTSIDE://127.0.0.1:{second}", options.port());
        options
            .with("listeners", &listeners)
            .with("advertised.listeners", "INSIDE://inside.test:9092,OUTSIDE://outside.test:19092")
            .with("listener.security.protocol.map", "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT")
            .with("inter.broker.listener.name", "INSIDE")
    });
    let mut inside = scene.broker.connect();
    assert_eq!(advertised_to(&mut inside), ("inside.test".to_owned(), 9092));
    let outside = SocketAddr::from((Ipv4Addr::LOCALHOST, second));
    let mut outside = Connection::open(outside).expect("connected");
    assert_eq!(advertised_to(&mut outside), ("outside.test".to_owned(), 19092));
}

#[test]
fn a_listener_on_every_address_never_advertises_a_wildcard() {
    if is_kafka() {
        return;
    }
    for host in ["", "0.0.0.0", "[::]"] {
        let scene = Scene::start_with(|options| {
            let listeners = format!("PLAINTEXT://{host}:{}", options.port());
            options.with("listeners", &listeners)
        });
        let (advertised, port) = advertised_to(&mut scene.broker.connect());
        assert!(!["", "0.0.0.0", "::", "[::]"].contains(&advertised.as_str()), "{host:?}");
        assert_eq!(port, i32::from(scene.broker.address().port()));
    }
}

#[test]
fn the_default_listens_on_both_families() {
    if is_kafka() {
        return;
    }
    let scene = Scene::start_with(|options| {
        let listeners = format!("PLAINTEXT://:{}", options.port());
        options.with("listeners", &listeners)
    });
    let v6 = SocketAddr::from((Ipv6Addr::LOCALHOST, scene.broker.address().port()));
    let has_v6 = std::net::TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_ok();
    advertised_to(&mut scene.broker.connect());
    if has_v6 {
        advertised_to(&mut Connection::open(v6).expect("connected over IPv6"));
    } else {
        println!("skipped: this machine has no IPv6 loopback");
    }
}
