//! What an update changes and what it leaves alone.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::support::{
    Answer, Script, Turns, TurnsConfig, Watch, addr, backend, backends, number, ready,
};
use balancer::selection::{Outcome, Selector};
use balancer::{Backend, Builder, LoadBalancer, Options, Part, Static, UpdateError};

fn watched(mark: u32) -> (TurnsConfig, Arc<Watch>) {
    let watch = Arc::<Watch>::default();
    let config = TurnsConfig {
        mark,
        watch: Arc::clone(&watch),
    };
    (config, watch)
}

fn picks<S: Selector + ?Sized>(balancer: &LoadBalancer<S>, n: usize) -> Vec<u8> {
    let pick = |_| number(&balancer.select(b"key").unwrap().addr);
    (0..n).map(pick).collect()
}

#[tokio::test]
async fn before_the_first_update_there_is_none() {
    let balancer = LoadBalancer::<Turns>::new(Static::new(backends(1..=3))).unwrap();
    assert!(balancer.select(b"key").is_none());
    assert!(balancer.attempts("key").next().is_none());
    let update = balancer.update().await.unwrap();
    assert_eq!((update.generation, update.added.len()), (1, 3));
    assert_eq!(picks(&balancer, 4), [1, 2, 3, 1]);
}

#[tokio::test]
async fn errors_and_panics_keep_the_last_good_set() {
    let (config, watch) = watched(0);
    let script = Script::new([
        Answer::Found(backends([1, 2])),
        Answer::Fails,
        Answer::Fails,
        Answer::Fails,
        Answer::Fails,
        Answer::Fails,
        Answer::Found(backends([2, 1])),
        Answer::Found(vec![]),
        Answer::Panics,
        Answer::Found(backends([1, 3])),
    ]);
    let balancer = LoadBalancer::<Turns>::with_config(script, config).unwrap();
    balancer.update().await.unwrap();
    assert_eq!(picks(&balancer, 1), [1]);
    for failed in 1..=5 {
        let error = balancer.update().await.unwrap_err();
        assert!(matches!(error, UpdateError::Discovery(_)), "{error}");
        let status = balancer.status();
        assert_eq!(status.failed_updates, failed);
        assert!(matches!(status.last_error, Some(UpdateError::Discovery(_))));
        assert_eq!(ready(&balancer), [1, 2]);
    }

    let builds = watch.builds.load(Ordering::Relaxed);
    let update = balancer.update().await.unwrap();
    assert!(update.is_unchanged(), "the same set in another order");
    assert_eq!(update.generation, 1);
    assert_eq!(watch.builds.load(Ordering::Relaxed), builds);
    assert_eq!(picks(&balancer, 1), [2], "the position goes on");
    assert!(balancer.status().last_error.is_none());

    assert_eq!(balancer.update().await.unwrap().removed, [addr(1), addr(2)]);
    assert!(balancer.select(b"key").is_none());

    let error = balancer.update().await.unwrap_err();
    let UpdateError::Panicked { part, message } = error else {
        panic!("{error}");
    };
    assert_eq!(
        (part, message.as_str()),
        (Part::Discovery, "discovery fell over")
    );

    assert_eq!(balancer.update().await.unwrap().added, [addr(1), addr(3)]);
    assert_eq!(ready(&balancer), [1, 3]);
}

#[tokio::test]
async fn a_set_below_the_minimum_is_refused() {
    let script = Script::new([Answer::Found(backends([1, 2])), Answer::Found(vec![])]);
    let options = Options::default().min_backends(1);
    let builder = LoadBalancer::<Turns>::builder(script, TurnsConfig::default());
    let balancer = builder.options(options).build().unwrap();
    balancer.update().await.unwrap();
    let error = balancer.update().await.unwrap_err().to_string();
    assert_eq!(error, "0 backends discovered, the minimum is 1");
    assert_eq!(ready(&balancer), [1, 2]);
}

#[tokio::test]
async fn a_selector_that_panics_leaves_the_old_one_serving() {
    let (config, watch) = watched(0);
    let list = Arc::new(Static::new(backends([1, 2])));
    let balancer = LoadBalancer::<Turns>::with_config(Arc::clone(&list), config).unwrap();
    balancer.update().await.unwrap();
    watch.panic_at_weight.store(13, Ordering::Relaxed);
    list.add(backend(3).with_weight(13));
    let error = balancer.update().await.unwrap_err();
    let UpdateError::Panicked { part, message } = error else {
        panic!("{error}");
    };
    assert_eq!((part, message.as_str()), (Part::Selector, "told to panic"));
    assert_eq!(ready(&balancer), [1, 2]);
    list.add(backend(3).with_weight(1));
    balancer.update().await.unwrap();
    assert_eq!(ready(&balancer), [1, 2, 3]);
}

/// What flips and flips back while the next set is being built is as it was.
#[test]
fn a_flip_and_back_during_a_build_leaves_it_in_rotation() {
    let list = Arc::new(Static::new(backends([1, 2])));
    let (started, starts) = std::sync::mpsc::channel();
    let (go_on, goes_on) = std::sync::mpsc::channel::<()>();
    let goes_on = std::sync::Mutex::new(goes_on);
    let balancer =
        LoadBalancer::<dyn Selector>::from_factory(Arc::clone(&list), move |nodes, _| {
            use balancer::selection::Build;
            if nodes.len() == 3 {
                started.send(()).unwrap();
                goes_on.lock().unwrap().recv().unwrap();
            }
            Ok(Arc::new(Turns::build(nodes, &TurnsConfig::default())?))
        })
        .unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .build()
        .unwrap();
    runtime.block_on(balancer.update()).unwrap();
    list.add(backend(3));
    std::thread::scope(|scope| {
        scope.spawn(|| runtime.block_on(balancer.update()).unwrap());
        starts.recv().unwrap();
        for enabled in [false, true] {
            balancer.set_enabled(&addr(1), enabled);
        }
        balancer.set_enabled(&addr(2), false);
        go_on.send(()).unwrap();
    });
    assert_eq!(ready(&balancer), [1, 3]);
    assert!(picks(&balancer, 4).contains(&1));
}

#[tokio::test]
async fn every_rebuild_uses_the_config_given_once() {
    let (config, watch) = watched(77);
    let list = Arc::new(Static::new(backends([1])));
    let balancer = LoadBalancer::<Turns>::with_config(Arc::clone(&list), config).unwrap();
    for n in 2..=4 {
        balancer.update().await.unwrap();
        list.add(backend(n));
    }
    // One build over no nodes proves the config when the balancer is made.
    assert_eq!(*watch.marks.lock().unwrap(), [77; 4]);
}

#[tokio::test]
async fn operator_state_outlives_weight_and_ext_but_not_removal() {
    let list = Arc::new(Static::new(backends([1, 2])));
    let balancer = LoadBalancer::<Turns>::new(Arc::clone(&list)).unwrap();
    assert!(!balancer.set_enabled(&addr(1), false), "not a member yet");
    balancer.update().await.unwrap();
    assert!(balancer.set_enabled(&addr(1), false));
    assert_eq!(ready(&balancer), [2]);

    list.add(backend(1).with_weight(5));
    assert_eq!(balancer.update().await.unwrap().changed, [addr(1)]);
    assert_eq!(ready(&balancer), [2]);

    list.add(backend(1).with_weight(5).with_ext("eu-west"));
    assert!(balancer.update().await.unwrap().is_unchanged());
    assert_eq!(ready(&balancer), [2]);
    balancer.set_enabled(&addr(1), true);
    balancer.set_enabled(&addr(2), false);
    let pick = balancer.select(b"").unwrap();
    assert_eq!(
        pick.ext.get::<&str>(),
        Some(&"eu-west"),
        "new ext is seen at once"
    );
    drop(pick);

    list.add(backend(1).with_weight(5));
    balancer.update().await.unwrap();
    assert!(
        balancer.select(b"").unwrap().ext.is_empty(),
        "and so is its absence"
    );

    list.remove(&addr(2));
    balancer.update().await.unwrap();
    list.add(backend(2));
    balancer.update().await.unwrap();
    assert_eq!(ready(&balancer), [1, 2], "announced again, enabled again");
}

/// The entries of a snapshot are made anew by every publication, and a test can tell: this follows
/// the publications by the memory that a look borrows from.
#[tokio::test]
async fn equal_values_of_the_users_own_are_no_change() {
    #[derive(Clone)]
    struct Opaque;
    let list = Arc::new(Static::new([backend(1).with_ext("east"), backend(2)]));
    let balancer = LoadBalancer::<Turns>::new(Arc::clone(&list)).unwrap();
    balancer.update().await.unwrap();
    let first = balancer.select_where(b"", |b| b.addr == addr(1)).unwrap();
    let is_published_anew = || {
        let now = balancer.select_where(b"", |b| b.addr == addr(1)).unwrap();
        !std::ptr::eq::<Backend>(&*now, &*first)
    };
    list.set([backend(2), backend(1).with_ext("east")]);
    let update = balancer.update().await.unwrap();
    assert_eq!((update.generation, update.build.as_nanos()), (1, 0));
    assert!(!is_published_anew());
    let mut opaque = backend(1).with_ext("east");
    opaque.ext.insert(Opaque);
    list.add(opaque);
    assert_eq!(balancer.update().await.unwrap().generation, 1);
    assert!(is_published_anew(), "it might be another");
}

#[tokio::test]
async fn requests_in_flight_are_counted_over_updates_and_returned_once() {
    let list = Arc::new(Static::new(backends([1, 2])));
    let balancer = LoadBalancer::<Turns>::new(Arc::clone(&list)).unwrap();
    balancer.update().await.unwrap();
    let in_flight = || {
        let status = balancer.status();
        let counts = status.backends.iter();
        counts
            .map(|b| (number(&b.addr), b.in_flight))
            .collect::<Vec<_>>()
    };
    let mut held: Vec<_> = (0..4).map(|_| balancer.select(b"").unwrap()).collect();
    assert_eq!(in_flight(), [(1, 2), (2, 2)]);

    list.add(backend(3));
    list.add(backend(1).with_weight(7));
    balancer.update().await.unwrap();
    assert_eq!(in_flight(), [(1, 2), (2, 2), (3, 0)]);

    let on_1 = held.remove(0);
    assert_eq!(on_1.addr, addr(1));
    held.clear();
    assert_eq!(in_flight(), [(1, 1), (2, 0), (3, 0)]);

    list.remove(&addr(1));
    balancer.update().await.unwrap();
    list.add(backend(4));
    balancer.update().await.unwrap();
    list.add(backend(1));
    balancer.update().await.unwrap();
    assert_eq!(
        in_flight(),
        [(1, 1), (2, 0), (3, 0), (4, 0)],
        "it finds its counter again"
    );
    drop(on_1);
    assert_eq!(in_flight(), [(1, 0), (2, 0), (3, 0), (4, 0)]);
}

#[tokio::test]
async fn the_selector_learns_the_outcome() {
    let (config, watch) = watched(0);
    let list = Static::new(backends([1, 2]));
    let balancer = LoadBalancer::<Turns>::with_config(list, config).unwrap();
    balancer.update().await.unwrap();
    balancer.select(b"").unwrap().complete(Outcome::Cancelled);
    drop(balancer.select(b"").unwrap());
    let pick = balancer.select(b"").unwrap();
    pick.complete(Outcome::success(std::time::Duration::from_millis(3)));
    let expected = [
        (0, Outcome::Cancelled),
        (0, Outcome::success(std::time::Duration::from_millis(3))),
    ];
    assert_eq!(*watch.observed.lock().unwrap(), expected);
    assert!(balancer.status().backends.iter().all(|b| b.in_flight == 0));
}

#[tokio::test]
async fn weights_of_one_address_are_added() {
    let twice = [
        backend(1).with_weight(3),
        backend(2),
        backend(1).with_weight(4),
    ];
    let balancer = LoadBalancer::<Turns>::new(Static::new(twice)).unwrap();
    balancer.update().await.unwrap();
    let status = balancer.status();
    let weights: Vec<_> = status.backends.iter().map(|b| b.weight).collect();
    assert_eq!(weights, [7, 1]);
}

#[tokio::test]
async fn attempts_are_distinct_and_complete_tier_by_tier() {
    let list = Arc::new(Static::new([
        backend(1),
        backend(2).with_weight(0),
        backend(3),
        backend(4).with_tier(2),
        backend(5),
        backend(6).with_tier(2),
    ]));
    let balancer = LoadBalancer::<Turns>::new(Arc::clone(&list)).unwrap();
    balancer.update().await.unwrap();
    let mut order: Vec<_> = balancer
        .attempts(vec![1, 2, 3])
        .map(|pick| number(&pick.addr))
        .collect();
    order[..3].sort_unstable();
    order[3..].sort_unstable();
    assert_eq!(order, [1, 3, 5, 4, 6]);

    for n in [1, 3, 5] {
        assert_ne!(number(&balancer.select(b"").unwrap().addr), 4);
        balancer.set_enabled(&addr(n), false);
    }
    assert!([4, 6].contains(&number(&balancer.select(b"").unwrap().addr)));
}

#[tokio::test]
async fn attempts_pass_over_what_left_while_they_waited() {
    let list = Arc::new(Static::new(backends(1..=4)));
    let balancer = LoadBalancer::<Turns>::new(Arc::clone(&list)).unwrap();
    balancer.update().await.unwrap();
    let mut attempts = balancer.attempts("key");
    assert_eq!(attempts.next().unwrap().addr, addr(1));
    list.remove(&addr(2));
    balancer.update().await.unwrap();
    balancer.set_enabled(&addr(3), false);
    let rest: Vec<_> = attempts.map(|pick| number(&pick.addr)).collect();
    assert_eq!(rest, [4]);
}

#[tokio::test]
async fn a_change_in_one_tier_leaves_the_selector_of_the_other_alone() {
    let (config, watch) = watched(0);
    let list = Arc::new(Static::new([
        backend(1),
        backend(2),
        backend(3).with_tier(1),
    ]));
    let balancer = LoadBalancer::<Turns>::with_config(Arc::clone(&list), config).unwrap();
    balancer.update().await.unwrap();
    let builds = watch.builds.load(Ordering::Relaxed);
    assert_eq!(picks(&balancer, 3), [1, 2, 1]);
    list.add(backend(4).with_tier(1));
    balancer.update().await.unwrap();
    assert_eq!(watch.builds.load(Ordering::Relaxed), builds + 1);
    assert_eq!(picks(&balancer, 1), [2], "tier 0 goes on where it was");
}

#[tokio::test]
async fn a_selector_can_be_chosen_at_run_time() {
    let list = Arc::new(Static::new(backends([1, 2])));
    let config = TurnsConfig::default();
    let balancer =
        LoadBalancer::<dyn Selector>::from_factory(Arc::clone(&list), move |nodes, previous| {
            use balancer::selection::Build;
            assert_eq!(previous.map(Selector::len), (nodes.len() > 2).then_some(2));
            Ok(Arc::new(Turns::build(nodes, &config)?))
        })
        .unwrap();
    balancer.update().await.unwrap();
    list.add(backend(3));
    balancer.update().await.unwrap();
    assert_eq!(picks(&balancer, 3), [1, 2, 3]);
}

#[test]
fn options_out_of_range_are_refused_with_the_figure() {
    let build = |options| {
        LoadBalancer::<Turns>::builder(Static::default(), TurnsConfig::default())
            .options(options)
            .build()
            .unwrap_err()
            .to_string()
    };
    let zero = std::time::Duration::ZERO;
    let options = Options::default;
    assert_eq!(
        build(options().check_jitter(101)),
        "check_jitter is 101, the limits are 0 to 100"
    );
    assert_eq!(
        build(options().update_interval(zero)),
        "update_interval is 0, it must be longer"
    );
    assert!(build(options().check_interval(zero)).starts_with("check_interval is 0"));
    assert!(build(options().parallel_checks(0)).starts_with("parallel_checks is 0"));
}

#[test]
fn everything_is_send_and_sync() {
    fn both<T: Send + Sync>() {}
    both::<LoadBalancer<Turns>>();
    both::<LoadBalancer<dyn Selector>>();
    both::<Builder<dyn Selector>>();
    both::<balancer::Pick>();
    both::<balancer::Attempts<dyn Selector, Vec<u8>>>();
    both::<Backend>();
    both::<balancer::Status>();
    both::<UpdateError>();
}
