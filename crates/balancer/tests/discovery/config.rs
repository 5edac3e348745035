//! Sources that a config names, as one pool.

use std::sync::Arc;

use balancer::selection::Selector;
use balancer::{LoadBalancer, PoolConfig};
use tokio::time::timeout;

use crate::dns::NameServer;
use crate::etcd::Store;
use crate::support::{PATIENCE, Running};

/// The client of etcd is made with the first answer only, which may not cost it a change.
#[tokio::test]
async fn etcd_and_dns_are_one_pool() {
    let (Some(store), Some(names)) = (
        Store::start("config-etcd"),
        NameServer::start("config-dns", "127.0.0.7 a.test\n127.0.0.8 a.test\n", &[]),
    ) else {
        return;
    };
    let mut client = store.client().await;
    let value = |port: u16| format!("{{\"addr\": \"127.0.0.1:{port}\"}}");
    client.put("/pool/a", value(1), None).await.unwrap();
    let config = PoolConfig::from_toml(&format!(
        "
        algorithm = 'consistent'
        update_interval = '1h'
        backends = [{{addr = '10.0.0.1:80'}}]
        [[discovery]]
        etcd = {{endpoints = ['{}'], prefix = '/pool/'}}
        [[discovery]]
        [discovery.dns]
        host = 'a.test.'
        port = 8080
        servers = ['{}']
        min_ttl = '5m'
        weight = 3
        tier = 1
        max_in_flight = 9
        ring_name = 'a.test:8080'
        ",
        store.url(),
        names.addr,
    ));
    let balancer = LoadBalancer::<dyn Selector>::from_config(config.unwrap());
    let balancer = Arc::new(balancer.unwrap());
    let _running = Running::start(&balancer);
    let first = timeout(PATIENCE, balancer.generation_after(0));
    let first = first.await.unwrap();
    let members = || {
        let backends = balancer.status().backends.into_iter();
        let member = backends.map(|b| format!("{} {} {}", b.addr, b.weight, b.tier));
        member.collect::<Vec<_>>()
    };
    assert_eq!(
        members(),
        [
            "10.0.0.1:80 1 0",
            "127.0.0.1:1 1 0",
            "127.0.0.7:8080 3 1",
            "127.0.0.8:8080 3 1"
        ]
        .map(|member| member.to_owned())
    );
    let named = |tier: usize, name: &str| {
        let tiers = balancer.tiers();
        tiers[tier]
            .nodes
            .iter()
            .all(|node| node.ring_name() == Some(name))
    };
    assert!(named(1, "a.test:8080") && !named(0, "a.test:8080"));

    client.put("/pool/b", value(2), None).await.unwrap();
    timeout(PATIENCE, balancer.generation_after(first))
        .await
        .unwrap();
    assert_eq!(members()[2], "127.0.0.1:2 1 0");
}
