//! Picks allocate nothing.
#![expect(clippy::unwrap_used, reason = "tests: a surprise is a failure")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::hint::black_box;

use balancer::selection::{Consistent, Outcome, RoundRobin, Selector};
use balancer::{Address, Backend, Builder, LoadBalancer, Static};

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: every call goes to the system allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations(work: impl FnOnce()) -> usize {
    let before = ALLOCATIONS.with(Cell::get);
    work();
    ALLOCATIONS.with(Cell::get) - before
}

fn two_hundred() -> Static {
    let addr = |n| format!("10.0.0.{n}:80").parse::<Address>().unwrap();
    Static::new((1..=200).map(|n| Backend::new(addr(n))))
}

async fn picks_allocate_nothing<S: Selector + ?Sized>(balancer: LoadBalancer<S>) {
    balancer.update().await.unwrap();
    // The first load of a thread registers it with arc-swap.
    drop(balancer.select(b"key"));
    let selects = allocations(|| {
        for n in 0..1000u32 {
            assert!(balancer.select(&n.to_le_bytes()).is_some());
        }
    });
    let attempts = allocations(|| assert_eq!(balancer.attempts("key").count(), 200));
    let complete = allocations(|| {
        let pick = balancer.select(b"key").unwrap();
        pick.complete(Outcome::Cancelled);
    });
    assert_eq!((selects, attempts, complete), (0, 0, 0));
}

#[test]
fn the_count_counts() {
    // Seen from outside, or an optimiser may do without it.
    assert_eq!(allocations(|| drop(black_box(Box::new(7)))), 1);
}

#[tokio::test]
async fn on_the_ring() {
    picks_allocate_nothing(LoadBalancer::<Consistent>::new(two_hundred()).unwrap()).await;
}

#[tokio::test]
async fn by_turn() {
    picks_allocate_nothing(LoadBalancer::<RoundRobin>::new(two_hundred()).unwrap()).await;
}

#[tokio::test]
async fn chosen_at_run_time() {
    use balancer::selection::Build;
    let builder = Builder::from_factory(two_hundred(), |nodes, _| {
        Ok(std::sync::Arc::new(RoundRobin::build(
            nodes,
            &Default::default(),
        )?))
    });
    picks_allocate_nothing(builder.build().unwrap()).await;
}

/// What a service and the copy of a request allocate is theirs.
#[cfg(feature = "tower")]
#[tokio::test]
async fn as_a_service() {
    use std::convert::Infallible;
    use std::future::ready;
    use std::sync::Arc;
    use std::task::{Context, Poll, Waker};

    use balancer::tower::{Balance, Retries};
    use tower::{Service, service_fn};

    let balancer = LoadBalancer::<Consistent>::new(two_hundred()).unwrap();
    balancer.update().await.unwrap();
    let echo = service_fn(|request: u32| ready(Ok::<_, Infallible>(request)));
    let make = service_fn(move |_: Backend| ready(Ok::<_, Infallible>(echo)));
    let mut service = Balance::new(Arc::new(balancer), make)
        .key(|request: &u32| request.to_le_bytes())
        .retry(Retries::new(2));
    for n in 0..1000 {
        service.call(n).await.unwrap(); // The services are made.
    }
    let requests = || {
        for n in 0..1000 {
            let mut answer = std::pin::pin!(service.call(n));
            let polled = answer
                .as_mut()
                .poll(&mut Context::from_waker(Waker::noop()));
            assert!(matches!(polled, Poll::Ready(Ok(answer)) if answer == n));
        }
    };
    assert_eq!(allocations(requests), 0);
}
