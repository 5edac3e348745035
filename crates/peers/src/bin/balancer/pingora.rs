//! pingora-load-balancing 0.9.1.

use std::collections::{BTreeSet, HashMap};
use std::hint::black_box;
use std::sync::Arc;

use async_trait::async_trait;
use pingora_core::protocols::l4::socket::SocketAddr as PingoraAddr;
use pingora_load_balancing::discovery::ServiceDiscovery;
use pingora_load_balancing::selection::consistent::KetamaHashing;
use pingora_load_balancing::selection::{BackendIter, BackendSelection, RoundRobin};
use pingora_load_balancing::{Backend, Backends, LoadBalancer};
use tokio::runtime::Runtime;

use crate::Error;
use crate::engine::{Choice, Engine, addr, index};

/// How far it may search: far enough to find whoever is ready.
const MAX_ITERATIONS: usize = 10_000_000;

pub(crate) fn engine(
    choice: Choice,
    backends: usize,
    runtime: &Runtime,
) -> Result<Box<dyn Engine>, Error> {
    Ok(match choice {
        Choice::Ring => Box::new(Pingora(balancer::<KetamaHashing>(backends, runtime)?)),
        Choice::RoundRobin => Box::new(Pingora(balancer::<RoundRobin>(backends, runtime)?)),
    })
}

struct Pingora<S: BackendSelection>(LoadBalancer<S>);

impl<S> Engine for Pingora<S>
where
    S: BackendSelection + Send + Sync + 'static,
    S::Iter: BackendIter,
{
    fn name(&self) -> &'static str {
        "pingora"
    }

    fn choose(&self, key: &[u8]) -> Option<usize> {
        self.0
            .select(key, MAX_ITERATIONS)
            .map(|backend| number(&backend))
    }

    fn pick_all(&self, keys: &[String]) -> usize {
        let none =
            |key: &&String| black_box(self.0.select(key.as_bytes(), MAX_ITERATIONS)).is_none();
        keys.iter().filter(none).count()
    }

    fn disable(&self, index: usize) {
        let backend = backend(index, 1).expect("an address");
        self.0.backends().set_enable(&backend, false);
    }
}

pub(crate) fn backend(index: usize, weight: usize) -> Result<Backend, Error> {
    let backend = Backend::new_with_weight(&addr(index).to_string(), weight);
    backend.map_err(|error| error.to_string().into())
}

pub(crate) fn number(backend: &Backend) -> usize {
    match &backend.addr {
        PingoraAddr::Inet(addr) => index(*addr),
        PingoraAddr::Unix(_) => panic!("not one of ours"),
    }
}

fn balancer<S>(backends: usize, runtime: &Runtime) -> Result<LoadBalancer<S>, Error>
where
    S: BackendSelection + Send + Sync + 'static,
    S::Iter: BackendIter,
{
    let set: Result<BTreeSet<_>, _> = (0..backends).map(|index| backend(index, 1)).collect();
    let discovery = Box::new(Answers(Arc::new(std::sync::Mutex::new(set?))));
    let balancer = LoadBalancer::from_backends(Backends::new(discovery));
    let updated = runtime.block_on(balancer.update());
    updated.map_err(|error| error.to_string())?;
    Ok(balancer)
}

/// A discovery whose answer can be changed; pingora's own cannot be from outside.
pub(crate) struct Answers(pub(crate) Arc<std::sync::Mutex<BTreeSet<Backend>>>);

#[async_trait]
impl ServiceDiscovery for Answers {
    async fn discover(&self) -> pingora_core::Result<(BTreeSet<Backend>, HashMap<u64, bool>)> {
        let set = self.0.lock().expect("nobody panics with it");
        Ok((set.clone(), HashMap::new()))
    }
}
