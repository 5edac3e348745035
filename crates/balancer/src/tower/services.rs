//! The services of the members, each made once and kept for as long as its backend is a member.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwap;
use selection::Selector;
use tower_service::Service;

use super::BoxError;
use crate::follow::Follower;
use crate::{Address, Backend, LoadBalancer};

/// What all clones of a [`Balance`](super::Balance) share.
pub(super) struct Services<S: Selector + ?Sized, M: Service<Backend>> {
    pub(super) balancer: Arc<LoadBalancer<S>>,
    make: Mutex<M>,
    /// A slot for every member. Requests read it without a lock.
    table: ArcSwap<Table<M::Response>>,
    /// Held by those who replace the table, from before they look who is a member: so whoever does
    /// it last has seen the latest members.
    writing: Mutex<()>,
}

type Table<Svc> = BTreeMap<Address, Arc<Slot<Svc>>>;

/// The place of one backend's service.
pub(super) struct Slot<Svc> {
    /// Behind a lock since a service need not be `Sync`; held for a clone of it.
    made: Mutex<Option<Made<Svc>>>,
    /// Held by the one request that makes the service.
    turn: tokio::sync::Mutex<Turns>,
    /// The makes that have failed. Sequentially consistent, and changed under `turn` only.
    failures: AtomicU64,
}

/// What those who make the service, one at a time, leave for the next.
#[derive(Default)]
struct Turns {
    /// The services that the slot has held.
    made: u64,
    /// Why the latest make failed.
    cause: Option<Cause>,
}

/// A service, and which of those that its slot has held it is.
#[derive(Clone)]
pub(super) struct Made<Svc> {
    pub(super) service: Svc,
    pub(super) number: u64,
}

pub(super) type Cause = Arc<dyn Error + Send + Sync>;

/// A service in the making. In a box: it is rare, and its parts would make every future larger.
pub(super) type Making<Svc> = Pin<Box<dyn Future<Output = Result<Made<Svc>, Cause>> + Send>>;

// ===== impl Services =====

impl<S, M> Services<S, M>
where
    S: Selector + ?Sized,
    M: Service<Backend>,
{
    pub(super) fn new(balancer: Arc<LoadBalancer<S>>, make: M) -> Self {
        Self {
            balancer,
            make: Mutex::new(make),
            table: ArcSwap::default(),
            writing: Mutex::new(()),
        }
    }

    /// The slot of this backend. One that has just left gets a slot that nobody else sees.
    pub(super) fn slot(&self, addr: &Address) -> Arc<Slot<M::Response>> {
        let find = || self.table.load().get(addr).map(Arc::clone);
        find().unwrap_or_else(|| {
            self.refresh();
            find().unwrap_or_default()
        })
    }

    /// A slot for each of the present members, the same as before for those that stay.
    fn refresh(&self) {
        let writing = lock(&self.writing);
        let before = self.table.load_full();
        let members = self.balancer.snapshot.load_full();
        let slots = members.entries().map(|entry| {
            let addr = &entry.backend.addr;
            let slot = before.get(addr).map(Arc::clone).unwrap_or_default();
            (addr.clone(), slot)
        });
        self.table.store(Arc::new(slots.collect()));
        // Only now the services of those that have left are dropped, which is the user's code.
        drop(writing);
    }
}

impl<S, M> Services<S, M>
where
    S: Selector + ?Sized,
    M: Service<Backend> + Clone + Send + 'static,
    M::Response: Clone + Send + 'static,
    M::Error: Into<BoxError>,
    M::Future: Send,
{
    /// Makes the service of a backend, or waits for the request that does. Should that request be
    /// given up, the next one makes it.
    pub(super) fn make(
        &self,
        slot: Arc<Slot<M::Response>>,
        backend: Backend,
    ) -> Making<M::Response> {
        let mut make = lock(&self.make).clone();
        let failures = slot.failures.load(Ordering::SeqCst);
        Box::pin(async move {
            let mut turns = slot.turn.lock().await;
            if let Some(made) = slot.made() {
                return Ok(made);
            }
            if let Some(cause) = &turns.cause
                && slot.failures.load(Ordering::SeqCst) != failures
            {
                // What it waited for has failed. In turn to wait for the same would take long.
                return Err(Arc::clone(cause));
            }
            let service = async {
                poll_fn(|cx| make.poll_ready(cx)).await?;
                make.call(backend).await
            };
            match service.await {
                Ok(service) => {
                    turns.made += 1;
                    let number = turns.made;
                    Ok(slot.put(Made { service, number }))
                }
                Err(error) => {
                    let cause: Cause = error.into().into();
                    slot.failures.fetch_add(1, Ordering::SeqCst);
                    turns.cause = Some(Arc::clone(&cause));
                    Err(cause)
                }
            }
        })
    }
}

impl<S, M> Follower for Services<S, M>
where
    S: Selector + ?Sized,
    M: Service<Backend> + Send,
    M::Response: Send,
{
    fn members_changed(&self) {
        self.refresh();
    }
}

impl<S, M> fmt::Debug for Services<S, M>
where
    S: Selector + ?Sized,
    M: Service<Backend>,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let table = self.table.load();
        let made = table.iter().filter(|(_, slot)| slot.is_made());
        f.debug_struct("Services")
            .field("balancer", &self.balancer)
            .field("made", &made.map(|(addr, _)| addr).collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

// ===== impl Slot =====

impl<Svc: Clone> Slot<Svc> {
    pub(super) fn made(&self) -> Option<Made<Svc>> {
        lock(&self.made).clone()
    }

    fn put(&self, made: Made<Svc>) -> Made<Svc> {
        *lock(&self.made) = Some(made.clone());
        made
    }
}

impl<Svc> Slot<Svc> {
    fn is_made(&self) -> bool {
        lock(&self.made).is_some()
    }

    /// Drops this service, of no use any more, unless another has taken its place already.
    pub(super) fn discard(&self, number: u64) {
        let mut made = lock(&self.made);
        let old = made.take_if(|made| made.number == number);
        drop(made);
        drop(old);
    }
}

impl<Svc> Default for Slot<Svc> {
    fn default() -> Self {
        Self {
            made: Mutex::new(None),
            turn: tokio::sync::Mutex::default(),
            failures: AtomicU64::new(0),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
