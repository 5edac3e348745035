//! One member of a fleet: a balancer with a ring over the backends that are registered in an etcd.
//!
//! ```text
//! cargo run --example fleet_member --features etcd -- --etcd http://127.0.0.1:2379 --prefix /pool/
//! ```
//!
//! It tells of every change on standard output, one line of JSON each: the members with their
//! weights, the fingerprint of the ring, which members that serve the same ring have in common, and
//! how many of `--keys` sample keys (`key-0`, `key-1` and so on) moved from whom to whom. A line on
//! standard input asks for the same without a change; the end of the input ends it.

use std::collections::BTreeMap;
use std::error::Error;
use std::io::Write;
use std::sync::Arc;

use balancer::discovery::Etcd;
use balancer::selection::Consistent;
use balancer::{Address, LoadBalancer};
use lexopt::Arg::Long;
use lexopt::ValueExt;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::sync::oneshot;

#[tokio::main]
#[expect(
    clippy::disallowed_methods,
    reason = "the program, and not the library, decides where its service runs"
)]
async fn main() -> Result<(), Box<dyn Error>> {
    let args = Args::parse(lexopt::Parser::from_env())?;
    let source = Etcd::connect(&args.endpoints, args.prefix).await?;
    let balancer = Arc::new(LoadBalancer::<Consistent>::new(source)?);
    let (stop, stopped) = oneshot::channel::<()>();
    let service = tokio::spawn(Arc::clone(&balancer).run(async { drop(stopped.await) }));

    let mut requests = BufReader::new(tokio::io::stdin()).lines();
    let mut owners = Vec::new();
    let mut seen = 0;
    loop {
        tokio::select! {
            generation = balancer.generation_after(seen) => {
                seen = generation;
                let before = std::mem::replace(&mut owners, owners_of(&balancer, args.keys));
                print(&report(&balancer, "changed", moves(&before, &owners)))?;
            }
            request = requests.next_line() => match request? {
                Some(_) => print(&report(&balancer, "asked", json!([])))?,
                None => break,
            },
        }
    }
    drop(stop);
    Ok(service.await?)
}

struct Args {
    endpoints: Vec<String>,
    prefix: String,
    keys: usize,
}

impl Args {
    fn parse(mut arguments: lexopt::Parser) -> Result<Self, lexopt::Error> {
        let mut args = Self {
            endpoints: Vec::new(),
            prefix: "/balancer/".to_owned(),
            keys: 10_000,
        };
        while let Some(argument) = arguments.next()? {
            match argument {
                Long("etcd") => args.endpoints.push(arguments.value()?.string()?),
                Long("prefix") => args.prefix = arguments.value()?.string()?,
                Long("keys") => args.keys = arguments.value()?.parse()?,
                _ => return Err(argument.unexpected()),
            }
        }
        Ok(args)
    }
}

/// The backend of each sample key.
fn owners_of(balancer: &LoadBalancer<Consistent>, keys: usize) -> Vec<Option<Address>> {
    let owner = |key| {
        let key = format!("key-{key}");
        balancer.peek(key.as_bytes(), |backend| backend.addr.clone())
    };
    (0..keys).map(owner).collect()
}

/// How many keys moved from whom to whom: `[from, to, keys]`, in order.
fn moves(before: &[Option<Address>], after: &[Option<Address>]) -> Value {
    let mut moves = BTreeMap::<_, usize>::new();
    for (key, to) in after.iter().enumerate() {
        let from = before.get(key).unwrap_or(&None);
        if from != to {
            *moves.entry((from, to)).or_default() += 1;
        }
    }
    let text = |addr: &Option<Address>| addr.as_ref().map(ToString::to_string);
    moves
        .into_iter()
        .map(|((from, to), keys)| json!([text(from), text(to), keys]))
        .collect()
}

fn report(balancer: &LoadBalancer<Consistent>, event: &str, moved: Value) -> Value {
    let status = balancer.status();
    let members: BTreeMap<_, _> = status
        .backends
        .iter()
        .map(|backend| (backend.addr.to_string(), backend.weight))
        .collect();
    let tiers = balancer.tiers();
    let selectors = tiers.iter().flat_map(|tier| &tier.selectors);
    let fingerprints: Vec<_> = selectors
        .map(|selector| format!("{:016x}", selector.ring().fingerprint()))
        .collect();
    json!({
        "event": event,
        "generation": status.generation,
        "members": members,
        "fingerprints": fingerprints,
        "moved": moved,
        "failed_updates": status.failed_updates,
        "last_error": status.last_error.map(|error| match error.source() {
            Some(source) => format!("{error}: {source}"),
            None => error.to_string(),
        }),
    })
}

fn print(report: &Value) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{report}")?;
    out.flush()
}
