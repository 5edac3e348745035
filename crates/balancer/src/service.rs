//! The background loops: discovery and health, side by side. The only file that spawns or sleeps.

use std::collections::{BTreeMap, BTreeSet};
use std::future::{Future, pending, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use selection::{Identity, Selector};
use tokio::task::JoinSet;
use tokio::time::{sleep_until, timeout};

use crate::clock::Clock;
use crate::contain::{contain, contain_now};
use crate::health::Probe;
use crate::snapshot::Entry;
use crate::{CheckError, HealthCheck, LoadBalancer, Update, log};

impl<S: Selector + ?Sized> LoadBalancer<S> {
    /// Keeps members and health up to date until `shutdown` completes, then returns at once,
    /// whatever the intervals are and whatever is under way.
    ///
    /// Discovery and checks run side by side: neither a slow discovery nor a slow check delays
    /// anything else. A panic of either is reported, and the loops go on. Dropping the future
    /// stops them too.
    pub async fn run(self: Arc<Self>, shutdown: impl Future<Output = ()>) {
        let mut loops = JoinSet::new();
        loops.spawn(follow_discovery(Arc::clone(&self)));
        if let Some(check) = &self.check {
            loops.spawn(Prober::new(Arc::clone(&self), Arc::clone(check)).run());
        }
        #[cfg(feature = "metrics")]
        loops.spawn(publish_metrics(Arc::clone(&self)));
        shutdown.await;
        loops.shutdown().await;
        #[cfg(feature = "metrics")]
        self.publish_metrics();
    }
}

// ===== discovery =====

async fn follow_discovery<S: Selector + ?Sized>(balancer: Arc<LoadBalancer<S>>) {
    let mut failures = 0;
    loop {
        let mut changed = pin!(contain(balancer.discovery.changed()));
        let changed_already = poll_once(changed.as_mut()).await;
        match balancer.update().await {
            Ok(update) => {
                failures = 0;
                report(balancer.name(), &update);
            }
            Err(cause) => {
                failures += 1;
                log::update_failed(balancer.name(), &cause, failures);
            }
        }
        let wait = match failures {
            0 => until_stale(&balancer),
            _ => pause(balancer.options.update_interval, failures),
        };
        let next = balancer.pool.board.clock.now().saturating_add(wait);
        let woken = async {
            match changed_already {
                Some(result) => result,
                None => changed.await,
            }
        };
        tokio::select! {
            () = wait_until(balancer.pool.board.clock, Some(next)) => {}
            () = quiet_if_panicked(balancer.name(), woken) => {}
        }
    }
}

fn report(pool: &str, update: &Update) {
    if update.is_unchanged() {
        log::members_unchanged(pool, update);
    } else {
        log::members_changed(pool, update);
    }
}

/// Polls `future` once: its first poll is where a discovery begins to listen.
async fn poll_once<F: Future + Unpin>(mut future: F) -> Option<F::Output> {
    poll_fn(|cx| match std::pin::Pin::new(&mut future).poll(cx) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

/// A `changed` that panics wakes nobody: it would do so again at once, and for ever.
async fn quiet_if_panicked(pool: &str, woken: impl Future<Output = Result<(), String>>) {
    if let Err(message) = woken.await {
        log::changed_panicked(pool, &message);
        pending::<()>().await;
    }
}

/// How long what was just discovered holds.
fn until_stale<S: Selector + ?Sized>(balancer: &LoadBalancer<S>) -> Duration {
    let interval = balancer.options.update_interval;
    match contain_now(|| balancer.discovery.valid_for()) {
        Ok(holds) => holds.map_or(interval, |holds| holds.max(FIRST_RETRY)),
        Err(message) => {
            log::valid_for_panicked(balancer.name(), &message);
            interval
        }
    }
}

/// The wait after this many failures in a row.
fn pause(interval: Duration, failures: u32) -> Duration {
    let doublings = failures.saturating_sub(1);
    let backoff = FIRST_RETRY.saturating_mul(2u32.saturating_pow(doublings));
    backoff.min(interval)
}

// ===== metrics =====

#[cfg(feature = "metrics")]
async fn publish_metrics<S: Selector + ?Sized>(balancer: Arc<LoadBalancer<S>>) {
    while let Some(meter) = &balancer.meter {
        balancer.publish_metrics();
        let clock = balancer.pool.board.clock;
        let next = clock.now().saturating_add(meter.interval());
        wait_until(clock, Some(next)).await;
    }
}

// ===== health =====

/// Which backend to check when, and the checks under way.
struct Prober<S: Selector + ?Sized> {
    balancer: Arc<LoadBalancer<S>>,
    check: Arc<dyn HealthCheck>,
    targets: BTreeMap<Identity, Target>,
    /// When each target is to be checked next, unless its check is under way.
    due: BTreeSet<(Duration, Identity)>,
    running: JoinSet<Done>,
}

/// A backend to check, and which membership of it.
#[derive(Clone)]
struct Target {
    entry: Arc<Entry>,
    stint: u64,
    /// Whether it was checked before.
    is_checked: bool,
}

/// A check that ended.
struct Done {
    target: Target,
    started: Duration,
    /// `Err` holds what it said when it panicked.
    result: Result<Result<(), CheckError>, String>,
}

impl<S: Selector + ?Sized> Prober<S> {
    fn new(balancer: Arc<LoadBalancer<S>>, check: Arc<dyn HealthCheck>) -> Self {
        Self {
            balancer,
            check,
            targets: BTreeMap::new(),
            due: BTreeSet::new(),
            running: JoinSet::new(),
        }
    }

    async fn run(mut self) {
        let mut publications = self.balancer.pool.board.publications();
        self.follow_members();
        loop {
            self.start_due();
            let next = self.next_start();
            let clock = self.balancer.pool.board.clock;
            tokio::select! {
                changed = publications.changed() => match changed {
                    Ok(()) => self.follow_members(),
                    Err(_) => return,
                },
                Some(done) = self.running.join_next() => self.finish(done),
                () = wait_until(clock, next) => {}
            }
        }
    }

    /// Takes up new members, to be checked at once, and drops those that left.
    fn follow_members(&mut self) {
        let (snapshot, stints) = self.balancer.targets();
        let now = self.balancer.pool.board.clock.now();
        let mut before = std::mem::take(&mut self.targets);
        for entry in snapshot.entries() {
            let identity = &entry.state.identity;
            // What is not here leaves or comes just now, or another balancer checks it.
            let Some(&stint) = stints.get(identity) else {
                continue;
            };
            let known = before.remove(identity);
            let goes_on = known.as_ref().is_some_and(|known| known.stint == stint);
            if !goes_on {
                if known.is_some() {
                    self.due.retain(|(_, due)| due != identity);
                }
                self.due.insert((now, identity.clone()));
            }
            let target = Target {
                entry: Arc::clone(entry),
                stint,
                is_checked: goes_on && known.is_some_and(|known| known.is_checked),
            };
            self.targets.insert(identity.clone(), target);
        }
        for target in before.values() {
            self.forget(target);
        }
        if !before.is_empty() {
            self.due
                .retain(|(_, identity)| !before.contains_key(identity));
        }
    }

    fn start_due(&mut self) {
        let now = self.balancer.pool.board.clock.now();
        while self.next_start().is_some_and(|time| time <= now) {
            let Some((_, identity)) = self.due.pop_first() else {
                return;
            };
            match self.targets.get(&identity) {
                Some(target) if target.entry.state.is_unchecked() => {
                    let next = now.saturating_add(self.wait());
                    self.due.insert((next, identity));
                }
                Some(target) => {
                    let check = Arc::clone(&self.check);
                    self.running.spawn(probe(check, target.clone(), now));
                }
                None => {}
            }
        }
    }

    /// When the next check may start; `None` if there is none, or too many are under way.
    fn next_start(&self) -> Option<Duration> {
        let (time, _) = self.due.first()?;
        (self.running.len() < self.balancer.options.parallel_checks).then_some(*time)
    }

    fn finish(&mut self, done: Result<Done, tokio::task::JoinError>) {
        let done = match done {
            Ok(done) => done,
            Err(error) => return self.begin_afresh(&error),
        };
        self.tell(&done);
        let identity = &done.target.entry.state.identity;
        let target = self.targets.get_mut(identity);
        let Some(target) = target.filter(|target| target.stint == done.target.stint) else {
            self.forget(&done.target);
            return;
        };
        let is_first = !std::mem::replace(&mut target.is_checked, true);
        let wait = if is_first {
            self.first_wait()
        } else {
            self.wait()
        };
        let next = done.started.saturating_add(wait);
        self.due.insert((next, identity.clone()));
    }

    /// The future of a check panicked as it was dropped, and took the name of its backend with it:
    /// all are due.
    fn begin_afresh(&mut self, error: &tokio::task::JoinError) {
        log::check_drop_panicked(self.balancer.name(), error);
        self.running = JoinSet::new();
        self.targets.clear();
        self.due.clear();
        self.follow_members();
    }

    fn forget(&self, target: &Target) {
        let backend = &target.entry.backend;
        if let Err(message) = contain_now(|| self.check.forget(backend)) {
            log::forget_panicked(self.balancer.name(), backend, &message);
        }
    }

    /// The time between the starts of two checks of a backend.
    fn wait(&self) -> Duration {
        let options = &self.balancer.options;
        jittered(options.check_interval, options.check_jitter)
    }

    /// The time from the first check of a backend to the second: anything up to the interval, since
    /// backends that join together are checked together. Without jitter they stay so.
    fn first_wait(&self) -> Duration {
        let options = &self.balancer.options;
        match options.check_jitter {
            0 => options.check_interval,
            _ => options.check_interval.mul_f64(rand::random()),
        }
    }

    fn tell(&self, done: &Done) {
        let Target { entry, stint, .. } = &done.target;
        let identity = &entry.state.identity;
        let tell = |probe, reason: &dyn std::fmt::Display| {
            let thresholds = self.check.thresholds();
            let board = &self.balancer.pool.board;
            board.probed(identity, *stint, (probe, thresholds), reason);
        };
        match &done.result {
            Ok(Ok(())) => tell(Probe::Passed, &"a check passed"),
            Ok(Err(cause)) => tell(Probe::Failed, cause),
            Err(message) => {
                log::check_panicked(self.balancer.name(), &entry.backend, message);
            }
        }
    }
}

impl<S: Selector + ?Sized> Drop for Prober<S> {
    fn drop(&mut self) {
        let pool = &self.balancer.pool;
        pool.board.leave_checks(pool.id);
    }
}

async fn probe(check: Arc<dyn HealthCheck>, target: Target, started: Duration) -> Done {
    let after = check.time_limit();
    let result = contain(timeout(after, check.check(&target.entry.backend))).await;
    Done {
        result: result.map(|ended| ended.unwrap_or(Err(CheckError::TimedOut { after }))),
        target,
        started,
    }
}

/// Waits for `time`, or for ever.
async fn wait_until(clock: Clock, time: Option<Duration>) {
    match time {
        Some(time) => sleep_until(clock.at(time)).await,
        None => pending().await,
    }
}

/// `interval`, shortened or lengthened at random by up to `percent` of it.
fn jittered(interval: Duration, percent: u8) -> Duration {
    let share = f64::from(percent) / 100.0;
    let factor = 1.0 + share * (2.0 * rand::random::<f64>() - 1.0);
    Duration::try_from_secs_f64(interval.as_secs_f64() * factor).unwrap_or(interval)
}

/// Soon enough not to be noticed, late enough not to hammer a name server that struggles.
const FIRST_RETRY: Duration = Duration::from_secs(1);
