//! Services that do what they are told, and the pool of them.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt;
use std::future::{Ready, pending, poll_fn, ready};
use std::pin::Pin;
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context, Poll, Waker};

use balancer::selection::{Build, RoundRobin, Selector};
use balancer::{Address, Backend, LoadBalancer, Static};
use tower::Service;

/// `10.0.0.n:80`
pub(crate) fn addr(n: u8) -> Address {
    format!("10.0.0.{n}:80").parse().unwrap()
}

pub(crate) fn number(addr: &Address) -> u8 {
    let text = addr.to_string();
    let octet = text.strip_prefix("10.0.0.").unwrap();
    octet.strip_suffix(":80").unwrap().parse().unwrap()
}

/// Weight 1, unless told otherwise by `backends`.
pub(crate) async fn balancer<S: Build>(
    backends: impl IntoIterator<Item = u8>,
) -> (Arc<Static>, Arc<LoadBalancer<S>>) {
    let list = Arc::new(Static::new(
        backends.into_iter().map(|n| Backend::new(addr(n))),
    ));
    let balancer = LoadBalancer::<S>::new(Arc::clone(&list)).unwrap();
    balancer.update().await.unwrap();
    (list, Arc::new(balancer))
}

pub(crate) async fn turns(
    backends: impl IntoIterator<Item = u8>,
) -> (Arc<Static>, Arc<LoadBalancer<RoundRobin>>) {
    balancer(backends).await
}

pub(crate) fn in_flight<S: Selector + ?Sized>(balancer: &LoadBalancer<S>) -> Vec<u32> {
    let members = balancer.status().backends.into_iter();
    members.map(|member| member.in_flight).collect()
}

pub(crate) fn failures<S: Selector + ?Sized>(balancer: &LoadBalancer<S>) -> Vec<u64> {
    let members = balancer.status().backends.into_iter();
    members.map(|member| member.failures).collect()
}

/// How a service, or the making of it, does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Does {
    #[default]
    Answers,
    /// With an answer that says so.
    Fails,
    /// With an error.
    Breaks,
    Hangs,
}

/// All services of a test, by the number of the backend.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stage(Arc<Mutex<BTreeMap<u8, Part>>>);

#[derive(Debug, Default)]
struct Part {
    making: Does,
    readiness: Does,
    calling: Does,
    made: usize,
    called: usize,
    wakers: Vec<Waker>,
    /// The services that there are, clones not counted apart.
    alive: Vec<Weak<()>>,
}

impl Stage {
    pub(crate) fn making(&self, n: u8, does: Does) {
        self.set(n, |part| part.making = does);
    }

    pub(crate) fn readiness(&self, n: u8, does: Does) {
        self.set(n, |part| part.readiness = does);
    }

    pub(crate) fn calling(&self, n: u8, does: Does) {
        self.set(n, |part| part.calling = does);
    }

    /// How many services were made for the backend.
    pub(crate) fn made(&self, n: u8) -> usize {
        self.look(n, |part| part.made)
    }

    pub(crate) fn called(&self, n: u8) -> usize {
        self.look(n, |part| part.called)
    }

    /// How many of them there still are.
    pub(crate) fn alive(&self, n: u8) -> usize {
        self.look(n, |part| {
            let alive = part.alive.iter();
            alive.filter(|service| service.strong_count() > 0).count()
        })
    }

    fn set(&self, n: u8, change: impl FnOnce(&mut Part)) {
        let wakers = self.look(n, |part| {
            change(part);
            std::mem::take(&mut part.wakers)
        });
        wakers.into_iter().for_each(Waker::wake);
    }

    fn look<R>(&self, n: u8, look: impl FnOnce(&mut Part) -> R) -> R {
        look(self.0.lock().unwrap().entry(n).or_default())
    }

    fn poll(
        &self,
        cx: &mut Context<'_>,
        n: u8,
        what: impl Fn(&Part) -> Does,
    ) -> Poll<Result<(), Broken>> {
        self.look(n, |part| match what(part) {
            Does::Answers | Does::Fails => Poll::Ready(Ok(())),
            Does::Breaks => Poll::Ready(Err(Broken(n))),
            Does::Hangs => {
                part.wakers.push(cx.waker().clone());
                Poll::Pending
            }
        })
    }
}

/// The error of a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Broken(pub(crate) u8);

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is broken", self.0)
    }
}

impl std::error::Error for Broken {}

/// An answer: by whom, and whether it is any good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) by: u8,
    pub(crate) good: bool,
}

pub(crate) fn good(by: u8) -> Answer {
    Answer { by, good: true }
}

/// Makes them.
impl Service<Backend> for Stage {
    type Response = Steered;
    type Error = Broken;
    type Future = BoxFuture<Result<Steered, Broken>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Broken>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, backend: Backend) -> Self::Future {
        let (stage, n) = (self.clone(), number(&backend.addr));
        stage.look(n, |part| part.made += 1);
        Box::pin(async move {
            poll_fn(|cx| stage.poll(cx, n, |part| part.making)).await?;
            let token = Arc::new(());
            stage.look(n, |part| part.alive.push(Arc::downgrade(&token)));
            Ok(Steered {
                stage,
                n,
                _token: token,
            })
        })
    }
}

/// One of them.
#[derive(Clone, Debug)]
pub(crate) struct Steered {
    stage: Stage,
    n: u8,
    _token: Arc<()>,
}

impl<Req> Service<Req> for Steered {
    type Response = Answer;
    type Error = Broken;
    type Future = BoxFuture<Result<Answer, Broken>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Broken>> {
        self.stage.poll(cx, self.n, |part| part.readiness)
    }

    fn call(&mut self, _: Req) -> Self::Future {
        let (stage, n) = (self.stage.clone(), self.n);
        stage.look(n, |part| part.called += 1);
        Box::pin(async move {
            poll_fn(|cx| stage.poll(cx, n, |part| part.calling)).await?;
            let good = stage.look(n, |part| part.calling == Does::Answers);
            Ok(Answer { by: n, good })
        })
    }
}

type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Polls `future` once.
pub(crate) async fn poll_once<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    let mut future = Pin::new(future);
    poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx))).await
}

/// A service that answers with the request, for tests of what is not the service.
pub(crate) fn echo(_: Backend) -> Ready<Result<Echo, Infallible>> {
    ready(Ok(Echo))
}

#[derive(Clone, Debug)]
pub(crate) struct Echo;

impl<Req: Send + 'static> Service<Req> for Echo {
    type Response = Req;
    type Error = Infallible;
    type Future = Ready<Result<Req, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Req) -> Self::Future {
        ready(Ok(request))
    }
}

/// Never.
pub(crate) async fn never<T>() -> T {
    pending().await
}
