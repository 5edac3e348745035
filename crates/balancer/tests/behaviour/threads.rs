//! Requests while members come and go.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use crate::support::{Turns, TurnsConfig, addr, backend, backends, number};
use balancer::{LoadBalancer, Options, SharedHealth, Static};

/// Backend 1 is always a member and ready; one of 2 to 4 at a time comes and goes, and another is
/// switched off and on.
#[test]
fn never_none_and_never_a_stranger() {
    let list = Arc::new(Static::new(backends([1])));
    let balancer = Arc::new(LoadBalancer::<Turns>::new(Arc::clone(&list)).unwrap());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .build()
        .unwrap();
    runtime.block_on(balancer.update()).unwrap();
    let stop = AtomicBool::new(false);
    // The update under way is from set `step` to set `step + 1`; both are known to the readers.
    let step = AtomicUsize::new(0);
    let members = |step: usize| match step % 4 {
        0 => BTreeSet::from([1]),
        1 => BTreeSet::from([1, 2]),
        2 => BTreeSet::from([1, 2, 3]),
        _ => BTreeSet::from([1, 3]),
    };
    thread::scope(|scope| {
        let readers: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| {
                    let mut picks = 0;
                    while !stop.load(Ordering::Relaxed) {
                        let before = step.load(Ordering::SeqCst);
                        let pick = balancer.select(b"key").map(|pick| number(&pick.addr));
                        let after = step.load(Ordering::SeqCst);
                        let pick = pick.expect("backend 1 is in every set, and ready");
                        let known = (before..=after + 1).any(|step| members(step).contains(&pick));
                        assert!(known, "{pick} is in no set from {before} to {after}");
                        picks += 1;
                    }
                    picks
                })
            })
            .collect();
        for next in 1..=2000 {
            list.set(backends(members(next)));
            runtime.block_on(balancer.update()).unwrap();
            step.store(next, Ordering::SeqCst);
            if members(next).contains(&3) {
                assert!(balancer.set_enabled(&addr(3), next % 3 == 0));
            }
        }
        stop.store(true, Ordering::Relaxed);
        let picks: usize = readers
            .into_iter()
            .map(|reader| reader.join().unwrap())
            .sum();
        assert!(picks > 0);
    });
    assert!(
        balancer
            .status()
            .backends
            .iter()
            .all(|backend| backend.in_flight == 0)
    );
}

/// Switches thrown while updates run are never lost in a snapshot that is being replaced.
#[test]
fn the_last_switch_wins() {
    let list = Arc::new(Static::new(backends([1, 2])));
    let balancer = Arc::new(LoadBalancer::<Turns>::new(Arc::clone(&list)).unwrap());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .build()
        .unwrap();
    runtime.block_on(balancer.update()).unwrap();
    for round in 0..500u32 {
        list.add(backend(2).with_weight(1 + round));
        let enabled = round % 2 == 0;
        thread::scope(|scope| {
            scope.spawn(|| runtime.block_on(balancer.update()).unwrap());
            scope.spawn(|| {
                balancer.set_enabled(&addr(1), !enabled);
                balancer.set_enabled(&addr(1), enabled);
            });
        });
        let picked = (0..4).any(|_| balancer.select(b"").unwrap().addr == addr(1));
        assert_eq!(picked, enabled, "round {round}");
    }
}

/// The same across two balancers that share the health of their backends, while both of them
/// publish and one of them drops the backend and takes it up again.
#[test]
fn the_last_switch_wins_in_all_who_share_it() {
    let health = SharedHealth::new(&Options::default());
    let sharing = || {
        let list = Arc::new(Static::new(backends([1, 2])));
        let builder = LoadBalancer::<Turns>::builder(Arc::clone(&list), TurnsConfig::default());
        (list, builder.shared_health(&health).build().unwrap())
    };
    let ((these, one), (those, other)) = (sharing(), sharing());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .build()
        .unwrap();
    runtime.block_on(one.update()).unwrap();
    runtime.block_on(other.update()).unwrap();
    for round in 0..300u32 {
        let enabled = round % 2 == 0;
        thread::scope(|scope| {
            scope.spawn(|| {
                these.add(backend(2).with_weight(1 + round));
                runtime.block_on(one.update()).unwrap();
            });
            scope.spawn(|| {
                for set in [backends([2]), backends([1, 2])] {
                    those.set(set);
                    runtime.block_on(other.update()).unwrap();
                }
            });
            scope.spawn(|| {
                assert!(one.set_enabled(&addr(1), !enabled));
                assert!(one.set_enabled(&addr(1), enabled));
            });
        });
        for balancer in [&one, &other] {
            let picked = (0..4).any(|_| balancer.select(b"").unwrap().addr == addr(1));
            assert_eq!(picked, enabled, "round {round}");
        }
    }
    let backends = one.status().backends;
    assert!(backends.iter().all(|backend| backend.in_flight == 0));
}
