//! nginx, request by request: retries, refusals, time, held requests and all.
//!
//! Three recordings hold decisions that we make otherwise on purpose, see [`DEVIATIONS`].

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::time::Duration;

use selection::ketama::{Bucket, Continuum};

use crate::Error;
use crate::nginx_balancer::{Answer, Balancer, Reply, Request, Try, Version};
use crate::scenario::Scenario;
use crate::table::Table;
use crate::upstream::Upstream;

pub(crate) fn scenarios() -> Result<Vec<Scenario>, Error> {
    let sequences = SEQUENCES
        .iter()
        .map(|name| sequence(name, name, Version::V1_31));
    let by_version = BY_VERSION
        .iter()
        .map(|&(name, of, version)| sequence(of, name, version));
    let deviations = DEVIATIONS.iter().map(|(name, replay)| replay(name));
    let held = HELD.iter().map(|name| held(name));
    let counted = COUNTED
        .iter()
        .flat_map(|&(name, most)| ["1.22.1", "1.31.5"].map(|version| counts(name, version, most)));
    let all = sequences.chain(by_version).chain(deviations);
    all.chain(held).chain(counted).collect()
}

/// One request after the other.
fn sequence(upstream: &str, name: &str, version: Version) -> Result<Scenario, Error> {
    let upstream = Upstream::read(upstream)?;
    let mut balancer = Balancer::new(&upstream, version)?;
    let mut scenario = Scenario::new("nginx", name);
    for row in Table::read(&format!("nginx/{name}.csv"))?.records() {
        let answer = serve(&mut balancer, &upstream, &row)?;
        let last = answer.statuses.last().copied().unwrap_or_default();
        let statuses: Vec<_> = answer.statuses.iter().map(u64::to_string).collect();
        let ours = |column: &str| match column {
            "upstream" => answer.tried.last().cloned(),
            "tried" => Some(answer.tried.join("|")),
            "tried_status" => Some(statuses.join("|")),
            "status" => Some(last.to_string()),
            _ => None,
        };
        compare(&mut scenario, &row, ours);
    }
    Ok(scenario)
}

/// The request of `row`, with the servers as they were then.
fn serve(balancer: &mut Balancer, upstream: &Upstream, row: &Row<'_>) -> Result<Answer, Error> {
    let refusing = row.get("refusing").copied().unwrap_or_default();
    let always = upstream.setting("refuse").as_array();
    let refuses = |address: &str| {
        let always = always.is_some_and(|all| all.iter().any(|refusing| refusing == address));
        always || refusing.split('|').any(|refusing| refusing == address)
    };
    let reply = |address: &str, n: usize| Reply {
        status: if refuses(address) {
            502
        } else {
            status(address)
        },
        header: millis(row, "header_ms", n),
        latency: millis(row, "response_ms", n),
    };
    Ok(balancer.serve(&key(row)?, second(row)?, reply))
}

/// The ring where nginx gives up after 20 points that are of no use and takes turns.
///
/// Ours walks on: the servers are those of the points in order, each once.
fn walked_on(name: &str) -> Result<Scenario, Error> {
    let upstream = Upstream::read(name)?;
    let mut balancer = Balancer::new(&upstream, Version::V1_31)?;
    let servers = upstream.servers()?;
    let buckets: Result<Vec<_>, Error> = servers
        .iter()
        .map(|(server, _)| {
            let weight = server.parameter("weight").unwrap_or("1").parse()?;
            Ok(Bucket::from_text(server.text.as_str(), weight))
        })
        .collect();
    let ring = Continuum::new(&buckets?)?;
    let points: Vec<_> = ring.points().collect();
    let mut scenario = Scenario::new("nginx", name);
    let mut otherwise = 0;
    for row in Table::read(&format!("nginx/{name}.csv"))?.records() {
        let first = points.partition_point(|&(point, _)| point < ring.hash(row["key"].as_bytes()));
        let mut walk = Vec::new();
        for &(_, bucket) in points[first..].iter().chain(&points[..first]) {
            let (server, _) = &servers[bucket];
            if !server.has("down") && !walk.contains(&server.text) {
                walk.push(server.text.clone());
                if status(&server.text) == 200 {
                    break;
                }
            }
        }
        let theirs: Vec<_> = row["tried"].split('|').map(str::to_owned).collect();
        otherwise += usize::from(theirs != walk);
        let ours = serve(&mut balancer, &upstream, &row)?.tried;
        scenario.decide(format!("row {}", row["n"]), walk, ours);
    }
    scenario.deviations.push(format!(
        "{otherwise} rows: theirs a turn after 20 points, ours the next server of the ring"
    ));
    Ok(scenario)
}

/// 66 seconds after the last request, where nginx 1.31.5 halves averages 66 times.
///
/// C leaves a shift by more than 63 undefined; theirs shifts by 2 and so sees no tie with the slow
/// third server, whose turn it would be. For ours, and later versions of theirs, nothing is left
/// of any average. The replay ends there, as the recording goes on with an answer of the first.
fn idle_for_long(name: &str) -> Result<Scenario, Error> {
    let upstream = Upstream::read(name)?;
    let mut balancer = Balancer::new(&upstream, Version::V1_31)?;
    let mut scenario = Scenario::new("nginx", name);
    let table = Table::read(&format!("nginx/{name}.csv"))?;
    for row in table.records().take(23) {
        let ours = serve(&mut balancer, &upstream, &row)?.tried;
        let theirs = vec![row["tried"].to_owned()];
        let intended = match row["n"] {
            "22" => vec!["127.0.0.3:9303".to_owned()],
            _ => theirs.clone(),
        };
        scenario.decide_as(format!("row {}", row["n"]), theirs, intended, ours);
    }
    Ok(scenario)
}

/// Requests that are held at the servers and answered later.
fn held(name: &str) -> Result<Scenario, Error> {
    let upstream = Upstream::read(name)?;
    let mut balancer = Balancer::new(&upstream, Version::V1_31)?;
    let mut scenario = Scenario::new("nginx", name);
    let mut held = HashMap::<&str, (Request, Try)>::new();
    let table = Table::read(&format!("nginx/{name}.csv"))?;
    for row in table.records() {
        let now = second(&row)?;
        let conns: Vec<_> = balancer.in_flight().iter().map(u32::to_string).collect();
        let conns = conns.join("|");
        if row["op"] == "close" {
            let (mut request, chosen) = held
                .remove(row["req"])
                .ok_or("a request that is not held ended")?;
            let reply = Reply {
                status: 200,
                header: millis(&row, "header_ms", 0),
                latency: millis(&row, "response_ms", 0),
            };
            balancer.end(&mut request, chosen, reply, now);
            continue;
        }
        let mut request = balancer.request();
        let chosen = balancer.choose(&mut request, &key(&row)?, now);
        let address = chosen
            .as_ref()
            .map_or("u", |chosen| chosen.address.as_str());
        let ours = |column: &str| match column {
            "upstream" | "tried" => Some(address.to_owned()),
            "status" => Some(if chosen.is_some() { "-" } else { "502" }.to_owned()),
            "conns" => Some(conns.clone()),
            _ => None,
        };
        compare(&mut scenario, &row, ours);
        if let Some(chosen) = chosen {
            held.insert(row["req"], (request, chosen));
        }
    }
    Ok(scenario)
}

/// Random choices: the counts of ours and of nginx's, by Pearson's test that both are draws of one
/// distribution.
///
/// `most` is the value that this statistic exceeds once in a million if they are.
fn counts(name: &str, version: &str, most: f64) -> Result<Scenario, Error> {
    let mut balancer = Balancer::new(&Upstream::read(name)?, Version::V1_31)?;
    let name = format!("{name}.nginx-{version}");
    let table = Table::read(&format!("nginx/{name}.csv"))?;
    let mut theirs = BTreeMap::<String, f64>::new();
    for [tried, count] in table.columns(["tried", "count"])? {
        theirs.insert(tried.to_owned(), count.parse()?);
    }
    let mut ours = BTreeMap::<String, f64>::new();
    let requests: f64 = theirs.values().sum();
    for _ in 0..REQUESTS {
        let answer = balancer.serve(b"", START, |address, _| Reply {
            status: status(address),
            header: Duration::ZERO,
            latency: Duration::ZERO,
        });
        *ours.entry(answer.tried.join("|")).or_default() += 1.0;
    }
    let scale = f64::from(REQUESTS) / requests;
    let statistic: f64 = theirs
        .iter()
        .map(|(tried, &theirs)| {
            let ours = ours.get(tried).copied().unwrap_or(0.0);
            // Of two samples that differ in size.
            (ours / scale.sqrt() - theirs * scale.sqrt()).powi(2) / (ours + theirs)
        })
        .sum();
    let mut scenario = Scenario::new("nginx", name);
    scenario.decide(
        "the lists of servers",
        theirs.keys().collect(),
        ours.keys().collect::<Vec<_>>(),
    );
    scenario.decide(
        format!("chi-square {statistic:.2} below {most}"),
        true,
        statistic < most,
    );
    Ok(scenario)
}

/// Counts the row: ours for the columns that we have an answer to, against the recorded ones.
fn compare(scenario: &mut Scenario, row: &Row<'_>, ours: impl Fn(&str) -> Option<String>) {
    let ours: BTreeMap<_, _> = row
        .keys()
        .filter_map(|&name| Some((name, ours(name)?)))
        .collect();
    let theirs: BTreeMap<_, _> = ours
        .keys()
        .map(|&name| (name, row[name].to_owned()))
        .collect();
    scenario.decide(format!("row {}", row["n"]), theirs, ours);
}

/// The bytes hashed: a key as it is, an address as its octets.
fn key(row: &Row<'_>) -> Result<Vec<u8>, Error> {
    Ok(match row.get("client") {
        Some(&"unix:") => vec![0; 3],
        Some(client) => match client.parse()? {
            IpAddr::V4(ip) => ip.octets().to_vec(),
            IpAddr::V6(ip) => ip.octets().to_vec(),
        },
        None => row
            .get("key")
            .map(|key| key.as_bytes().to_vec())
            .unwrap_or_default(),
    })
}

/// The second of a row on a clock that started long ago.
fn second(row: &Row<'_>) -> Result<u64, Error> {
    let second: u64 = row.get("t_s").map_or(Ok(0), |second| second.parse())?;
    Ok(START + second)
}

/// The `n`th entry of a list of milliseconds.
fn millis(row: &Row<'_>, column: &str, n: usize) -> Duration {
    let entry = row.get(column).and_then(|list| list.split('|').nth(n));
    Duration::from_millis(entry.and_then(|entry| entry.parse().ok()).unwrap_or(0))
}

/// What the server at `address` answered whenever it did.
fn status(address: &str) -> u64 {
    match address.rsplit_once(':') {
        Some((_, "9999")) => 502,
        Some((_, "9500")) => 500,
        Some((_, "9503")) => 503,
        Some((_, "9404")) => 404,
        _ => 200,
    }
}

/// One row by the names of its columns.
type Row<'a> = BTreeMap<&'a str, &'a str>;

/// Longer ago than any `fail_timeout`.
const START: u64 = 1_000_000;

/// As many as were recorded.
const REQUESTS: u32 = 20_000;

const SEQUENCES: &[&str] = &[
    "b3_chash_empty_key_rr",
    "b4_chash_dup_server_lines",
    "d2_chash_names",
    "e1_chash_one_down",
    "e2_chash_refuse_maxfails1",
    "e3_chash_refuse_maxfails0",
    "e7_chash_name_half_refuses",
    "e8_chash_all_refuse",
    "e9_chash_next_upstream_tries2",
    "e10_chash_backup_method_last",
    "e11_chash_one_primary_backup_method_last",
    "f_hash_w1234_10k",
    "f1_hash_uri",
    "f2_hash_refuse_maxfails0",
    "f3_hash_refuse_maxfails1",
    "f4_hash_down",
    "f6_hash_same_name_addrs",
    "f8_hash_one_primary_backup_method_last",
    "g_ip_hash_v4",
    "g2_ip_hash_v6",
    "g3_ip_hash_real_sources",
    "g4_ip_hash_refuse_maxfails0",
    "g6_ip_hash_20_tries_rr",
    "g7_ip_hash_unix_client",
    "h1_rr_1_1_1_1",
    "h1_rr_1_2_3_4",
    "h1_rr_3_1_1",
    "h1_rr_5_1_1",
    "h1_rr_100_1",
    "h2_rr_5_1_1_down",
    "h2b_rr_names",
    "h3_rr_backup_unused",
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
    "h4g_rr_next_off",
    "h4h_rr_next_tries2",
    "h4i_rr_http500_next",
    "h4j_rr_http500_not_next",
    "h4k_rr_http500_all",
    "h4l_rr_refuse_and_down_tries",
    "h5_rr_flap_effective_weight",
    "h6_rr_recovery_ft2_mf1",
    "h6b_rr_recovery_ft2_mf2",
    "h6c_rr_recovery_ft0",
    "h6d_chash_recovery_ft2",
    "h6e_least_conn_recovery_ft2",
    "i1_least_conn_seq_1_1_1",
    "i1_least_conn_seq_3_1_1",
    "i1b_least_conn_seq_refuse",
    "k1_least_time_header_5_50_205",
    "k1_least_time_last_byte_5_50_205",
    "k1b_least_time_header_ft1",
    "k2_least_time_header_slow_body",
    "k2_least_time_last_byte_slow_body",
    "k3b_least_time_equal_clusters",
    "k4_least_time_refuse_maxfails0",
    "k7_least_time_varying",
];

/// Recordings on which the two versions differ, with the upstream block of both.
const BY_VERSION: &[(&str, &str, Version)] = &[
    (
        "f9_hash_one_primary_backup_refuses_too.nginx-1.22.1",
        "f9_hash_one_primary_backup_refuses_too",
        Version::V1_22,
    ),
    (
        "f9_hash_one_primary_backup_refuses_too.nginx-1.31.5",
        "f9_hash_one_primary_backup_refuses_too",
        Version::V1_31,
    ),
];

type Replay = fn(&str) -> Result<Scenario, Error>;

/// Recordings of decisions that we make otherwise, each with the replay that states both answers.
const DEVIATIONS: &[(&str, Replay)] = &[
    ("e4_chash_20_steps_down_rr", walked_on),
    ("e5_chash_20_steps_refuse_rr", walked_on),
    ("k8_least_time_idle_66s", idle_for_long),
];

const HELD: &[&str] = &[
    "i2_least_conn_hold_1_1_1",
    "i2_least_conn_hold_1_2_3_4",
    "i2_least_conn_hold_3_1_1",
    "i4_least_conn_hold_backup",
    "i5_rr_hold_backup_maxconns",
    "k5b_least_time_header_hold_w111",
    "k6_least_time_last_byte_hold_w111",
    "l1_rr_max_conns",
    "l2_least_conn_max_conns",
    "l4_hash_max_conns",
    "l5_rr_single_max_conns",
];

/// With the quantile of the chi-square distribution at 1 - 10^-6: 2, 3 and 5 degrees of freedom.
const COUNTED: &[(&str, f64)] = &[
    ("j1_random", 30.66),
    ("j2_random_two", 30.66),
    ("j3_random_one_refuse", 35.89),
    ("j4_random_two_one_down", 27.63),
];
