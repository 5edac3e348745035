//! Several balancers over the same backends, with one health.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use balancer::selection::{FailureKind, Outcome};
use balancer::{
    Admin, Backend, Cause, CheckError, Condition, ConfigError, Consecutive, HealthCheck,
    LoadBalancer, Options, Passive, SharedHealth, Static, Thresholds,
};
use tokio::sync::oneshot;
use tokio::time::advance;

use crate::support::{Turns, TurnsConfig, addr, backend, backends, number, ready};

const SECOND: Duration = Duration::from_secs(1);
const FAILED: Outcome = Outcome::Failure(FailureKind::Connect);

fn options() -> Options {
    let rule = Consecutive::default().failures(1).base(10 * SECOND);
    Options::default()
        .passive(Passive::Consecutive(rule))
        .check_interval(SECOND)
        .check_jitter(0)
        .update_interval(3600 * SECOND)
}

async fn sharing(health: &SharedHealth, list: &Arc<Static>) -> LoadBalancer<Turns> {
    sharing_with(health, list, options()).await
}

async fn sharing_with(
    health: &SharedHealth,
    list: &Arc<Static>,
    options: Options,
) -> LoadBalancer<Turns> {
    let builder = LoadBalancer::<Turns>::builder(Arc::clone(list), TurnsConfig::default());
    let balancer = builder.options(options).shared_health(health).build();
    let balancer = balancer.unwrap();
    balancer.update().await.unwrap();
    balancer
}

fn list(numbers: impl IntoIterator<Item = u8>) -> Arc<Static> {
    Arc::new(Static::new(backends(numbers)))
}

fn on(n: u8) -> impl Fn(&Backend) -> bool {
    move |backend| number(&backend.addr) == n
}

fn condition(balancer: &LoadBalancer<Turns>, n: u8) -> Condition {
    let status = balancer.status();
    let backend = status.backends.iter().find(|b| b.addr == addr(n));
    backend.unwrap().condition
}

#[tokio::test(start_paused = true)]
async fn what_one_learns_counts_for_all() {
    let health = SharedHealth::new(&options());
    let (these, those) = (list(1..=3), list([2, 3, 4]));
    let (one, other) = (
        sharing(&health, &these).await,
        sharing(&health, &those).await,
    );
    one.select_where(b"", on(2)).unwrap().complete(FAILED);
    assert_eq!((ready(&one), ready(&other)), (vec![1, 3], vec![3, 4]));
    assert!(other.select_where(b"", on(2)).is_none());
    let seen = &other.status().backends[0];
    assert_eq!((seen.addr.clone(), seen.failures), (addr(2), 1));
    assert_eq!(seen.reason.as_deref(), Some("a request could not connect"));

    assert!(!other.set_enabled(&addr(1), false), "no member of this one");
    assert!(other.set_enabled(&addr(3), false));
    assert_eq!((ready(&one), ready(&other)), (vec![1], vec![4]));

    // The trial is one request for all of them.
    advance(10 * SECOND).await;
    let trial = other.select_where(b"", on(2)).unwrap();
    assert!(one.select_where(b"", on(2)).is_none());
    trial.complete(Outcome::success(SECOND));
    assert_eq!((ready(&one), ready(&other)), (vec![1, 2], vec![2, 4]));
}

#[tokio::test(start_paused = true)]
async fn requests_of_all_are_counted_together() {
    let health = SharedHealth::new(&options());
    let (these, those) = (list([1, 2]), list([]));
    those.set([backend(1).with_max_in_flight(2), backend(3).with_weight(7)]);
    let (one, other) = (
        sharing(&health, &these).await,
        sharing(&health, &those).await,
    );
    let first = one.select_where(b"", on(1)).unwrap();
    let second = other.select_where(b"", on(1)).unwrap();
    assert_eq!((first.in_flight(), second.in_flight()), (2, 2));
    assert!(other.select_where(b"", on(1)).is_none(), "it is full");
    let third = one.select_where(b"", on(1)).unwrap();
    let picks = |balancer: &LoadBalancer<Turns>| balancer.status().backends[0].picks;
    assert_eq!((picks(&one), picks(&other)), (3, 3));
    let weights = |balancer: &LoadBalancer<Turns>| {
        let status = balancer.status();
        status.backends.iter().map(|b| b.weight).collect::<Vec<_>>()
    };
    assert_eq!((weights(&one), weights(&other)), (vec![1, 1], vec![1, 7]));

    let drain = one.drain(&addr(1)).unwrap();
    assert!(other.select_where(b"", on(1)).is_none());
    let mut drained = std::pin::pin!(drain.drained());
    drop((first, third));
    assert!(
        if_ready(drained.as_mut()).await.is_none(),
        "one of the other balancer is left"
    );
    drop(second);
    assert!(if_ready(drained).await.is_some());
}

/// The output of a future that is ready.
async fn if_ready<F: Future>(future: std::pin::Pin<&mut F>) -> Option<F::Output> {
    tokio::select! {
        biased;
        output = future => Some(output),
        () = tokio::task::yield_now() => None,
    }
}

#[tokio::test(start_paused = true)]
async fn health_stays_until_the_last_one_lets_go() {
    let health = SharedHealth::new(&options());
    let (these, those) = (list([1, 2]), list([1, 2]));
    let (one, other) = (
        sharing(&health, &these).await,
        sharing(&health, &those).await,
    );
    one.set_admin(&addr(1), Admin::Disabled);
    these.remove(&addr(1));
    one.update().await.unwrap();
    assert_eq!((ready(&one), ready(&other)), (vec![2], vec![2]));
    these.add(backend(1).with_weight(3));
    one.update().await.unwrap();
    assert_eq!(
        condition(&one, 1),
        Condition::Disabled,
        "the other one knew"
    );

    for (list, balancer) in [(&these, &one), (&those, &other)] {
        list.remove(&addr(1));
        balancer.update().await.unwrap();
    }
    these.add(backend(1));
    one.update().await.unwrap();
    assert_eq!(condition(&one, 1), Condition::Ready, "nobody did");

    // A balancer that is no more has let go of all.
    other.set_admin(&addr(2), Admin::Disabled);
    these.remove(&addr(2));
    one.update().await.unwrap();
    drop(other);
    these.add(backend(2));
    one.update().await.unwrap();
    assert_eq!(condition(&one, 2), Condition::Ready);
}

#[tokio::test(start_paused = true)]
async fn what_has_left_one_is_not_picked_by_it_again() {
    let health = SharedHealth::new(&options());
    let (these, those) = (list(1..=3), list(1..=3));
    let (one, other) = (
        sharing(&health, &these).await,
        sharing(&health, &those).await,
    );
    let (attempts, others) = (one.attempts("key"), other.attempts("key"));
    these.add(backend(3).with_weight(2));
    one.update().await.unwrap();
    these.remove(&addr(2));
    one.update().await.unwrap();
    let picked: Vec<_> = attempts.map(|pick| number(&pick.addr)).collect();
    assert_eq!(picked, [1, 3]);
    assert_eq!(others.count(), 3);
    assert_eq!(one.status().backends.len(), 2);
    assert_eq!(other.status().backends[1].in_flight, 0);
}

/// 1 of 2 may be ejected here, 1 of 3 there.
#[tokio::test(start_paused = true)]
async fn an_ejection_must_be_one_that_every_balancer_can_spare() {
    let health = SharedHealth::new(&options());
    let (these, those) = (list([1, 2]), list([2, 3, 4]));
    let (one, other) = (
        sharing(&health, &these).await,
        sharing(&health, &those).await,
    );
    let fail = |balancer: &LoadBalancer<Turns>, n| {
        balancer.select_where(b"", on(n)).unwrap().complete(FAILED);
    };
    fail(&one, 1);
    fail(&other, 2);
    assert_eq!(condition(&other, 2), Condition::Ready, "the last one there");
    fail(&other, 3);
    fail(&other, 4);
    assert_eq!((ready(&one), ready(&other)), (vec![2], vec![2, 4]));
}

#[tokio::test(start_paused = true)]
async fn each_panics_by_its_own_members() {
    let rule = Consecutive::default().failures(1).max_ejection_percent(100);
    let options = options().passive(Passive::Consecutive(rule));
    let health = SharedHealth::new(&options);
    let (these, those) = (list([1, 2]), list(1..=4));
    let one = sharing_with(&health, &these, options.clone().panic_threshold(60)).await;
    let other = sharing_with(&health, &those, options.panic_threshold(60)).await;
    other.select_where(b"", on(1)).unwrap().complete(FAILED);
    assert_eq!((ready(&one), ready(&other)), (vec![1, 2], vec![2, 3, 4]));
    assert_eq!(
        (one.status().panicking, other.status().panicking),
        (true, false)
    );
    assert!(one.select_where(b"", on(1)).is_some(), "it ignores health");
    assert_eq!(one.peek(b"", |_| ()), Some(()));
    assert!(other.select_where(b"", on(1)).is_none());
    one.set_admin(&addr(1), Admin::Drain);
    assert!(
        one.select_where(b"", on(1)).is_none(),
        "but not the operator"
    );
    assert!(!one.status().panicking);
}

#[tokio::test(start_paused = true)]
async fn each_listener_is_told_once_of_what_its_own_balancer_has() {
    let health = SharedHealth::new(&options());
    let told = Arc::new(Mutex::new(Vec::new()));
    let balancer = |name: &'static str, list: &Arc<Static>| {
        let told = Arc::clone(&told);
        LoadBalancer::<Turns>::builder(Arc::clone(list), TurnsConfig::default())
            .options(options())
            .shared_health(&health)
            .on_event(move |event| {
                let event = (name, event.backend.to_string(), event.cause, event.to);
                told.lock().unwrap().push(event);
            })
            .build()
            .unwrap()
    };
    let (one, other) = (
        balancer("one", &list([1, 2])),
        balancer("other", &list([2, 3])),
    );
    one.update().await.unwrap();
    other.update().await.unwrap();
    one.set_enabled(&addr(2), false);
    one.set_enabled(&addr(1), false);
    other.select_where(b"", on(3)).unwrap().complete(FAILED);
    let told = std::mem::take(&mut *told.lock().unwrap());
    let told: Vec<_> = told
        .iter()
        .map(|(who, b, cause, to)| (*who, &**b, *cause, *to))
        .collect();
    let expected = [
        ("one", "10.0.0.2:80", Cause::Admin, Condition::Disabled),
        ("other", "10.0.0.2:80", Cause::Admin, Condition::Disabled),
        ("one", "10.0.0.1:80", Cause::Admin, Condition::Disabled),
    ];
    assert_eq!(told, expected, "3 is the last that could be picked there");
}

/// Counts what it was asked, and tells what it was told.
#[derive(Default)]
struct Counting {
    asked: Mutex<BTreeMap<u8, u32>>,
    fails: AtomicBool,
}

#[async_trait]
impl HealthCheck for Counting {
    async fn check(&self, backend: &Backend) -> Result<(), CheckError> {
        *self
            .asked
            .lock()
            .unwrap()
            .entry(number(&backend.addr))
            .or_default() += 1;
        match self.fails.load(Ordering::Relaxed) {
            true => Err(CheckError::new("refused")),
            false => Ok(()),
        }
    }

    fn thresholds(&self) -> Thresholds {
        Thresholds { rise: 1, fall: 1 }
    }
}

async fn settle() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_backend_is_checked_by_one_at_a_time() {
    let health = SharedHealth::new(&options());
    let check = Arc::new(Counting::default());
    let asked = || std::mem::take(&mut *check.asked.lock().unwrap());
    let (these, those) = (list([1, 2]), list([2, 3]));
    let mut running = Vec::new();
    for list in [&these, &those] {
        let balancer = LoadBalancer::<Turns>::builder(Arc::clone(list), TurnsConfig::default())
            .options(options())
            .shared_health(&health)
            .health_check(Arc::clone(&check))
            .build();
        let balancer = Arc::new(balancer.unwrap());
        balancer.update().await.unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let task = tokio::spawn(Arc::clone(&balancer).run(async { drop(stopped.await) }));
        settle().await;
        running.push((balancer, stop, task));
    }
    assert_eq!(asked(), BTreeMap::from([(1, 1), (2, 1), (3, 1)]));
    for _ in 0..3 {
        advance(SECOND).await;
        settle().await;
    }
    assert_eq!(asked(), BTreeMap::from([(1, 3), (2, 3), (3, 3)]));

    // The one that checked 2 lets go of it.
    these.remove(&addr(2));
    running[0].0.update().await.unwrap();
    settle().await;
    assert_eq!(asked(), BTreeMap::from([(2, 1)]), "taken over at once");
    these.add(backend(2));
    running[0].0.update().await.unwrap();
    settle().await;
    assert_eq!(
        asked(),
        BTreeMap::new(),
        "it has been checked, and is the other's"
    );

    // The one that checks 2 stops.
    let (other, stop, task) = running.pop().unwrap();
    check.fails.store(true, Ordering::Relaxed);
    stop.send(()).unwrap();
    task.await.unwrap();
    settle().await;
    assert_eq!(asked(), BTreeMap::from([(2, 1)]));
    assert_eq!(ready(&running[0].0), [1]);
    assert_eq!(ready(&other), [3], "which nobody checks now");
    advance(SECOND).await;
    settle().await;
    assert_eq!(asked(), BTreeMap::from([(1, 1), (2, 1)]));
}

#[test]
fn the_rules_of_health_have_to_be_the_same() {
    let health = SharedHealth::new(&options());
    let build = |options| {
        let builder = LoadBalancer::<Turns>::builder(Static::default(), TurnsConfig::default());
        builder.options(options).shared_health(&health).build()
    };
    assert!(build(options().panic_threshold(50)).is_ok());
    let error = build(options().passive(Passive::Off)).unwrap_err();
    assert_eq!(error, ConfigError::NotShared { option: "passive" });
    let text = "passive is another than that of the shared health";
    assert_eq!(error.to_string(), text);
}
