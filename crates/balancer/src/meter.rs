//! Metrics, by the facade of the crate `metrics`.
//!
//! Nothing is recorded on the way of a request. Requests count into the words that they touch
//! anyway, and from there the counts are published at every update and every few seconds. To hold a
//! handle of the recorder for each backend would make every request pay for the recorder's own
//! atomics, which lie elsewhere; and a scrape sees no more than one value in several seconds.

mod names;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use metrics::{Key, Label};
use selection::{Identity, Selector};

use self::names::{
    AGE, ALL, BACKENDS, FAILURES, FLIPS, GENERATION, IN_FLIGHT, LATENCY, MOVED, Metric, PANICKING,
    PICKS, READY, STATE, UPDATE_DURATION, UPDATES, count, record, set,
};
use crate::contain::contain_now;
use crate::snapshot::Entry;
use crate::state::State;
use crate::update::Times;
use crate::{
    BackendStatus, Cause, Condition, ConfigError, LoadBalancer, Status, Update, UpdateError,
    UpdateResult, log,
};

/// That a balancer is recorded, and how: see [`Builder::metrics`](crate::Builder::metrics).
///
/// The names of the metrics, their units and labels are in `docs/observability.md`.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Metrics {
    /// How often [`LoadBalancer::run`] publishes. Every update does as well. Default: 10 s.
    pub interval: Duration,
    /// Whether the backends have series of their own. Default: they do.
    pub series: Series,
}

/// What has series of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Series {
    /// Every backend, by a label `backend` that holds its address.
    #[default]
    Backends,
    /// The pool: counts are summed up over its backends, and what has no sum is left out. For pools
    /// of so many backends, or such quickly changing ones, that their series would be a burden.
    Pool,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(10),
            series: Series::Backends,
        }
    }
}

impl Metrics {
    /// With this [`interval`](Self::interval).
    #[must_use]
    pub fn interval(self, interval: Duration) -> Self {
        Self { interval, ..self }
    }

    /// With [`series`](Self::series) for these.
    #[must_use]
    pub fn series(self, series: Series) -> Self {
        Self { series, ..self }
    }

    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        if self.interval.is_zero() {
            let option = "metrics.interval";
            return Err(ConfigError::ZeroDuration { option });
        }
        Ok(())
    }
}

impl<S: Selector + ?Sized> LoadBalancer<S> {
    /// Brings all metrics up to date, with the recorder that is current now. For those who do not
    /// [`run`](Self::run) the balancer, or want it just before a scrape. Does nothing without
    /// [`Builder::metrics`](crate::Builder::metrics).
    ///
    /// It costs a look-up in the recorder for each series, and no request waits for it.
    pub fn publish_metrics(&self) {
        if let Some(meter) = &self.meter {
            // First of all: whoever comes later publishes what is later.
            let mut published = meter.lock();
            let snapshot = self.snapshot.load_full();
            let status = self.status_of(&snapshot);
            meter.contain(|| meter.publish(&mut published, &status, snapshot.entries()));
        }
    }

    /// Records an update that has just ended.
    pub(crate) async fn record_update(&self, result: &Result<Update, UpdateError>, times: Times) {
        let Some(meter) = &self.meter else {
            return;
        };
        let kind = result.as_ref().map_or(UpdateResult::Failed, Update::result);
        meter.contain(|| meter.updated(kind, times));
        if let Ok(update) = result {
            // It goes along every point of both rings.
            let update = update.clone();
            let moved = tokio::task::spawn_blocking(move || update.moved());
            if let Ok(Some(moved)) = moved.await {
                meter.contain(|| record(&MOVED.key(meter.labels([])), moved));
            }
        }
        self.publish_metrics();
    }
}

/// What records one balancer.
#[derive(Debug)]
pub(crate) struct Meter {
    config: Metrics,
    pool: Arc<str>,
    published: Mutex<Published>,
}

/// What has been published so far. Each count is noted once it is, since the recorder may fall over
/// at any of them.
#[derive(Debug, Default)]
struct Published {
    backends: BTreeMap<Identity, Recorded>,
    /// By cause, in the order in which they are published.
    flips: [u64; 3],
}

/// One backend, as far as it has been published.
#[derive(Debug)]
struct Recorded {
    /// Kept until its last request has ended, so that its counts are complete.
    state: Arc<State>,
    picks: u64,
    failures: u64,
    keys: Keys,
}

/// Made once, since they hash their labels.
#[derive(Debug)]
struct Keys {
    picks: Key,
    failures: Key,
    in_flight: Key,
    state: Key,
    latency: Key,
}

// ===== impl Meter =====

impl Meter {
    pub(crate) fn new(config: Metrics, pool: Arc<str>) -> Self {
        Self {
            config,
            pool,
            published: Mutex::default(),
        }
    }

    pub(crate) fn interval(&self) -> Duration {
        self.config.interval
    }

    /// The recorder is not ours, and may fall over.
    fn contain(&self, record: impl FnOnce()) {
        if let Err(message) = contain_now(record) {
            log::recorder_panicked(&self.pool, &message);
        }
    }

    fn updated(&self, result: UpdateResult, times: Times) {
        count(&self.key(UPDATES, result), 1);
        let Times { discovery, build } = times;
        let phases = [("discovery", Some(discovery)), ("build", build)];
        for (phase, took) in phases {
            if let Some(took) = took {
                record(&self.key(UPDATE_DURATION, phase), took.as_secs_f64());
            }
        }
    }

    fn publish<'a>(
        &self,
        published: &mut Published,
        status: &Status,
        entries: impl Iterator<Item = &'a Arc<Entry>>,
    ) {
        ALL.iter().for_each(Metric::describe);
        let has_series = self.config.series == Series::Backends;
        let (mut present, mut in_flight) = (BTreeSet::new(), 0.0);
        for (entry, backend) in entries.zip(&status.backends) {
            let identity = &entry.state.identity;
            let known = published.backends.entry(identity.clone());
            let recorded = known.or_insert_with(|| self.recorded(&entry.state));
            in_flight += recorded.count();
            if has_series {
                recorded.keys.set(backend);
            }
            present.insert(identity);
        }
        published.backends.retain(|identity, recorded| {
            if present.contains(identity) {
                return true;
            }
            let unfinished = recorded.count();
            in_flight += unfinished;
            if has_series {
                recorded.keys.set_gone(unfinished);
            }
            unfinished > 0.0
        });
        if self.config.series == Series::Pool {
            set(&IN_FLIGHT.key(self.labels([])), in_flight);
        }
        self.publish_pool(published, status);
    }

    fn publish_pool(&self, published: &mut Published, status: &Status) {
        for condition in CONDITIONS {
            let is_so = |backend: &&BackendStatus| backend.condition == condition;
            let backends = status.backends.iter().filter(is_so).count();
            set(&self.key(BACKENDS, condition), backends as f64);
        }
        let causes = [Cause::Admin, Cause::Active, Cause::Passive];
        for (cause, before) in causes.into_iter().zip(&mut published.flips) {
            let now = status.flips.of(cause);
            count(&self.key(FLIPS, cause), now.saturating_sub(*before));
            *before = now;
        }
        for result in [
            UpdateResult::Changed,
            UpdateResult::Unchanged,
            UpdateResult::Failed,
        ] {
            // So that there is a series before the first of its kind.
            count(&self.key(UPDATES, result), 0);
        }
        let gauges = [
            (READY, Some(status.ready as f64)),
            (PANICKING, Some(f64::from(u8::from(status.panicking)))),
            (GENERATION, Some(status.generation as f64)),
            (AGE, status.age.map(|age| age.as_secs_f64())),
        ];
        for (gauge, value) in gauges {
            if let Some(value) = value {
                set(&gauge.key(self.labels([])), value);
            }
        }
    }

    fn recorded(&self, state: &Arc<State>) -> Recorded {
        let labels = || match self.config.series {
            Series::Backends => self.labels([("backend", state.identity.to_string())]),
            Series::Pool => self.labels([]),
        };
        Recorded {
            state: Arc::clone(state),
            picks: 0,
            failures: 0,
            keys: Keys {
                picks: PICKS.key(labels()),
                failures: FAILURES.key(labels()),
                in_flight: IN_FLIGHT.key(labels()),
                state: STATE.key(labels()),
                latency: LATENCY.key(labels()),
            },
        }
    }

    /// The key of a metric of the pool with one label more.
    fn key(&self, metric: Metric, value: impl ToString) -> Key {
        let labels = metric
            .labels
            .iter()
            .map(|label| (*label, value.to_string()));
        metric.key(self.labels(labels))
    }

    fn labels(&self, more: impl IntoIterator<Item = (&'static str, String)>) -> Vec<Label> {
        let pool = Label::new("pool", self.pool.to_string());
        let more = more
            .into_iter()
            .map(|(name, value)| Label::new(name, value));
        std::iter::once(pool).chain(more).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Published> {
        self.published
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

// ===== impl Recorded =====

impl Recorded {
    /// Counts what has come since it did so last. Returns the requests in flight, which were read
    /// first: if there is none, no more will come.
    fn count(&mut self) -> f64 {
        let in_flight = self.state.load.in_flight();
        let counters = [
            (&self.keys.picks, &mut self.picks, self.state.load.picks()),
            (
                &self.keys.failures,
                &mut self.failures,
                self.state.failures(),
            ),
        ];
        for (key, before, now) in counters {
            // A pick that is just being refused may be taken back.
            let now = now.max(*before);
            count(key, now - *before);
            *before = now;
        }
        f64::from(in_flight)
    }
}

impl Keys {
    fn set(&self, backend: &BackendStatus) {
        set(&self.in_flight, f64::from(backend.in_flight));
        set(&self.state, f64::from(number(backend.condition)));
        if let Some(latency) = backend.latency {
            set(&self.latency, latency.as_secs_f64());
        }
    }

    fn set_gone(&self, in_flight: f64) {
        set(&self.in_flight, in_flight);
        set(&self.state, f64::from(GONE));
    }
}

/// What [`STATE`] says.
fn number(condition: Condition) -> u8 {
    match condition {
        Condition::Ready => 1,
        Condition::Trial => 2,
        Condition::Ejected => 3,
        Condition::Down => 4,
        Condition::Unchecked => 5,
        Condition::Draining => 6,
        Condition::Disabled => 7,
    }
}

const GONE: u8 = 0;

const CONDITIONS: [Condition; 7] = [
    Condition::Ready,
    Condition::Trial,
    Condition::Ejected,
    Condition::Down,
    Condition::Unchecked,
    Condition::Draining,
    Condition::Disabled,
];

#[cfg(test)]
mod tests;
