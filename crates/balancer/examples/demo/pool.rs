//! The backends, and the load balancer that finds and watches them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use balancer::{
    Address, BackendStatus, Condition, Drain, Event, LoadBalancer, Options, Static, TcpCheck,
};
use selection::Build;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::Failure;
use crate::backend::Backend;

/// Changes are made where they happen in life: a backend dies by itself and health finds out, a
/// backend is added to what discovery sees. The methods return once the balancer has followed.
#[derive(Debug)]
pub(crate) struct Pool<S: Build> {
    backends: Vec<Backend>,
    discovery: Arc<Static>,
    balancer: Arc<LoadBalancer<S>>,
    events: mpsc::UnboundedReceiver<Event>,
    shutdown: oneshot::Sender<()>,
    service: JoinHandle<()>,
}

impl<S: Build> Pool<S> {
    /// `n` backends of weight 1.
    pub(crate) async fn open(n: usize, check_interval: Duration) -> Result<Self, Failure> {
        let mut backends = Vec::new();
        for index in 0..n {
            backends.push(Backend::start(index).await?);
        }
        let found = backends
            .iter()
            .map(|backend| balancer::Backend::new(backend.addr()));
        let discovery = Arc::new(Static::new(found));
        let (sender, events) = mpsc::unbounded_channel();
        let options = Options::default().check_interval(check_interval);
        let balancer = LoadBalancer::<S>::builder(Arc::clone(&discovery), S::Config::default())
            .options(options)
            .health_check(TcpCheck::default().rise(2).fall(2))
            // Nobody listens any more once the act is over.
            .on_event(move |event| drop(sender.send(event.clone())))
            .build()?;
        let balancer = Arc::new(balancer);
        balancer.update().await?;
        let (shutdown, told) = oneshot::channel();
        let service = tokio::spawn(Arc::clone(&balancer).run(async move {
            // A sender that is gone is as good a reason to stop as one that says so.
            told.await.ok();
        }));
        Ok(Self {
            backends,
            discovery,
            balancer,
            events,
            shutdown,
            service,
        })
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

    /// Starts one more backend and lets discovery know; returns its index.
    pub(crate) async fn add(&mut self) -> Result<usize, Failure> {
        let index = self.backends.len();
        let backend = Backend::start(index).await?;
        self.discovery.add(balancer::Backend::new(backend.addr()));
        self.backends.push(backend);
        Ok(index)
    }

    /// Lets the backend finish what it has, with nothing new to come.
    pub(crate) fn drain(&self, index: usize) -> Result<Drain, Failure> {
        self.balancer
            .drain(&self.addr(index))
            .ok_or_else(|| format!("backend #{index} is no member").into())
    }

    /// Takes the backend out of discovery.
    pub(crate) fn remove(&self, index: usize) {
        self.discovery.remove(&self.addr(index));
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

    /// Waits until the balancer finds the backend in this condition; returns why.
    pub(crate) async fn turns(&mut self, index: usize, to: Condition) -> Result<String, Failure> {
        let backend = self.addr(index).identity();
        let reason = async {
            while let Some(event) = self.events.recv().await {
                if (&event.backend, event.to) == (&backend, to) {
                    return Some(event.reason);
                }
            }
            None
        };
        let reason = timeout(PATIENCE, reason).await.ok().flatten();
        reason.ok_or_else(|| format!("backend #{index} is not {to} after {PATIENCE:?}").into())
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

/// How long the balancer may take to follow a change on a machine that is busy with other things.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// How often to look.
pub(crate) const GLANCE: Duration = Duration::from_millis(1);
