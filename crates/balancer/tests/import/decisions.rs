//! The decisions of a real nginx, made again by the pools that its configuration is imported to.

use std::fs;
use std::time::Duration;

use balancer::selection::{FailureKind, Outcome, Selector};
use balancer::{LoadBalancer, PoolConfig};
use serde_json::Value;

use crate::nginx::server::Target;
use crate::{nginx, pool};

/// Recordings with one choice a row.
const CHOICES: &[&str] = &[
    "a_chash_uri_9x443_w100",
    "a3_chash_ring_collisions",
    "a4_chash_ring_collisions_reversed",
    "b_chash_w1234_10k",
    "b3_chash_empty_key_rr",
    "b5_chash_single_server",
    "c_chash_ipv6",
    "d_chash_unix",
    "d2_chash_names",
    "f_hash_w1234_10k",
    "f6_hash_same_name_addrs",
    "g_ip_hash_v4",
    "g2_ip_hash_v6",
    "h1_rr_100_1",
    "h1_rr_1_1_1_1",
    "h1_rr_1_2_3_4",
    "h1_rr_3_1_1",
    "h1_rr_5_1_1",
    "h2_rr_5_1_1_down",
    "h2b_rr_names",
    "h3_rr_backup_unused",
    "i1_least_conn_seq_1_1_1",
    "i1_least_conn_seq_3_1_1",
];

/// Recordings with failures: all servers that were tried, one after the other.
const TRIES: &[&str] = &[
    "e1_chash_one_down",
    "e2_chash_refuse_maxfails1",
    "e3_chash_refuse_maxfails0",
    "e8_chash_all_refuse",
    "f2_hash_refuse_maxfails0",
    "f3_hash_refuse_maxfails1",
    "f4_hash_down",
    "g4_ip_hash_refuse_maxfails0",
    "h3b_rr_backup_primaries_refuse_mf1",
    "h3c_rr_backup_primaries_refuse_mf0",
    "h3d_rr_backup_primaries_down",
    "h3e_rr_backup_single_primary_refuse",
    "h4_rr_refuse_maxfails1",
    "h4_rr_refuse_maxfails2",
    "h4_rr_refuse_maxfails3",
    "h4c_rr_refuse_maxfails0",
    "h4d_rr_single_refuse",
    "h4e_rr_all_refuse",
    "h4f_rr_all_down",
    "i1b_least_conn_seq_refuse",
];

/// Time stands still: nothing recovers that did not recover while nginx was recorded.
#[tokio::test(start_paused = true)]
async fn imported_pools_choose_as_nginx_chose() {
    let mut rows = 0;
    for name in CHOICES {
        let scenario = Scenario::read(name);
        let balancer = scenario.balancer().await;
        for row in &scenario.rows {
            let pick = balancer.select(&row.key).unwrap();
            assert_eq!(pick.addr.to_string(), row.tried[0], "{name}, row {}", row.n);
            pick.complete(Outcome::success(Duration::from_millis(1)));
            rows += 1;
        }
    }
    assert_eq!(rows, CHOICE_ROWS);
}

#[tokio::test(start_paused = true)]
async fn imported_pools_fail_over_as_nginx_failed_over() {
    let mut rows = 0;
    for name in TRIES {
        let scenario = Scenario::read(name);
        let balancer = scenario.balancer().await;
        for row in &scenario.rows {
            let mut tried = Vec::new();
            for pick in balancer.attempts(&row.key) {
                let addr = pick.addr.to_string();
                let refuses = addr.ends_with(REFUSES);
                tried.push(addr);
                if !refuses {
                    pick.complete(Outcome::success(Duration::from_millis(1)));
                    break;
                }
                pick.complete(Outcome::Failure(FailureKind::Connect));
            }
            assert_eq!(tried, row.tried, "{name}, row {}", row.n);
            rows += 1;
        }
    }
    assert_eq!(rows, TRY_ROWS);
}

/// What nginx was recorded with, and how it chose.
struct Scenario {
    toml: String,
    rows: Vec<Row>,
}

struct Row {
    n: String,
    key: Vec<u8>,
    tried: Vec<String>,
}

impl Scenario {
    fn read(name: &str) -> Self {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../test-data/nginx");
        let text = |path: &str| fs::read_to_string(format!("{folder}/{path}")).unwrap();
        let recording: Value = serde_json::from_str(&text(&format!("conf/{name}.json"))).unwrap();
        let strings = |value: &Value| -> Vec<String> {
            let values = value.as_array().into_iter().flatten();
            values
                .map(|value| value.as_str().unwrap().to_owned())
                .collect()
        };
        let mut upstreams = nginx::parse(&text(&format!("conf/{name}.conf"))).unwrap();
        resolve(&mut upstreams[0], |host| strings(&recording["names"][host]));
        let toml = pool::toml(&upstreams[0]).unwrap();
        let table = text(&format!("{name}.csv"));
        let (header, lines) = table.split_once('\n').unwrap();
        let header: Vec<_> = header.split(',').collect();
        let rows = lines.lines().map(|line| Row::read(&header, line));
        Self {
            toml,
            rows: rows.collect(),
        }
    }

    async fn balancer(&self) -> LoadBalancer<dyn Selector> {
        let config = PoolConfig::from_toml(&self.toml).unwrap();
        let balancer = LoadBalancer::<dyn Selector>::from_config(config).unwrap();
        balancer.update().await.unwrap();
        balancer
    }
}

/// As `--resolve` does, with the addresses that nginx had.
fn resolve(upstream: &mut nginx::Upstream, addresses: impl Fn(&str) -> Vec<String>) {
    let servers = std::mem::take(&mut upstream.servers);
    upstream.servers = servers
        .into_iter()
        .flat_map(|server| {
            let Target::Host { name, port } = &server.target else {
                return vec![server];
            };
            let address = |ip: String| {
                let mut server = server.clone();
                server.target = Target::Inet(format!("{ip}:{port}").parse().unwrap());
                server
            };
            addresses(name).into_iter().map(address).collect()
        })
        .collect();
}

impl Row {
    fn read(header: &[&str], line: &str) -> Self {
        let cells: Vec<_> = line.split(',').collect();
        let cell = |name: &str| {
            let column = header.iter().position(|column| *column == name)?;
            cells.get(column).copied()
        };
        let key = match cell("client") {
            Some("unix:") => vec![0; 3],
            Some(client) => octets(client),
            None => cell("key").unwrap_or_default().as_bytes().to_vec(),
        };
        let tried = cell("tried").or_else(|| cell("upstream")).unwrap();
        let tried = tried.split('|').filter(|server| *server != "u");
        Self {
            n: cell("n").unwrap().to_owned(),
            key,
            tried: tried
                .map(|server| server.replace("UNIX:", "unix:"))
                .collect(),
        }
    }
}

fn octets(client: &str) -> Vec<u8> {
    match client.parse().unwrap() {
        std::net::IpAddr::V4(ip) => ip.octets().to_vec(),
        std::net::IpAddr::V6(ip) => ip.octets().to_vec(),
    }
}

/// The port that refused connections while nginx was recorded.
const REFUSES: &str = ":9999";

/// So that a recording that is cut short is noticed.
const CHOICE_ROWS: usize = 32_081;
const TRY_ROWS: usize = 13_827;
