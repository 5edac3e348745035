//! Up to 256 nodes a pick allocates nothing, whatever is eligible.
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

#[expect(dead_code, reason = "the contract suite needs more of it")]
mod every;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use every::{id, nodes, selectors};
use selection::{Eligible, NodeId, ReadySet, Tried};

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: as promised by the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as promised by the caller.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static GLOBAL: Counting = Counting;

fn allocations(work: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.get();
    work();
    ALLOCATIONS.get() - before
}

#[test]
fn the_counter_counts() {
    assert_eq!(allocations(|| drop(std::hint::black_box(Box::new(1u8)))), 1);
    assert_eq!(allocations(|| ()), 0);
}

#[test]
fn a_pick_allocates_nothing_up_to_256_nodes() {
    for case in selectors() {
        for len in [1, 2, 65, 256] {
            let weights: Vec<u32> = [1, 3, 0, 2].into_iter().cycle().take(len).collect();
            let selector = (case.build)(&nodes(&weights));
            let ready = ReadySet::all(len);
            let mut tried = Tried::new();
            tried.insert(id(len - 1));
            let reject = |_: NodeId| false;
            let counted = allocations(|| {
                for key in [&b""[..], b"a", b"key-1", b"key-2", b"key-3"] {
                    let all = Eligible::new(&ready);
                    assert!(selector.pick(key, &all).is_some());
                    let _ = selector.pick(key, &all.except(&tried));
                    assert!(selector.pick(key, &all.only_if(&reject)).is_none());
                }
                for index in 1..len {
                    ready.set(id(index), false);
                }
                for key in [&b""[..], b"a", b"key-1", b"key-2", b"key-3"] {
                    assert_eq!(selector.pick(key, &Eligible::new(&ready)), Some(id(0)));
                }
            });
            assert_eq!(counted, 0, "{} with {len} nodes", case.name);
        }
    }
}
