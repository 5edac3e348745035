//! Three processes with a ring each, over one etcd.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use balancer::discovery::etcd_client::{Txn, TxnOp};
use ketama::{Bucket, Continuum};
use serde_json::{Value, json};

use crate::etcd::Store;
use crate::support::PATIENCE;

const KEYS: usize = 20_000;

/// The members of the pool and their weights, by the last figure of their addresses.
type Pool = BTreeMap<u8, u32>;

fn addr(n: u8) -> String {
    format!("127.0.0.{n}:80")
}

fn put(n: u8, weight: u32) -> TxnOp {
    let value = format!("{{\"addr\": \"{}\", \"weight\": {weight}}}", addr(n));
    TxnOp::put(format!("/pool/{n}"), value, None)
}

/// The ring over these members, made without a balancer.
fn ring(pool: &Pool) -> Continuum {
    let bucket = |(&n, &weight): (&u8, &u32)| Bucket::new(addr(n).parse().unwrap(), weight);
    Continuum::new(&pool.iter().map(bucket).collect::<Vec<_>>()).unwrap()
}

/// How many of the sample keys the change moves from whom to whom, key by key.
fn moved(before: &Continuum, after: &Continuum) -> Vec<(String, String, usize)> {
    let mut moves = BTreeMap::<_, usize>::new();
    for n in 0..KEYS {
        let key = format!("key-{n}");
        let owner = |ring: &Continuum| ring.node(key.as_bytes()).unwrap().text().to_owned();
        let (from, to) = (owner(before), owner(after));
        if from != to {
            *moves.entry((from, to)).or_default() += 1;
        }
    }
    let moves = moves.into_iter();
    moves.map(|((from, to), keys)| (from, to, keys)).collect()
}

/// A process of the example `fleet_member`.
struct Member {
    child: Child,
    requests: ChildStdin,
    reports: Receiver<Value>,
}

impl Member {
    fn start(store: &Store) -> Self {
        // Tests are in `deps`, beside the folder of the examples, which cargo builds with them.
        let test = std::env::current_exe().unwrap();
        let program = test
            .parent()
            .unwrap()
            .with_file_name("examples")
            .join("fleet_member");
        assert!(
            program.exists(),
            "cargo build --features etcd --example fleet_member"
        );
        let mut child = Command::new(program)
            .args(["--etcd", &store.url(), "--prefix", "/pool/"])
            .args(["--keys", &KEYS.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let requests = child.stdin.take().unwrap();
        let (sender, reports) = channel();
        thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                drop(sender.send(serde_json::from_str(&line).unwrap()));
            }
        });
        Self {
            child,
            requests,
            reports,
        }
    }

    fn next(&self) -> Value {
        self.reports.recv_timeout(PATIENCE).unwrap()
    }

    fn ask(&mut self) -> Value {
        writeln!(self.requests).unwrap();
        self.next()
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// The fleet, and the pool that it is to agree on.
struct Fleet {
    members: [Member; 3],
    pool: Pool,
}

impl Fleet {
    /// Gives backend `n` this weight, or removes it, and compares what each member reports of that
    /// with the ring before and the ring after.
    async fn change(&mut self, store: &Store, n: u8, weight: Option<u32>) {
        let before = ring(&self.pool);
        let op = match weight {
            Some(weight) => {
                self.pool.insert(n, weight);
                put(n, weight)
            }
            None => {
                self.pool.remove(&n);
                TxnOp::delete(format!("/pool/{n}"), None)
            }
        };
        let after = ring(&self.pool);
        let expected = moved(&before, &after);
        predicted(&before, &after, &expected);
        let mut client = store.client().await;
        client.txn(Txn::new().and_then([op])).await.unwrap();
        for member in &self.members {
            let report = member.next();
            agrees(&report, &self.pool);
            assert_eq!(report["event"], "changed");
            assert_eq!(report["moved"], json!(expected));
        }
    }
}

/// The report is of this pool, and of the ring over it.
fn agrees(report: &Value, pool: &Pool) {
    let members: BTreeMap<_, _> = pool.iter().map(|(&n, weight)| (addr(n), weight)).collect();
    assert_eq!(report["members"], json!(members));
    let fingerprint = format!("{:016x}", ring(pool).fingerprint());
    assert_eq!(report["fingerprints"], json!([fingerprint]));
}

/// Keys move between those that `diff` names and no others, in the numbers that it says.
fn predicted(before: &Continuum, after: &Continuum, moved: &[(String, String, usize)]) {
    let diff = before.diff(after);
    for (from, to, _) in moved {
        let is_named = diff
            .iter()
            .any(|part| part.from == Some(from.as_str()) && part.to == Some(to.as_str()));
        assert!(is_named, "{from} to {to}");
    }
    for part in &diff {
        let (from, to) = (part.from.unwrap(), part.to.unwrap());
        let found = moved.iter().find(|(f, t, _)| f == from && t == to);
        let found = found.map_or(0, |&(.., keys)| keys);
        // Binomial: chance goes beyond six standard deviations once in 5 * 10^8.
        let share = part.length as f64 / Continuum::CIRCLE as f64;
        let mean = share * KEYS as f64;
        let bound = 6.0 * (mean * (1.0 - share)).sqrt() + 0.5;
        assert!(
            (found as f64 - mean).abs() <= bound,
            "{from} to {to}: {found}, not {mean}"
        );
    }
}

#[tokio::test]
async fn three_processes_agree_after_every_change_and_over_a_restart_of_etcd() {
    let Some(mut store) = Store::start("fleet") else {
        return;
    };
    let pool = Pool::from([(1, 1), (2, 1), (3, 2)]);
    let all = pool.iter().map(|(&n, &weight)| put(n, weight));
    let all = Txn::new().and_then(all.collect::<Vec<_>>());
    store.client().await.txn(all).await.unwrap();
    let members = [(); 3].map(|()| Member::start(&store));
    for member in &members {
        agrees(&member.next(), &pool);
    }
    let mut fleet = Fleet { members, pool };
    fleet.change(&store, 4, Some(1)).await;
    fleet.change(&store, 1, None).await;
    fleet.change(&store, 2, Some(3)).await;

    store.kill();
    for member in &mut fleet.members {
        let report = loop {
            let report = member.ask();
            if report["failed_updates"] != 0 {
                break report;
            }
        };
        assert_eq!(report["event"], "asked", "nothing changed in between");
        assert_ne!(report["last_error"], Value::Null);
        agrees(&report, &fleet.pool);
    }
    store.run().unwrap();
    fleet.change(&store, 5, Some(2)).await;
    fleet.change(&store, 3, None).await;
}
