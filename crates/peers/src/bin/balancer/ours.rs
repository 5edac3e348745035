//! Our balancer: a pick through the balancer, through a worker's handle, and a look without a pick.

use std::cell::RefCell;
use std::hint::black_box;
use std::sync::Arc;

use balancer::selection::{Build, Consistent, RoundRobin};
use balancer::{Backend, Handle, LoadBalancer, Static};
use tokio::runtime::Runtime;

use crate::Error;
use crate::engine::{Choice, Engine, addr, index};

/// The three ways to pick, over one balancer.
pub(crate) fn engines(
    choice: Choice,
    backends: usize,
    runtime: &Runtime,
) -> Result<Vec<Box<dyn Engine>>, Error> {
    match choice {
        Choice::Ring => of::<Consistent>(backends, runtime),
        Choice::RoundRobin => of::<RoundRobin>(backends, runtime),
    }
}

fn of<S: Build>(backends: usize, runtime: &Runtime) -> Result<Vec<Box<dyn Engine>>, Error> {
    let list = Static::new((0..backends).map(|index| Backend::new(addr(index))));
    let balancer = Arc::new(LoadBalancer::<S>::new(list)?);
    runtime.block_on(balancer.update())?;
    Ok(vec![
        Box::new(Select(Arc::clone(&balancer))),
        Box::new(ByHandle(Arc::clone(&balancer))),
        Box::new(Peek(balancer)),
    ])
}

struct Select<S: Build>(Arc<LoadBalancer<S>>);

struct ByHandle<S: Build>(Arc<LoadBalancer<S>>);

struct Peek<S: Build>(Arc<LoadBalancer<S>>);

fn inet(backend: &Backend) -> usize {
    index(
        backend
            .addr
            .as_inet()
            .expect("only internet addresses here"),
    )
}

impl<S: Build> Engine for Select<S> {
    fn name(&self) -> &'static str {
        "ours, select"
    }

    fn choose(&self, key: &[u8]) -> Option<usize> {
        self.0.select(key).map(|pick| inet(&pick))
    }

    fn pick_all(&self, keys: &[String]) -> usize {
        let none = |key: &&String| black_box(self.0.select(key.as_bytes())).is_none();
        keys.iter().filter(none).count()
    }

    fn disable(&self, index: usize) {
        assert!(self.0.set_enabled(&addr(index).into(), false));
    }
}

impl<S: Build> Engine for ByHandle<S> {
    fn name(&self) -> &'static str {
        "ours, handle"
    }

    fn choose(&self, key: &[u8]) -> Option<usize> {
        self.0.handle().select(key).map(|pick| inet(&pick))
    }

    fn pick_all(&self, keys: &[String]) -> usize {
        let handle: RefCell<Handle<S>> = RefCell::new(self.0.handle());
        let none = |key: &&String| black_box(handle.borrow_mut().select(key.as_bytes())).is_none();
        keys.iter().filter(none).count()
    }

    fn disable(&self, _: usize) {}
}

impl<S: Build> Engine for Peek<S> {
    fn name(&self) -> &'static str {
        "ours, handle, borrowed"
    }

    fn choose(&self, key: &[u8]) -> Option<usize> {
        self.0.handle().peek(key).map(inet)
    }

    fn pick_all(&self, keys: &[String]) -> usize {
        let mut handle = self.0.handle();
        let mut none = 0;
        for key in keys {
            none += usize::from(black_box(handle.peek(key.as_bytes())).is_none());
        }
        none
    }

    fn disable(&self, _: usize) {}
}
