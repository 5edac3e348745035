//! twemproxy: the proxy itself, in front of sockets of ours that tell who they are.

mod memcached;
mod pool;

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tokio::io::{AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, UnixStream};

use crate::Error;
use crate::args::Args;
use crate::namespace::Namespace;
use crate::process::{self, Folder, command, said, unless_interrupted};
use crate::random::Random;
use crate::report::{Outcome, Place, Row, Tally};
use crate::twemproxy::memcached::{serve, value};
use crate::twemproxy::pool::{Pool, ketama, modula, tags};

/// Asks twemproxy whatever `args` let through.
pub(crate) fn run(args: &Args, folder: &Folder, _: Namespace) -> Result<Vec<Row>, Error> {
    let Some(about) = said("nutcracker", &["-V"]) else {
        return Ok(vec![row("-", "all", Outcome::Missing("nutcracker"))]);
    };
    let version = process::version(&about, "nutcracker-");
    let mut pools = Vec::new();
    for &(scenario, make) in SCENARIOS
        .iter()
        .filter(|(name, _)| args.wants(SYSTEM, name))
    {
        for pool in (0..POOLS).filter(|&pool| args.wants_pool(pool)) {
            let place = Place {
                seed: args.seed,
                system: SYSTEM,
                scenario,
                pool,
            };
            let made = make(&mut Random::new(args.seed, &place.stream()));
            pools.push((place, made));
        }
    }
    if pools.is_empty() {
        return Ok(Vec::new());
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(unless_interrupted(compare(folder.path(), &version, &pools)))
}

/// Starts the servers and the proxy, asks, and compares.
async fn compare(folder: &Path, version: &str, pools: &[(Place, Pool)]) -> Result<Vec<Row>, Error> {
    let mut configuration = String::new();
    let mut listening = HashSet::new();
    for (place, pool) in pools {
        for server in &pool.servers {
            if listening.insert(server.address) {
                serve(server.address).await?;
            }
        }
        configuration +=
            &pool.configuration(&name(place), &socket(folder, place).to_string_lossy());
    }
    fs::write(folder.join("nutcracker.yml"), configuration)?;
    let mut command = command("nutcracker");
    command.current_dir(folder);
    command.args([
        "-c",
        "nutcracker.yml",
        "-p",
        "nutcracker.pid",
        "-o",
        "nutcracker.log",
    ]);
    command.args(["-a", "127.0.0.1", "-s", &free_port().await?]);
    let log = folder.join("nutcracker.log");
    let mut proxy = process::Server::start("nutcracker", &mut command, log)?;
    let mut rows = Vec::new();
    for &(scenario, _) in SCENARIOS {
        let began = Instant::now();
        let mut tally = Tally::default();
        for (place, pool) in pools.iter().filter(|(place, _)| place.scenario == scenario) {
            let socket = socket(folder, place);
            proxy.listens(&socket).await?;
            ask(&socket, place, pool, &mut tally).await?;
        }
        if tally.decisions > 0 {
            let took = began.elapsed();
            rows.push(row(version, scenario, Outcome::Asked { tally, took }));
        }
    }
    Ok(rows)
}

/// Asks for every key of a pool, and compares.
async fn ask(socket: &Path, place: &Place, pool: &Pool, tally: &mut Tally) -> Result<(), Error> {
    let ours = pool.ours()?;
    let mut stream = UnixStream::connect(socket).await?;
    let (read, mut write) = stream.split();
    let mut read = BufReader::new(read);
    for keys in pool.keys.chunks(WINDOW) {
        let gets = keys.iter().map(|key| [b"get ", &key[..], b"\r\n"].concat());
        write.write_all(&gets.collect::<Vec<_>>().concat()).await?;
        for key in keys {
            let theirs = tokio::time::timeout(PATIENCE, value(&mut read)).await??;
            let ours = ours.server(key).map(|server| server.address.to_string());
            tally.decide(ours.as_deref() == Some(&theirs), || {
                let what = format!("key \"{}\"", key.escape_ascii());
                let pool = pool.configuration(&name(place), "SOCKET");
                place.difference(what, theirs, format!("{ours:?}"), &pool)
            });
        }
    }
    Ok(())
}

fn name(place: &Place) -> String {
    format!("{}_{}", place.scenario, place.pool)
}

fn socket(folder: &Path, place: &Place) -> PathBuf {
    folder.join(format!("{}.sock", name(place)))
}

/// For the statistics that twemproxy will not do without.
async fn free_port() -> Result<String, Error> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    Ok(listener.local_addr()?.port().to_string())
}

fn row(version: &str, scenario: &str, result: Outcome) -> Row {
    Row {
        system: SYSTEM,
        version: version.to_owned(),
        scenario: scenario.to_owned(),
        result,
    }
}

pub(crate) const SYSTEM: &str = "twemproxy";

const POOLS: usize = 14;

/// Requests under way on one connection.
const WINDOW: usize = 20;

/// Far beyond anything but a fault.
const PATIENCE: Duration = Duration::from_secs(20);

type Make = fn(&mut Random) -> Pool;

const SCENARIOS: &[(&str, Make)] = &[("ketama", ketama), ("modula", modula), ("tags", tags)];
