//! One act: what happens to the pool while the clients keep asking.

mod changes;

use std::fmt;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use selection::Build;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{sleep, sleep_until};

use crate::Failure;
use crate::args::{Algorithm, Args};
use crate::backend::{Backend, HEALTH};
use crate::load::Load;
use crate::moves::{self, PHASES, Phase, STAGES, Violation};
use crate::pool::{GLANCE, PATIENCE, Pool, Rules};
use crate::proxy::Proxy;
use crate::record::Record;
use crate::report::{Columns, Line, Report};
use crate::shown::Shown;
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

    /// Everything that takes time, so short that its change leaves something of the phase.
    fn rules(&self) -> Rules {
        let check_interval = (self.phase / 16).clamp(CHECK_INTERVAL / 5, CHECK_INTERVAL);
        Rules {
            check_interval,
            failures: 3,
            ejection: 4 * check_interval,
            window: 8 * check_interval,
        }
    }
}

/// The phases, one after the other.
pub(crate) async fn act<S: Build>(plan: &Plan, teller: &mut Teller) -> Result<Report, Failure> {
    let mut act = Act::<S>::open(*plan, teller).await?;
    act.settle().await?;
    act.one_dies().await?;
    act.settle().await?;
    act.it_comes_back().await?;
    act.settle().await?;
    act.one_fails().await?;
    act.settle().await?;
    act.it_is_mended().await?;
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
    rules: Rules,
    teller: &'a mut Teller,
    begun: Instant,
    /// When the present phase is to end.
    phase_end: Instant,
    pool: Pool<S>,
    proxy: Front,
    record: Arc<Record>,
    load: Load,
    /// The backends that may answer, a bit each.
    up: u64,
    /// The same, as it was when each of the phases so far began.
    up_by_phase: Vec<u64>,
    shown: Shown,
}

/// The proxy, as it serves.
struct Front {
    stop: oneshot::Sender<()>,
    serving: JoinHandle<()>,
}

impl<'a, S: Build> Act<'a, S> {
    async fn open(plan: Plan, teller: &'a mut Teller) -> Result<Self, Failure> {
        teller.act(plan.algorithm)?;
        let rules = plan.rules();
        let pool = Pool::open(plan.backends, rules).await?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let addr = listener.local_addr()?;
        let (stop, stopped) = oneshot::channel::<()>();
        let proxy = Proxy::new(Arc::clone(pool.balancer()));
        let serving = tokio::spawn(proxy.serve(listener, async { drop(stopped.await) }));
        let record = Arc::new(Record::new(plan.keys, MAX_REQUESTS));
        let load = Load::start(CLIENTS, addr, &record);
        let begun = Instant::now();
        let mut act = Self {
            plan,
            rules,
            teller,
            begun,
            phase_end: begun,
            pool,
            proxy: Front { stop, serving },
            record,
            load,
            up: (1 << plan.backends) - 1,
            up_by_phase: Vec::new(),
            shown: Shown::default(),
        };
        let (n, keys) = (plan.backends, plan.keys);
        let text =
            format_args!("{CLIENTS} clients ask a proxy on {addr} for {keys} keys, by turns");
        act.say("load", text)?;
        let list = act.pool.list().display().to_string();
        act.say("list", format_args!("{n} backends, as written in {list}"))?;
        let interval = rules.check_interval.as_millis();
        let text = format_args!(
            "GET {HEALTH} of each backend every {interval} ms; 2 of a kind in a row count"
        );
        act.say("checks", text)?;
        let (failures, first) = (rules.failures, rules.ejection.as_millis());
        let text = format_args!(
            "{failures} failed requests in a row put a backend aside for {first} ms, next time {} ms",
            2 * first
        );
        act.say("requests", text)?;
        Ok(act)
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

    /// Ends the load, then the servers, and adds up.
    async fn close(self) -> Result<Report, Failure> {
        let tally = self.load.finish().await?;
        let took = self.begun.elapsed();
        drop(self.proxy.stop);
        self.proxy.serving.await?;
        let phases = phases(&self.record, &self.up_by_phase);
        let routes = phases
            .windows(2)
            .map(|pair| moves::routes(&pair[0], &pair[1]));
        let retries = std::array::from_fn(|stage| self.record.retries(stage));
        let (failed, first_failures) = self.record.failures();
        let backends = self.pool.backends().iter();
        let columns = Columns::new(backends.len(), &tally.samples, retries);
        let report = Report {
            algorithm: self.plan.algorithm,
            broken: self
                .shown
                .broken(|backend, phase| columns.share(backend, phase)),
            columns,
            backends: backends.map(|backend| self.plan.line(backend)).collect(),
            keys: self.plan.keys,
            routes: routes.collect(),
            violations: violations(self.plan.algorithm, &self.record, &phases),
            shown: self.shown,
            failed,
            first_failures,
            clients: CLIENTS,
            connections: tally.connections,
            took,
        };
        self.pool.close().await?;
        Ok(report)
    }

    fn say(&mut self, what: &str, text: fmt::Arguments<'_>) -> Result<(), Failure> {
        Ok(self.teller.event(what, None, text)?)
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
                FAILER => "failed for a while",
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

/// The backend that fails for a while, the one that dies and comes back, and the one that is
/// drained, by index.
const FAILER: usize = 0;
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
const CHECK_INTERVAL: Duration = Duration::from_millis(50);
