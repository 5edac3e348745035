//! What is too large is an error before anything is allocated; a lookup never allocates.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use ketama::{Bucket, BuildError, Continuum, RingConfig};

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: every call is passed on to the system allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller's contract is the system allocator's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the pointer came from `alloc` above, thus from the system allocator.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = ALLOCATIONS.get();
    let result = work();
    (result, ALLOCATIONS.get() - before)
}

fn pool(weights: &[u32]) -> Vec<Bucket> {
    (1..)
        .zip(weights)
        .map(|(i, &weight)| Bucket::from_text(format!("shard-{i}"), weight))
        .collect()
}

/// `n` buckets of which only the last has points.
fn pool_of_one(n: usize) -> Vec<Bucket> {
    let mut weights = vec![0; n - 1];
    weights.push(1);
    pool(&weights)
}

#[test]
fn too_many_points_are_refused_before_allocating() {
    for (weights, points) in [
        (&[u32::MAX][..], 687_194_767_200),
        (&[26_843_546], 4_294_967_360), // Times 160 wraps to 64 in a `u32`.
        (&[1 << 31, 1 << 31], 687_194_767_360), // The sum wraps to 0.
        (&[1_000_000, 1], 160_000_160),
    ] {
        let buckets = pool(weights);
        let (built, count) = allocations(|| Continuum::new(&buckets));
        let max = 1 << 26;
        assert_eq!(
            built.unwrap_err(),
            BuildError::TooManyPoints { points, max }
        );
        assert_eq!(count, 0, "{weights:?}");
    }
}

#[cfg(feature = "schemes")]
#[test]
fn what_a_scheme_refuses_is_refused_before_allocating() {
    use ketama::{Scheme, SchemeConfig};
    let buckets = pool(&[1, 1]);
    let build = |replicas| {
        let config = SchemeConfig::new(Scheme::BrpcKetama { replicas });
        allocations(|| Continuum::with_scheme(&buckets, &config).unwrap_err())
    };
    let (replicas, multiple_of) = (102, 4);
    let error = BuildError::Replicas {
        replicas,
        multiple_of,
    };
    assert_eq!(build(102), (error, 0));
    let (points, max) = (2 * (1 << 30), 1 << 26);
    assert_eq!(
        build(1 << 30),
        (BuildError::TooManyPoints { points, max }, 0)
    );
}

#[test]
fn the_limit_can_be_set_and_names_its_figures() {
    let buckets = pool(&[2, 1]);
    let limit = |max| RingConfig::new().max_points(max);
    assert_eq!(
        Continuum::with_config(&buckets, &limit(480)).unwrap().len(),
        480
    );
    let error = Continuum::with_config(&buckets, &limit(479)).unwrap_err();
    let text = "the weights ask for 480 ring points, the limit is 479";
    assert_eq!(error.to_string(), text);
    // No setting lifts the limit of the circle itself.
    let error = Continuum::with_config(&pool(&[26_843_546]), &limit(u64::MAX)).unwrap_err();
    let (points, max) = (4_294_967_360, u64::from(u32::MAX));
    assert_eq!(error, BuildError::TooManyPoints { points, max });
}

#[test]
fn v1_numbers_more_than_65536_buckets() {
    for n in [65_535, 65_536, 65_537] {
        let ring = Continuum::new(&pool_of_one(n)).unwrap();
        assert_eq!(ring.node_idx(b"key"), Some(n - 1));
    }
}

#[cfg(feature = "v2")]
#[test]
fn v2_refuses_more_than_65536_buckets() {
    let point_multiple = std::num::NonZeroU32::MIN;
    let config = RingConfig::new().version(ketama::Version::V2 { point_multiple });
    for n in [65_535, 65_536] {
        let ring = Continuum::with_config(&pool_of_one(n), &config).unwrap();
        assert_eq!(ring.node_idx(b"key"), Some(n - 1));
    }
    let buckets = pool_of_one(65_537);
    let (built, count) = allocations(|| Continuum::with_config(&buckets, &config));
    let error = built.unwrap_err();
    let text = "65537 buckets, the limit of this ring layout is 65536";
    assert_eq!(error.to_string(), text);
    assert_eq!(count, 0);
}

#[test]
fn a_lookup_allocates_nothing() {
    let ring = Continuum::new(&pool(&[1, 2, 3])).unwrap();
    let (found, count) = allocations(|| {
        (0..1_000u32)
            .filter(|key| {
                let key = key.to_le_bytes();
                ring.node(&key).is_some() && ring.node_iter(&key).nth(20).is_some()
            })
            .count()
    });
    assert_eq!((found, count), (1_000, 0));
}

#[test]
fn public_types_are_send_and_sync() {
    fn check<T: Send + Sync>() {}
    check::<Bucket>();
    check::<BuildError>();
    check::<Continuum>();
    check::<RingConfig>();
    check::<ketama::NodeIter<'_>>();
    check::<ketama::Nodes<'_>>();
    check::<ketama::Walk<'_>>();
}
