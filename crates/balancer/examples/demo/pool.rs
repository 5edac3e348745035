//! The backends, and the load balancer that finds and watches them.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use balancer::discovery::File;
use balancer::{
    Address, BackendStatus, Condition, Consecutive, Drain, Event, HttpCheck, InitialHealth,
    LoadBalancer, Options, Passive, SlowStart, Status,
};
use selection::Build;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::Failure;
use crate::backend::{Backend, HEALTH, Temper};
use crate::list::List;

/// How the balancer is to watch its backends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    pub(crate) check_interval: Duration,
    /// Requests in a row whose failure ejects a backend.
    pub(crate) failures: u32,
    /// The length of a first ejection.
    pub(crate) ejection: Duration,
    /// The length of a slow start.
    pub(crate) window: Duration,
}

/// Changes are made where they happen in life: a backend dies by itself and health finds out, a
/// backend is added to the file that discovery reads. The methods return once the balancer has
/// followed.
#[derive(Debug)]
pub(crate) struct Pool<S: Build> {
    backends: Vec<Backend>,
    list: List,
    balancer: Arc<LoadBalancer<S>>,
    events: mpsc::UnboundedReceiver<Turn>,
    shutdown: oneshot::Sender<()>,
    service: JoinHandle<()>,
}

/// What the balancer told of a backend, and when.
#[derive(Debug)]
pub(crate) struct Turn {
    pub(crate) at: Instant,
    pub(crate) event: Event,
}

impl<S: Build> Pool<S> {
    /// `n` backends of weight 1, once all of them have passed a check.
    pub(crate) async fn open(n: usize, rules: Rules) -> Result<Self, Failure> {
        let mut backends = Vec::new();
        for index in 0..n {
            backends.push(Backend::start(index).await?);
        }
        let list = List::create(backends.iter().map(Backend::addr).collect())?;
        let (sender, events) = mpsc::unbounded_channel();
        let balancer = LoadBalancer::<S>::builder(File::new(list.path())?, S::Config::default())
            .options(rules.options())
            .health_check(HttpCheck::new(HEALTH)?.rise(2).fall(2))
            .on_event(move |event| {
                let (at, event) = (Instant::now(), event.clone());
                // Nobody listens any more once the act is over.
                drop(sender.send(Turn { at, event }));
            })
            .build()?;
        let balancer = Arc::new(balancer);
        balancer.update().await?;
        let (shutdown, told) = oneshot::channel();
        let service = tokio::spawn(Arc::clone(&balancer).run(async move {
            // A sender that is gone is as good a reason to stop as one that says so.
            told.await.ok();
        }));
        let pool = Self {
            backends,
            list,
            balancer,
            events,
            shutdown,
            service,
        };
        for index in 0..n {
            pool.until(index, "up", |it| it.is_some_and(|it| it.ready))
                .await?;
        }
        Ok(pool)
    }

    pub(crate) fn balancer(&self) -> &Arc<LoadBalancer<S>> {
        &self.balancer
    }

    pub(crate) fn backends(&self) -> &[Backend] {
        &self.backends
    }

    /// Kills the backend.
    pub(crate) async fn kill(&mut self, index: usize) -> Result<(), Failure> {
        Ok(self.backends[index].die().await?)
    }

    /// Lets the dead backend listen again.
    pub(crate) fn revive(&mut self, index: usize) -> Result<(), Failure> {
        Ok(self.backends[index].come_back()?)
    }

    /// Lets the backend behave so from now on.
    pub(crate) fn turn(&self, index: usize, temper: Temper) {
        self.backends[index].turn(temper);
    }

    /// Starts one more backend and writes it into the list; returns its index.
    pub(crate) async fn add(&mut self) -> Result<usize, Failure> {
        let index = self.backends.len();
        let backend = Backend::start(index).await?;
        self.list.add(backend.addr())?;
        self.backends.push(backend);
        Ok(index)
    }

    /// Writes a mistake into the list; returns what the balancer has to say to it.
    pub(crate) async fn misspell(&mut self) -> Result<Status, Failure> {
        let failed = self.balancer.status().failed_updates;
        self.list.misspell()?;
        let refused = async {
            loop {
                let status = self.balancer.status();
                if status.failed_updates > failed {
                    return status;
                }
                sleep(GLANCE).await;
            }
        };
        let refused = timeout(PATIENCE, refused).await;
        refused.map_err(|_| format!("the list is not read within {PATIENCE:?}").into())
    }

    pub(crate) fn list(&self) -> &Path {
        self.list.path()
    }

    /// Lets the backend finish what it has, with nothing new to come.
    pub(crate) fn drain(&self, index: usize) -> Result<Drain, Failure> {
        self.balancer
            .drain(&self.addr(index))
            .ok_or_else(|| format!("backend #{index} is no member").into())
    }

    /// Takes the backend out of the list.
    pub(crate) fn remove(&mut self, index: usize) -> Result<(), Failure> {
        Ok(self.list.remove(self.backends[index].addr())?)
    }

    /// Ends the backend once it has finished what it has.
    pub(crate) async fn finish(&mut self, index: usize) -> Result<(), Failure> {
        Ok(self.backends[index].finish().await?)
    }

    /// What the balancer knows of the backend; `None` if it is no member.
    pub(crate) fn status(&self, index: usize) -> Option<BackendStatus> {
        let addr = self.addr(index);
        let mut members = self.balancer.status().backends.into_iter();
        members.find(|member| member.addr == addr)
    }

    /// What the balancer has told so far is of no interest any more.
    pub(crate) fn forget_turns(&mut self) {
        while self.events.try_recv().is_ok() {}
    }

    /// Waits until the balancer finds the backend in one of these conditions; returns how it came
    /// to that, turn by turn.
    pub(crate) async fn turns(
        &mut self,
        index: usize,
        to: &[Condition],
    ) -> Result<Vec<Turn>, Failure> {
        let backend = self.addr(index).identity();
        let mut turns = Vec::new();
        let follow = async {
            while let Some(turn) = self.events.recv().await {
                if turn.event.backend == backend {
                    let is_last = to.contains(&turn.event.to);
                    turns.push(turn);
                    if is_last {
                        return true;
                    }
                }
            }
            false
        };
        match timeout(PATIENCE, follow).await {
            Ok(true) => Ok(turns),
            _ => Err(format!("backend #{index} is not {to:?} after {PATIENCE:?}").into()),
        }
    }

    /// Waits until `holds` of [`status`](Self::status); returns how long that took.
    pub(crate) async fn until(
        &self,
        index: usize,
        what: &str,
        holds: impl Fn(Option<&BackendStatus>) -> bool,
    ) -> Result<Duration, Failure> {
        let begun = Instant::now();
        while !holds(self.status(index).as_ref()) {
            if begun.elapsed() > PATIENCE {
                return Err(format!("backend #{index} is not {what} after {PATIENCE:?}").into());
            }
            sleep(GLANCE).await;
        }
        Ok(begun.elapsed())
    }

    fn addr(&self, index: usize) -> Address {
        self.backends[index].addr().into()
    }

    /// Stops discovery, health checks and every backend.
    pub(crate) async fn close(self) -> Result<(), Failure> {
        drop(self.shutdown);
        Ok(self.service.await?)
    }
}

impl Rules {
    fn options(&self) -> Options {
        let passive = Consecutive::default()
            .failures(self.failures)
            .base(self.ejection)
            .max(2 * self.ejection);
        Options::default()
            .check_interval(self.check_interval)
            .initial_health(InitialHealth::Unhealthy)
            .passive(Passive::Consecutive(passive))
            .slow_start(SlowStart::new(self.window).start_percent(START_PERCENT))
    }
}

/// The share that a slow start begins with.
pub(crate) const START_PERCENT: u8 = 10;

/// How long the balancer may take to follow a change on a machine that is busy with other things.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// How often to look.
pub(crate) const GLANCE: Duration = Duration::from_millis(1);
