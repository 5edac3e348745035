//! Several selectors over the same members.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use balancer::selection::{Consistent, KetamaConfig, LeastConn, Outcome, RoundRobin, Selector};
use balancer::{Backend, Builder, LoadBalancer, Static};

use crate::support::{Turns, TurnsConfig, addr, backend, backends, number};

fn ring_and_least_conn(list: &Arc<Static>) -> LoadBalancer<dyn Selector> {
    Builder::of::<Consistent>(Arc::clone(list), KetamaConfig::default())
        .and_of::<LeastConn>(Default::default())
        .build()
        .unwrap()
}

#[tokio::test]
async fn each_lane_picks_by_its_own_rule_and_all_count_together() {
    let list = Arc::new(Static::new(backends(1..=3)));
    let balancer = ring_and_least_conn(&list);
    balancer.update().await.unwrap();
    let alone = LoadBalancer::<Consistent>::new(Static::new(backends(1..=3))).unwrap();
    alone.update().await.unwrap();
    for n in 0..100 {
        let key = format!("key-{n}");
        let (ring, alone) = (
            balancer.select(key.as_bytes()),
            alone.select(key.as_bytes()),
        );
        assert_eq!(ring.unwrap().addr, alone.unwrap().addr);
    }
    let least = balancer.lane(1).unwrap();
    let on_the_ring = balancer.select(b"key").unwrap();
    let others: Vec<_> = (0..2).map(|_| least.select(b"key").unwrap()).collect();
    assert!(others.iter().all(|pick| pick.addr != on_the_ring.addr));
    assert_ne!(others[0].addr, others[1].addr);
    assert_eq!(least.attempts("key").count(), 3);
    assert!(least.peek(b"", |backend| number(&backend.addr)).is_some());
    assert!(balancer.lane(2).is_none());
}

#[tokio::test]
async fn updates_and_flips_reach_all_lanes() {
    let list = Arc::new(Static::new(backends([1, 2])));
    let balancer = Arc::new(ring_and_least_conn(&list));
    balancer.update().await.unwrap();
    let mut handle = balancer.handle().lane(1).unwrap();
    assert!(balancer.handle().lane(2).is_none());
    balancer.set_enabled(&addr(1), false);
    let least = balancer.lane(1).unwrap();
    for _ in 0..4 {
        assert_eq!(number(&balancer.select(b"key").unwrap().addr), 2);
        assert_eq!(number(&least.select(b"key").unwrap().addr), 2);
        assert_eq!(number(&handle.select(b"key").unwrap().addr), 2);
    }
    list.set([backend(3), backend(1)]);
    balancer.update().await.unwrap();
    for _ in 0..4 {
        assert_eq!(number(&balancer.select(b"key").unwrap().addr), 3);
        assert_eq!(number(&least.select(b"key").unwrap().addr), 3);
        let is_1 = |backend: &Backend| backend.addr == addr(1);
        assert!(least.select_where(b"key", is_1).is_none(), "still disabled");
    }
}

#[tokio::test]
async fn the_lane_that_picked_learns_the_outcome() {
    let configs = [TurnsConfig::default(), TurnsConfig::default()];
    let watches = configs.clone().map(|config| config.watch);
    let [first, second] = configs;
    let balancer = LoadBalancer::<Turns>::builder(Static::new(backends([1])), first)
        .and(second)
        .build()
        .unwrap();
    balancer.update().await.unwrap();
    let pick = balancer.lane(1).unwrap().select(b"").unwrap();
    pick.complete(Outcome::Cancelled);
    let observed = watches.map(|watch| watch.observed.lock().unwrap().len());
    assert_eq!(observed, [0, 1]);
}

/// C9: requests held over an update that adds a backend.
#[tokio::test]
async fn least_conn_counts_over_updates() {
    let list = Arc::new(Static::new(backends([1, 2])));
    let balancer = LoadBalancer::<LeastConn>::new(Arc::clone(&list)).unwrap();
    balancer.update().await.unwrap();
    let held: Vec<_> = (0..4).map(|_| balancer.select(b"").unwrap()).collect();
    list.add(backend(3));
    balancer.update().await.unwrap();
    let next: Vec<_> = (0..2).map(|_| balancer.select(b"").unwrap()).collect();
    assert!(next.iter().all(|pick| number(&pick.addr) == 3));
    drop(held);
    let counts = || {
        let status = balancer.status();
        let counts = status.backends.iter();
        counts
            .map(|b| (number(&b.addr), b.in_flight))
            .collect::<Vec<_>>()
    };
    assert_eq!(counts(), [(1, 0), (2, 0), (3, 2)]);

    let held = balancer.select_where(b"", |backend| backend.addr == addr(1));
    for set in [backends([2, 3]), backends([1, 2, 3])] {
        list.set(set);
        balancer.update().await.unwrap();
    }
    assert_eq!(counts(), [(1, 1), (2, 0), (3, 2)]);
    let other = balancer.select(b"").unwrap();
    assert_eq!(number(&other.addr), 2, "1 is known to be busier");
    drop((held, other));
    assert_eq!(counts(), [(1, 0), (2, 0), (3, 2)]);
}

/// Two lanes read one after the other never see two sets of which neither follows from the other.
#[test]
fn all_lanes_are_of_one_generation() {
    let list = Arc::new(Static::new(backends([1])));
    let balancer = Builder::of::<Consistent>(Arc::clone(&list), KetamaConfig::default())
        .and_of::<RoundRobin>(Default::default())
        .build()
        .unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .build()
        .unwrap();
    runtime.block_on(balancer.update()).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let tiers = balancer.tiers();
                let lens: Vec<_> = tiers[0].selectors.iter().map(|s| s.len()).collect();
                assert_eq!(lens, [tiers[0].nodes.len(); 2]);
            }
        });
        for step in (0..5u8).cycle().take(300) {
            list.set(backends(1..=1 + step));
            runtime.block_on(balancer.update()).unwrap();
        }
        stop.store(true, Ordering::Relaxed);
        reader.join().unwrap();
    });
}
