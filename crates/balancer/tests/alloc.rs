//! Picks allocate nothing.

mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use balancer::selection::Outcome;
use balancer::{LoadBalancer, Static};
use support::{Turns, backends};

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

#[tokio::test]
async fn a_select_allocates_nothing() {
    let balancer = LoadBalancer::<Turns>::new(Static::new(backends(1..=200))).unwrap();
    balancer.update().await.unwrap();
    assert_eq!(allocations(|| drop(Box::new(7))), 1, "the count counts");
    // The first load of a thread registers it with arc-swap.
    drop(balancer.select(b"key"));
    let count = allocations(|| {
        for _ in 0..1000 {
            assert!(balancer.select(b"key").is_some());
        }
    });
    assert_eq!(count, 0);
    let count = allocations(|| assert_eq!(balancer.attempts("key").count(), 200));
    assert_eq!(count, 0);
    let count = allocations(|| {
        let pick = balancer.select(b"key").unwrap();
        pick.complete(Outcome::Cancelled);
    });
    assert!(
        count <= 1,
        "the test selector keeps a list of outcomes: {count}"
    );
}
