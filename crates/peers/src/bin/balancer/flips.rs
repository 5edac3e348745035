//! Picks while single backends change.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use balancer::selection::Consistent;
use balancer::{Backend, LoadBalancer, Static};
use pingora_load_balancing::selection::consistent::KetamaHashing;
use pingora_load_balancing::{Backends, LoadBalancer as PingoraBalancer};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::Error;
use crate::engine::{addr, index};
use crate::pingora::{Answers, backend, number};

/// Backends by number, and their weights.
type Members = &'static [(usize, u32)];

/// What changes from one set to the next: (backend, weight) for even and for odd steps.
const SCENARIOS: [(&str, Members, Members); 3] = [
    ("the only backend gets another weight", &[(1, 1)], &[(1, 2)]),
    ("the only backend is replaced", &[(1, 1)], &[(2, 1)]),
    (
        "one of two leaves and comes back",
        &[(1, 1), (2, 1)],
        &[(1, 1)],
    ),
];

const READERS: usize = 2;

/// Picks that went wrong.
#[derive(Clone, Copy, Debug, Default)]
struct Wrong {
    picks: usize,
    /// That found nobody, though a backend is ready in every set.
    none: usize,
    /// That found a backend of neither the set before nor the one after.
    strangers: usize,
}

pub(crate) fn run(quick: bool) -> Result<(Value, bool), Error> {
    let flips = if quick { 2_000 } else { 50_000 };
    let (mut rows, mut good) = (Vec::new(), true);
    println!("flips: {flips} changes of a single backend, {READERS} threads that pick meanwhile\n");
    for (name, even, odd) in SCENARIOS {
        let sets = [even, odd];
        let ours = ours(sets, flips)?;
        let theirs = theirs(sets, flips)?;
        println!("{name}");
        for (engine, wrong) in [("ours", ours), ("pingora", theirs)] {
            let Wrong {
                picks,
                none,
                strangers,
            } = wrong;
            println!(
                "  {engine:<8} {picks:>10} picks, {none:>6} found nobody, {strangers:>4} a stranger"
            );
            rows.push(json!({
                "scenario": name, "engine": engine, "flips": flips,
                "picks": picks, "none": none, "strangers": strangers,
            }));
        }
        good &= ours.none == 0 && ours.strangers == 0;
    }
    Ok((Value::Array(rows), good))
}

fn ours(sets: [&[(usize, u32)]; 2], flips: usize) -> Result<Wrong, Error> {
    let list = Arc::new(Static::default());
    let balancer = LoadBalancer::<Consistent>::new(Arc::clone(&list))?;
    let apply = |runtime: &Runtime, step: usize| {
        let member = |&(index, weight)| Backend::new(addr(index)).with_weight(weight);
        list.set(sets[step % 2].iter().map(member));
        runtime
            .block_on(balancer.update())
            .expect("the list is good");
    };
    let pick = |key: &[u8]| {
        let pick = balancer.select(key)?;
        pick.addr.as_inet().map(index)
    };
    count(sets, flips, apply, pick)
}

fn theirs(sets: [&[(usize, u32)]; 2], flips: usize) -> Result<Wrong, Error> {
    let set = Arc::new(Mutex::new(BTreeSet::new()));
    let discovery = Box::new(Answers(Arc::clone(&set)));
    let balancer = PingoraBalancer::<KetamaHashing>::from_backends(Backends::new(discovery));
    let apply = |runtime: &Runtime, step: usize| {
        let member = |&(index, weight)| backend(index, weight as usize).expect("an address");
        *set.lock().expect("nobody panics with it") = sets[step % 2].iter().map(member).collect();
        runtime
            .block_on(balancer.update())
            .expect("the list is good");
    };
    count(sets, flips, apply, |key| {
        balancer.select(key, 1000).map(|backend| number(&backend))
    })
}

fn count(
    sets: [&[(usize, u32)]; 2],
    flips: usize,
    apply: impl Fn(&Runtime, usize),
    pick: impl Fn(&[u8]) -> Option<usize> + Sync,
) -> Result<Wrong, Error> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .build()?;
    let (stop, step) = (AtomicBool::new(false), AtomicUsize::new(0));
    apply(&runtime, 0);
    let read = || {
        let mut wrong = Wrong::default();
        while !stop.load(Ordering::Relaxed) {
            let before = step.load(Ordering::SeqCst);
            let found = pick(b"key");
            let after = step.load(Ordering::SeqCst);
            wrong.picks += 1;
            let known = |index| {
                let set = |step: usize| sets[step % 2].iter();
                (before..=after + 1).any(|step| set(step).any(|&(member, _)| member == index))
            };
            match found {
                None => wrong.none += 1,
                Some(index) if !known(index) => wrong.strangers += 1,
                Some(_) => {}
            }
        }
        wrong
    };
    let wrong = std::thread::scope(|scope| {
        let readers: Vec<_> = (0..READERS).map(|_| scope.spawn(read)).collect();
        for next in 1..=flips {
            apply(&runtime, next);
            step.store(next, Ordering::SeqCst);
        }
        stop.store(true, Ordering::Relaxed);
        readers.into_iter().fold(Wrong::default(), |sum, reader| {
            let wrong = reader.join().expect("a pick does not panic");
            Wrong {
                picks: sum.picks + wrong.picks,
                none: sum.none + wrong.none,
                strangers: sum.strangers + wrong.strangers,
            }
        })
    });
    Ok(wrong)
}
