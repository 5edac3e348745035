//! One act: what happens to the pool while the clients keep asking.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use balancer::{BackendStatus, Condition};
use selection::Build;
use tokio::time::{sleep, sleep_until, timeout};

use crate::Failure;
use crate::args::{Algorithm, Args};
use crate::backend::Backend;
use crate::load::Load;
use crate::moves::{self, PHASES, Phase, STAGES, Violation};
use crate::pool::{GLANCE, PATIENCE, Pool};
use crate::proxy::Proxy;
use crate::record::Record;
use crate::report::{Columns, Line, Report};
use crate::tell::Teller;

/// How one act is to be run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) algorithm: Algorithm,
    pub(crate) backends: usize,
    pub(crate) keys: usize,
    /// The time of one phase and the change that leads to it, or longer if a machine needs it.
    pub(crate) phase: Duration,
}

impl Plan {
    pub(crate) fn new(args: &Args, algorithm: Algorithm) -> Self {
        let phases = args.algorithms.len() * PHASES.len();
        Self {
            algorithm,
            backends: args.backends,
            keys: KEYS,
            phase: Duration::from_secs(args.seconds).div_f64(phases as f64),
        }
    }
}

/// The five phases, one after the other.
pub(crate) async fn act<S: Build>(plan: &Plan, teller: &mut Teller) -> Result<Report, Failure> {
    let mut act = Act::<S>::open(*plan, teller).await?;
    act.settle().await?;
    act.one_dies().await?;
    act.settle().await?;
    act.it_comes_back().await?;
    act.settle().await?;
    act.one_is_added().await?;
    act.settle().await?;
    act.one_is_drained().await?;
    act.settle().await?;
    act.close().await
}

/// An act under way.
struct Act<'a, S: Build> {
    plan: Plan,
    teller: &'a mut Teller,
    begun: Instant,
    /// When the present phase is to end.
    phase_end: Instant,
    pool: Pool<S>,
    proxy: Proxy,
    record: Arc<Record>,
    load: Load,
    /// The backends that may answer, a bit each.
    up: u64,
    /// The same, as it was when each of the phases so far began.
    up_by_phase: Vec<u64>,
}

impl<'a, S: Build> Act<'a, S> {
    async fn open(plan: Plan, teller: &'a mut Teller) -> Result<Self, Failure> {
        teller.act(plan.algorithm)?;
        let check_interval = (plan.phase / 8).clamp(CHECK_INTERVAL / 5, CHECK_INTERVAL);
        let pool = Pool::open(plan.backends, check_interval).await?;
        let proxy = Proxy::start(Arc::clone(pool.balancer())).await?;
        let record = Arc::new(Record::new(plan.keys, MAX_REQUESTS));
        let load = Load::start(CLIENTS, proxy.addr(), &record);
        let (n, keys, addr) = (plan.backends, plan.keys, proxy.addr());
        let text = format_args!("{CLIENTS} clients, a proxy on {addr}, {n} backends, {keys} keys");
        teller.event("start", None, text)?;
        let begun = Instant::now();
        Ok(Self {
            plan,
            teller,
            begun,
            phase_end: begun,
            pool,
            proxy,
            record,
            load,
            up: (1 << plan.backends) - 1,
            up_by_phase: Vec::new(),
        })
    }

    /// Lets the phase last until its time is over and every key has been answered in it.
    async fn settle(&mut self) -> Result<(), Failure> {
        if !self.up_by_phase.is_empty() {
            self.record.enter_next_stage();
        }
        let phase = self.up_by_phase.len();
        self.up_by_phase.push(self.up);
        self.phase_end += self.plan.phase;
        sleep_until(self.phase_end.into()).await;
        let late = Instant::now() + PATIENCE;
        while self.record.unanswered() > 0 {
            let (keys, name) = (self.record.unanswered(), PHASES[phase]);
            if self.record.is_over() || Instant::now() > late {
                return Err(
                    format!("{keys} keys were never answered in the phase `{name}`").into(),
                );
            }
            sleep(GLANCE).await;
        }
        Ok(())
    }

    async fn one_dies(&mut self) -> Result<(), Failure> {
        self.record.enter_next_stage();
        let died = Instant::now();
        self.pool.kill(VICTIM).await?;
        self.up &= !(1 << VICTIM);
        let cut = self.pool.backends()[VICTIM].cut();
        let text = format_args!("its port refuses, {cut} requests cut");
        self.tell("dies", VICTIM, text)?;
        let reason = self.pool.turns(VICTIM, Condition::Down).await?;
        let after = died.elapsed().as_millis();
        let retries = self.record.retries(self.record.stage());
        let text = format_args!("after {after} ms: {reason}; {retries} requests were retried");
        self.tell("down", VICTIM, text)
    }

    async fn it_comes_back(&mut self) -> Result<(), Failure> {
        self.record.enter_next_stage();
        let came = Instant::now();
        self.pool.revive(VICTIM)?;
        self.tell("listens", VICTIM, format_args!("on its old port"))?;
        let reason = self.pool.turns(VICTIM, Condition::Ready).await?;
        let after = came.elapsed().as_millis();
        self.up |= 1 << VICTIM;
        let text = format_args!("after {after} ms: {reason}");
        self.tell("up", VICTIM, text)
    }

    async fn one_is_added(&mut self) -> Result<(), Failure> {
        self.record.enter_next_stage();
        let new = self.pool.add().await?;
        let addr = self.pool.backends()[new].addr();
        self.tell("added", new, format_args!("{addr}, to discovery"))?;
        let after = self.pool.until(new, "up", is_up).await?.as_millis();
        self.up |= 1 << new;
        self.tell("joins", new, format_args!("after {after} ms"))
    }

    async fn one_is_drained(&mut self) -> Result<(), Failure> {
        self.record.enter_next_stage();
        let drain = self.pool.drain(LEAVER)?;
        self.up &= !(1 << LEAVER);
        let (begun, in_flight) = (Instant::now(), drain.in_flight());
        let text = format_args!("nothing new comes, {in_flight} requests in flight");
        self.tell("drains", LEAVER, text)?;
        timeout(PATIENCE, drain.drained()).await?;
        let after = begun.elapsed().as_millis();
        self.pool.remove(LEAVER);
        self.pool
            .until(LEAVER, "removed", |backend| backend.is_none())
            .await?;
        self.pool.finish(LEAVER).await?;
        let cut = self.pool.backends()[LEAVER].cut();
        if cut > 0 {
            return Err(format!("backend #{LEAVER} was drained, and yet {cut} were cut").into());
        }
        let text = format_args!("all answered after {after} ms");
        self.tell("leaves", LEAVER, text)
    }

    /// Ends the load, then the servers, and adds up.
    async fn close(self) -> Result<Report, Failure> {
        let tally = self.load.finish().await?;
        let took = self.begun.elapsed();
        drop(self.proxy);
        let phases = phases(&self.record, &self.up_by_phase);
        let routes = phases
            .windows(2)
            .map(|pair| moves::routes(&pair[0], &pair[1]));
        let retries = std::array::from_fn(|stage| self.record.retries(stage));
        let (failed, first_failures) = self.record.failures();
        let backends = self.pool.backends().iter();
        let report = Report {
            algorithm: self.plan.algorithm,
            columns: Columns::new(backends.len(), &tally.samples, retries),
            backends: backends.map(|backend| self.plan.line(backend)).collect(),
            keys: self.plan.keys,
            routes: routes.collect(),
            violations: violations(self.plan.algorithm, &self.record, &phases),
            failed,
            first_failures,
            clients: CLIENTS,
            connections: tally.connections,
            took,
        };
        self.pool.close().await?;
        Ok(report)
    }

    fn tell(&mut self, what: &str, index: usize, text: fmt::Arguments<'_>) -> Result<(), Failure> {
        Ok(self.teller.event(what, Some(index), text)?)
    }
}

impl Plan {
    fn line(&self, backend: &Backend) -> Line {
        Line {
            addr: backend.addr().to_string(),
            role: match backend.index() {
                VICTIM => "died, came back",
                LEAVER => "drained",
                index if index >= self.backends => "added",
                _ => "",
            },
            cut: backend.cut(),
        }
    }
}

/// The settled phases: every other stage, beginning with the first.
fn phases(record: &Record, up_by_phase: &[u64]) -> Vec<Phase> {
    let owners = (0..STAGES).step_by(2).map(|stage| record.owners(stage));
    up_by_phase
        .iter()
        .zip(owners)
        .map(|(&up, owners)| Phase { up, owners })
        .collect()
}

fn violations(algorithm: Algorithm, record: &Record, phases: &[Phase]) -> Vec<Violation> {
    let mut violations = moves::out_is_out(phases);
    if algorithm == Algorithm::Consistent {
        let changes: Vec<_> = (1..STAGES)
            .step_by(2)
            .map(|stage| record.owners(stage))
            .collect();
        violations.extend(moves::stayers_stay(phases, &changes));
    }
    violations
}

fn is_up(backend: Option<&BackendStatus>) -> bool {
    backend.is_some_and(|backend| backend.ready)
}

/// The backend that dies and comes back, and the one that is drained, by index.
const VICTIM: usize = 1;
const LEAVER: usize = 2;

/// Enough that a backend of 33 owns some 30 of them.
const KEYS: usize = 1000;

/// Enough that a death finds requests in flight, few enough for two cores.
const CLIENTS: usize = 32;

/// The bound of the load, an act: more than [`CLIENTS`] can make in a minute of backends that take
/// one to three milliseconds. It ends the load if the machine is too slow for the story.
const MAX_REQUESTS: u64 = 1_000_000;

/// A death is found after two of them.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);
