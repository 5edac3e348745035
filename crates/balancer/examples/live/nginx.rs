//! nginx: one process with every random upstream of a run, asked through one Unix socket.

pub(crate) mod backends;
pub(crate) mod client;
mod drive;
mod judge;
mod keys;
mod ours;
mod pools;
mod scenarios;
pub(crate) mod script;
pub(crate) mod upstream;

use std::fs;
use std::net::ToSocketAddrs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use balancer::Address;
use tokio::task::JoinSet;

use crate::Error;
use crate::args::Args;
use crate::namespace::Namespace;
use crate::nginx::backends::Backends;
use crate::nginx::client::Answer;
use crate::nginx::scenarios::{Needs, SCENARIOS, Scenario};
use crate::nginx::script::Pool;
use crate::nginx::upstream::SOCKET;
use crate::process::{self, Folder, command, said, unless_interrupted};
use crate::random::Random;
use crate::report::{Outcome, Place, Row, Tally};

/// Asks nginx whatever `args` let through.
pub(crate) fn run(args: &Args, folder: &Folder, namespace: Namespace) -> Result<Vec<Row>, Error> {
    let Some(about) = said("nginx", &["-V"]) else {
        return Ok(vec![row("all", "-", Outcome::Missing("nginx"))]);
    };
    let version = process::version(&about, "nginx/");
    if !about.contains("http_realip_module") {
        let what = "an nginx with the realip module";
        return Ok(vec![row("all", "-", Outcome::Missing(what))]);
    }
    let mut rows = Vec::new();
    let mut cases = Vec::new();
    for scenario in SCENARIOS.iter().filter(|s| args.wants(SYSTEM, s.name)) {
        if scenario.needs == Needs::Namespace && !namespace.is_own() {
            let why = "needs a network namespace of its own";
            rows.push(row(scenario.name, &version, Outcome::Skipped(why)));
            continue;
        }
        let pools = (0..scenario.pools).filter(|&pool| args.wants_pool(pool));
        cases.extend(pools.map(|pool| Case::new(args.seed, scenario, pool)));
    }
    if cases.is_empty() {
        return Ok(rows);
    }
    namespace.prepare(cases.iter().flat_map(|case| &case.pool.upstream.servers))?;
    names_resolve(&cases)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let asked = runtime.block_on(unless_interrupted(ask_all(folder.path(), cases)))?;
    rows.extend(judge_all(asked, &version)?);
    Ok(rows)
}

/// One pool of a scenario.
#[derive(Debug)]
struct Case {
    scenario: &'static Scenario,
    place: Place,
    pool: Pool,
}

/// What nginx answered, and between which moments.
#[derive(Debug)]
struct Asked {
    case: Case,
    theirs: Vec<Answer>,
    began: Instant,
    ended: Instant,
}

impl Case {
    fn new(seed: u64, scenario: &'static Scenario, pool: usize) -> Self {
        let place = Place {
            seed,
            system: SYSTEM,
            scenario: scenario.name,
            pool,
        };
        let mut made = (scenario.make)(&mut Random::new(seed, &place.stream()));
        made.upstream.name = format!("{}_{pool}", scenario.name);
        Self {
            scenario,
            place,
            pool: made,
        }
    }

    /// A script with beats may have to be repeated, on an upstream that has seen no request.
    fn copies(&self) -> Vec<Pool> {
        let mut copies = vec![self.pool.clone()];
        if self.pool.is_timed() {
            for copy in 1..COPIES {
                let mut pool = self.pool.clone();
                pool.upstream.name += &format!("_{copy}");
                copies.push(pool);
            }
        }
        copies
    }

    async fn ask(mut self, nginx: PathBuf, backends: Arc<Backends>) -> Result<Asked, Error> {
        let began = Instant::now();
        for pool in self.copies() {
            let answers = drive::answers(&pool, &nginx, &backends).await;
            let answers = answers.map_err(|error| format!("{}: {error}", self.place.stream()))?;
            if let Some(theirs) = answers {
                self.pool = pool;
                return Ok(Asked {
                    case: self,
                    theirs,
                    began,
                    ended: Instant::now(),
                });
            }
        }
        let stream = self.place.stream();
        Err(format!("{stream}: the machine stalls too often to tell which second it is").into())
    }
}

/// The resolver that nginx asks must know our names, and give their addresses in our order.
fn names_resolve(cases: &[Case]) -> Result<(), Error> {
    let servers = cases.iter().flat_map(|case| &case.pool.upstream.servers);
    for server in servers.filter(|server| server.text.contains(TEST_DOMAIN)) {
        let with_port = if server.text.contains(':') {
            server.text.clone()
        } else {
            format!("{}:80", server.text)
        };
        let found: Vec<Address> = with_port.to_socket_addrs()?.map(Into::into).collect();
        if found != server.addresses {
            let (text, wanted) = (&server.text, &server.addresses);
            return Err(format!("{text} resolves to {found:?}, not {wanted:?}").into());
        }
    }
    Ok(())
}

/// Starts nginx and asks everything: what has to wait for the clock all at once, and beside it
/// the rest, a few pools at a time. Pools have no state in common, neither here nor in nginx.
async fn ask_all(folder: &Path, cases: Vec<Case>) -> Result<Vec<Asked>, Error> {
    let pools: Vec<_> = cases.iter().flat_map(Case::copies).collect();
    let configuration = upstream::configuration(pools.iter().map(|pool| &pool.upstream));
    fs::write(folder.join("nginx.conf"), configuration)?;
    fs::create_dir(folder.join(keys::SOCKETS))?;
    let mut command = command("nginx");
    command
        .arg("-p")
        .arg(folder)
        .args(["-c", "nginx.conf", "-e", "nginx.log"]);
    let mut server = process::Server::start("nginx", &mut command, folder.join("nginx.out"))?;
    let nginx = folder.join(SOCKET);
    server.listens(&nginx).await?;
    let backends = Arc::new(Backends::default());
    let (timed, rest): (Vec<_>, Vec<_>) = cases.into_iter().partition(|c| c.pool.is_timed());
    let ask = |case: Case| case.ask(nginx.clone(), Arc::clone(&backends));
    let mut waiting: JoinSet<_> = timed.into_iter().map(ask).collect();
    let mut rest = rest.into_iter().map(ask);
    let mut busy: JoinSet<_> = rest.by_ref().take(AT_ONCE).collect();
    let mut asked = Vec::new();
    while let Some(done) = busy.join_next().await {
        asked.push(done??);
        rest.next().map(|next| busy.spawn(next));
    }
    while let Some(done) = waiting.join_next().await {
        asked.push(done??);
    }
    asked.sort_by_key(|asked| asked.case.place.pool);
    Ok(asked)
}

/// Asks ours, on a clock that stands still, and compares.
fn judge_all(asked: Vec<Asked>, version: &str) -> Result<Vec<Row>, Error> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()?;
    let mut rows = Vec::new();
    for scenario in SCENARIOS {
        let of: Vec<_> = asked
            .iter()
            .filter(|asked| asked.case.scenario.name == scenario.name)
            .collect();
        let (Some(began), Some(ended)) = (
            of.iter().map(|a| a.began).min(),
            of.iter().map(|a| a.ended).max(),
        ) else {
            continue;
        };
        let mut tally = Tally::default();
        for asked in of {
            let Case { place, pool, .. } = &asked.case;
            let ours = runtime.block_on(ours::answers(pool, &asked.theirs))?;
            tally.add(scenario.judge.tally(place, pool, &asked.theirs, &ours)?);
        }
        let took = ended - began;
        rows.push(row(scenario.name, version, Outcome::Asked { tally, took }));
    }
    Ok(rows)
}

fn row(scenario: &str, version: &str, result: Outcome) -> Row {
    Row {
        system: SYSTEM,
        version: version.to_owned(),
        scenario: scenario.to_owned(),
        result,
    }
}

pub(crate) const SYSTEM: &str = "nginx";

/// The names that no resolver outside knows.
pub(crate) const TEST_DOMAIN: &str = ".live.test";

/// Pools that are asked at the same time. nginx and we take turns on each; with several, neither
/// waits for the other.
const AT_ONCE: usize = 6;

/// Upstreams for one script with beats; each but the first is for when the machine stalled.
const COPIES: usize = 4;
