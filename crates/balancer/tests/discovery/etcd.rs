//! Keys of a real etcd.

use std::net::SocketAddr;
use std::process::Command;

use balancer::Discovery;
use balancer::discovery::etcd_client::{Client, PutOptions, Txn, TxnOp};
use balancer::discovery::{Etcd, EtcdError};
use tokio::time::timeout;

use crate::folder::Folder;
use crate::observed::{Observed, members};
use crate::server::{Server, free_port, is_installed, started};
use crate::support::{PATIENCE, text, until_pushed};

/// One etcd, a cluster of its own.
pub(crate) struct Store {
    /// Before the folder, which goes after it.
    server: Option<Server>,
    folder: Folder,
    client: SocketAddr,
    peer: SocketAddr,
}

impl Store {
    /// `None` if there is no etcd.
    pub(crate) fn start(test: &str) -> Option<Self> {
        if !is_installed("etcd", "etcd-server") {
            return None;
        }
        Some(started(|| {
            let mut store = Self {
                folder: Folder::new(test),
                client: free_port(),
                peer: free_port(),
                server: None,
            };
            store.run()?;
            Ok(store)
        }))
    }

    /// Runs it on the data that it had, if any.
    pub(crate) fn run(&mut self) -> Result<(), String> {
        let mut command = Command::new("etcd");
        let peer = format!("http://{}", self.peer);
        command
            .args(["--logger=zap", "--name=one"])
            .arg(format!("--data-dir={}", self.folder.file("data").display()))
            .arg(format!("--listen-client-urls={}", self.url()))
            .arg(format!("--advertise-client-urls={}", self.url()))
            .arg(format!("--listen-peer-urls={peer}"))
            .arg(format!("--initial-advertise-peer-urls={peer}"))
            .arg(format!("--initial-cluster=one={peer}"));
        self.server = Some(Server::start(&mut command, "serving client traffic")?);
        Ok(())
    }

    /// Kills it, as a machine that fails would.
    pub(crate) fn kill(&mut self) {
        self.server = None;
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.client)
    }

    pub(crate) async fn client(&self) -> Client {
        Client::connect([self.url()], None).await.unwrap()
    }

    async fn source(&self) -> Etcd {
        Etcd::connect(&[self.url()], "/pool/").await.unwrap()
    }
}

fn value(port: u16) -> String {
    format!("{{\"addr\": \"127.0.0.1:{port}\"}}")
}

#[tokio::test]
async fn every_change_is_told() {
    let Some(store) = Store::start("etcd-changes") else {
        return;
    };
    let mut client = store.client().await;
    client.put("/pool", value(8), None).await.unwrap();
    client.put("/pool/b", value(2), None).await.unwrap();
    client.put("/pool0", value(9), None).await.unwrap();
    let source = store.source().await;
    until_pushed(&source, "127.0.0.1:2 1 0").await;
    client.put("/pool/a", value(1), None).await.unwrap();
    until_pushed(&source, "127.0.0.1:1 1 0, 127.0.0.1:2 1 0").await;
    let heavy = r#"{"addr": "127.0.0.1:1", "weight": 7, "tier": 1}"#;
    client.put("/pool/a", heavy, None).await.unwrap();
    until_pushed(&source, "127.0.0.1:1 7 1, 127.0.0.1:2 1 0").await;
    let both = Txn::new().and_then([
        TxnOp::delete("/pool/a", None),
        TxnOp::put("/pool/c", value(3), None),
    ]);
    client.txn(both).await.unwrap();
    until_pushed(&source, "127.0.0.1:2 1 0, 127.0.0.1:3 1 0").await;
    client.delete("/pool/b", None).await.unwrap();
    client.delete("/pool/c", None).await.unwrap();
    until_pushed(&source, "").await;
}

#[tokio::test]
async fn an_expired_lease_takes_its_backend_along() {
    let Some(store) = Store::start("etcd-lease") else {
        return;
    };
    let mut client = store.client().await;
    let lease = client.lease_grant(1, None).await.unwrap().id();
    let leased = Some(PutOptions::new().with_lease(lease));
    client.put("/pool/a", value(1), leased).await.unwrap();
    client.put("/pool/b", value(2), None).await.unwrap();
    let source = store.source().await;
    until_pushed(&source, "127.0.0.1:1 1 0, 127.0.0.1:2 1 0").await;
    until_pushed(&source, "127.0.0.1:2 1 0").await;
}

#[tokio::test]
async fn a_value_that_is_no_backend_is_named() {
    let Some(store) = Store::start("etcd-invalid") else {
        return;
    };
    let mut client = store.client().await;
    let source = store.source().await;
    for (wrong, expected) in [
        ("", "/pool/a:1:0: EOF while parsing a value"),
        (
            r#"{"addr": "127.0.0.1:1", "wieght": 2}"#,
            "/pool/a:1:32: wieght: unknown field `wieght`, expected one of `addr`, `weight`, \
             `tier`, `max_in_flight`, `max_fails`, `fail_timeout`, `ring_name`",
        ),
    ] {
        client.put("/pool/a", wrong, None).await.unwrap();
        until_pushed(&source, &format!("error: {expected}")).await;
        client.put("/pool/a", value(1), None).await.unwrap();
        until_pushed(&source, "127.0.0.1:1 1 0").await;
    }
    let nothing = Etcd::connect(&[store.url()], "").await;
    assert!(matches!(nothing, Err(EtcdError::EmptyPrefix)));
    let nowhere = Etcd::connect::<&str>(&[], "/pool/").await;
    assert!(matches!(nowhere, Err(EtcdError::Client(_))));
}

#[tokio::test]
async fn history_that_was_compacted_away_is_read_afresh() {
    let Some(store) = Store::start("etcd-compaction") else {
        return;
    };
    let mut client = store.client().await;
    client.put("/pool/a", value(1), None).await.unwrap();
    let source = store.source().await;
    assert_eq!(text(&source.discover().await), "127.0.0.1:1 1 0");
    // While nobody watches, more happens than will be remembered.
    client.delete("/pool/a", None).await.unwrap();
    let put = client.put("/pool/b", value(2), None).await.unwrap();
    let now = put.header().unwrap().revision();
    client.compact(now, None).await.unwrap();
    timeout(PATIENCE, source.changed()).await.unwrap();
    assert_eq!(text(&source.discover().await), "127.0.0.1:2 1 0");
    // From there on it watches again.
    client.put("/pool/b", value(3), None).await.unwrap();
    timeout(PATIENCE, source.changed()).await.unwrap();
    assert_eq!(text(&source.discover().await), "127.0.0.1:3 1 0");
}

#[tokio::test]
async fn many_keys_are_read_page_by_page() {
    let Some(store) = Store::start("etcd-pages") else {
        return;
    };
    let mut client = store.client().await;
    for chunk in (0..2500u16).collect::<Vec<_>>().chunks(100) {
        let put = |n: &u16| TxnOp::put(format!("/pool/{n}"), value(n + 1), None);
        let ops: Vec<_> = chunk.iter().map(put).collect();
        client.txn(Txn::new().and_then(ops)).await.unwrap();
    }
    let source = store.source().await;
    let found = source.discover().await.unwrap();
    let mut ports: Vec<_> = found
        .iter()
        .map(|b| b.addr.as_inet().unwrap().port())
        .collect();
    ports.sort_unstable();
    assert_eq!(ports, (1..=2500).collect::<Vec<_>>());

    client.delete("/pool/7", None).await.unwrap();
    timeout(PATIENCE, source.changed()).await.unwrap();
    assert_eq!(source.discover().await.unwrap().len(), 2499);
}

#[tokio::test]
async fn an_etcd_that_is_killed_costs_no_backend_and_is_followed_again() {
    let Some(mut store) = Store::start("etcd-killed") else {
        return;
    };
    let mut client = store.client().await;
    client.put("/pool/a", value(1), None).await.unwrap();
    let source = Observed::new(store.source().await);
    let (balancer, _running) = source.start();
    source.until_members(&balancer, "127.0.0.1:1").await;
    client.put("/pool/b", value(2), None).await.unwrap();
    source
        .until_members(&balancer, "127.0.0.1:1 127.0.0.1:2")
        .await;

    store.kill();
    source
        .until(&balancer, |balancer| balancer.status().failed_updates > 0)
        .await;
    assert_eq!(members(&balancer), "127.0.0.1:1 127.0.0.1:2");
    assert!(balancer.select(b"").is_some());
    assert!(balancer.status().last_error.is_some());

    store.run().unwrap();
    store.client().await.delete("/pool/a", None).await.unwrap();
    source.until_members(&balancer, "127.0.0.1:2").await;
    assert!(balancer.status().last_error.is_none());
    let client = &mut store.client().await;
    client.put("/pool/c", value(3), None).await.unwrap();
    source
        .until_members(&balancer, "127.0.0.1:2 127.0.0.1:3")
        .await;
}
