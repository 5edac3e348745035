//! What a change of one backend in 1,000 costs.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use balancer::selection::Consistent;
use balancer::{Backend, LoadBalancer, Static};
use pingora_load_balancing::selection::consistent::KetamaHashing;
use pingora_load_balancing::{Backends, LoadBalancer as PingoraBalancer};
use serde_json::{Value, json};

use crate::Error;
use crate::engine::addr;
use crate::pingora::{Answers, backend};

const BACKENDS: usize = 1000;

/// 160 points each: 1.6 million on the ring.
const WEIGHT: u32 = 10;

pub(crate) fn run(quick: bool) -> Result<Value, Error> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .build()?;
    let rounds = if quick { 4 } else { 20 };
    let our = |index: usize| Backend::new(addr(index)).with_weight(WEIGHT);
    let list = Arc::new(Static::new((0..BACKENDS).map(our)));
    let ours = LoadBalancer::<Consistent>::new(Arc::clone(&list))?;
    let their = |index: usize| backend(index, WEIGHT as usize);
    let set: Result<BTreeSet<_>, _> = (0..BACKENDS).map(their).collect();
    let set = Arc::new(Mutex::new(set?));
    let theirs = PingoraBalancer::<KetamaHashing>::from_backends(Backends::new(Box::new(Answers(
        Arc::clone(&set),
    ))));
    runtime.block_on(ours.update())?;
    runtime
        .block_on(theirs.update())
        .map_err(|error| error.to_string())?;
    let (mut our_times, mut their_times) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        let index = BACKENDS / 2;
        if round % 2 == 0 {
            list.remove(&addr(index).into());
            set.lock()
                .expect("nobody panics with it")
                .remove(&their(index)?);
        } else {
            list.add(our(index));
            set.lock()
                .expect("nobody panics with it")
                .insert(their(index)?);
        }
        let start = Instant::now();
        let update = runtime.block_on(ours.update())?;
        our_times.push(start.elapsed().as_secs_f64() * 1e3);
        assert!(!update.is_unchanged());
        let start = Instant::now();
        runtime
            .block_on(theirs.update())
            .map_err(|error| error.to_string())?;
        their_times.push(start.elapsed().as_secs_f64() * 1e3);
    }
    let median = |times: &mut Vec<f64>| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    };
    let (ours, theirs) = (median(&mut our_times), median(&mut their_times));
    println!("\nupdate: one of {BACKENDS} backends of weight {WEIGHT} leaves or comes back");
    println!(
        "  ours {ours:.2} ms, pingora {theirs:.2} ms: {:.1}x",
        theirs / ours
    );
    Ok(json!({ "ours_ms": ours, "pingora_ms": theirs, "times": theirs / ours }))
}
