//! pingora's selectors and tower's two choices.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::future::{Ready, ready};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use pingora_load_balancing::Backend;
use pingora_load_balancing::selection::{
    BackendIter, BackendSelection, Consistent, FNVHash, Random, RoundRobin,
};
use tower::Service;
use tower::balance::p2c::Balance;
use tower::discover::ServiceList;
use tower::load::{CompleteOnResponse, PendingRequests};

use crate::Pick;
use crate::ours::{address, index, weight};

type Make = fn(u32, u32) -> Option<Pick>;

/// The algorithm of ours that each is compared with, its name, and how it is made.
pub(crate) fn all() -> Vec<(&'static str, &'static str, Make)> {
    vec![
        ("round_robin", "pingora", pingora::<RoundRobin>),
        ("random", "pingora", pingora::<Random>),
        ("fnv", "pingora", pingora::<FNVHash>),
        ("consistent", "pingora", pingora::<Consistent>),
        ("p2c", "tower, weights 1", tower_p2c),
    ]
}

fn pingora<S>(len: u32, step: u32) -> Option<Pick>
where
    S: BackendSelection + 'static,
    S::Iter: BackendIter,
{
    let backends: BTreeSet<_> = (0..len)
        .map(|i| Backend::new_with_weight(&address(i).to_string(), weight(i) as usize))
        .collect::<Result<_, _>>()
        .ok()?;
    let selector = Arc::new(S::build(&backends));
    let up: Vec<bool> = (0..len).map(|i| i % step == 0).collect();
    Some(Box::new(move |key| {
        let mut candidates = selector.iter(key);
        loop {
            let Some(backend) = candidates.next() else {
                return usize::MAX;
            };
            let node = backend.addr.as_inet().map_or(usize::MAX, index);
            if up.get(node) == Some(&true) {
                return node;
            }
        }
    }))
}

/// Answers with its number.
struct Fixed(usize);

impl Service<()> for Fixed {
    type Response = usize;
    type Error = Infallible;
    type Future = Ready<Result<usize, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, (): ()) -> Self::Future {
        ready(Ok(self.0))
    }
}

/// Services that are not ready cost tower nothing, so "half" is half of the services.
fn tower_p2c(len: u32, step: u32) -> Option<Pick> {
    let services = (0..len)
        .step_by(step as usize)
        .map(|i| PendingRequests::new(Fixed(i as usize), CompleteOnResponse::default()));
    let services: Vec<_> = services.collect();
    let mut balance = Balance::new(ServiceList::new(services));
    Some(Box::new(move |_| {
        let mut context = Context::from_waker(Waker::noop());
        while balance.poll_ready(&mut context).is_pending() {}
        let mut answer = std::pin::pin!(balance.call(()));
        match answer.as_mut().poll(&mut context) {
            Poll::Ready(Ok(node)) => node,
            _ => usize::MAX,
        }
    }))
}
