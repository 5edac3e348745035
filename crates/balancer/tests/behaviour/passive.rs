//! Outcomes of requests that take a backend out and let it back.

use std::sync::Arc;
use std::time::Duration;

use balancer::selection::{Consistent, FailureKind, Outcome};
use balancer::{Backend, Condition, Consecutive, LoadBalancer, MaxFails, Options, Passive, Static};
use tokio::time::{Instant, advance, sleep_until};

use crate::support::{Turns, TurnsConfig, addr, backend, backends, number, ready};

const SECOND: Duration = Duration::from_secs(1);
const FAILED: Outcome = Outcome::Failure(FailureKind::Connect);

async fn balancer(backends: Vec<Backend>, options: Options) -> LoadBalancer<Turns> {
    let builder = LoadBalancer::<Turns>::builder(Static::new(backends), TurnsConfig::default());
    let balancer = builder.options(options).build().unwrap();
    balancer.update().await.unwrap();
    balancer
}

fn consecutive() -> Options {
    let rule = Consecutive::default().failures(2).base(10 * SECOND);
    Options::default().passive(Passive::Consecutive(rule))
}

/// Ends a request on backend `n` with `outcome`.
fn end(balancer: &LoadBalancer<Turns>, n: u8, outcome: Outcome) {
    let pick = balancer.select_where(b"", |backend| number(&backend.addr) == n);
    pick.unwrap().complete(outcome);
}

fn condition(balancer: &LoadBalancer<Turns>, n: u8) -> Condition {
    let status = balancer.status();
    let backend = status
        .backends
        .iter()
        .find(|backend| backend.addr == addr(n));
    backend.unwrap().condition
}

#[tokio::test(start_paused = true)]
async fn failures_in_a_row_eject_and_one_request_tries_it_again() {
    let balancer = balancer(backends([1, 2, 3]), consecutive()).await;
    end(&balancer, 1, FAILED);
    end(&balancer, 1, Outcome::success(SECOND));
    end(&balancer, 1, FAILED);
    assert_eq!(ready(&balancer), [1, 2, 3]);
    end(&balancer, 1, FAILED);
    assert_eq!(ready(&balancer), [2, 3]);
    advance(3 * SECOND).await;
    let status = &balancer.status().backends[0];
    assert_eq!((status.failures, status.since), (3, 3 * SECOND));
    assert_eq!(
        status.reason.as_deref(),
        Some("a request could not connect")
    );

    advance(7 * SECOND - Duration::from_millis(1)).await;
    assert!((0..9).all(|_| number(&balancer.select(b"").unwrap().addr) != 1));
    advance(Duration::from_millis(1)).await;
    let picks: Vec<_> = (0..9).map(|_| balancer.select(b"").unwrap()).collect();
    let on_1 = picks.iter().filter(|pick| number(&pick.addr) == 1).count();
    assert_eq!(on_1, 1, "one request, and no more until it has ended");
    let (trial, rest): (Vec<_>, Vec<_>) = picks.into_iter().partition(|p| number(&p.addr) == 1);
    drop(rest);
    for pick in trial {
        pick.complete(FAILED);
    }
    assert_eq!(condition(&balancer, 1), Condition::Ejected);

    advance(20 * SECOND).await;
    end(&balancer, 1, Outcome::success(SECOND));
    assert_eq!(condition(&balancer, 1), Condition::Ready);
    assert_eq!(ready(&balancer), [1, 2, 3]);
}

#[tokio::test(start_paused = true)]
async fn a_trial_that_is_given_up_is_offered_to_the_next() {
    let balancer = balancer(backends([1, 2, 3]), consecutive()).await;
    end(&balancer, 1, FAILED);
    end(&balancer, 1, FAILED);
    advance(10 * SECOND).await;
    let is_1 = |backend: &Backend| number(&backend.addr) == 1;
    let trial = balancer.select_where(b"", is_1).unwrap();
    assert!(balancer.select_where(b"", is_1).is_none());
    drop(trial);
    let trial = balancer.select_where(b"", is_1).unwrap();
    trial.complete(Outcome::Cancelled);
    end(&balancer, 1, Outcome::success(SECOND));
    assert_eq!(condition(&balancer, 1), Condition::Ready);
}

#[tokio::test(start_paused = true)]
async fn a_backend_has_its_own_rule() {
    let own = backend(2).with_max_fails(2).with_fail_timeout(SECOND);
    let list = Arc::new(Static::new([backend(1).with_max_fails(0), own, backend(3)]));
    let balancer = LoadBalancer::<Turns>::builder(Arc::clone(&list), TurnsConfig::default())
        .options(Options::default().passive(Passive::MaxFails(MaxFails::default())))
        .build()
        .unwrap();
    balancer.update().await.unwrap();
    for n in [1, 1, 1, 2, 3] {
        end(&balancer, n, FAILED);
    }
    let conditions = || [1, 2, 3].map(|n| condition(&balancer, n));
    assert_eq!(
        conditions(),
        [Condition::Ready, Condition::Ready, Condition::Ejected]
    );
    end(&balancer, 2, FAILED);
    assert_eq!(condition(&balancer, 2), Condition::Ejected);
    advance(SECOND).await;
    drop(balancer.select(b""));
    assert_eq!(
        conditions(),
        [Condition::Ready, Condition::Trial, Condition::Ejected]
    );

    list.add(backend(1).with_max_fails(1));
    assert_eq!(balancer.update().await.unwrap().changed, [addr(1)]);
    assert_eq!(condition(&balancer, 3), Condition::Ejected, "health stays");
    end(&balancer, 1, FAILED);
    assert_eq!(condition(&balancer, 1), Condition::Ejected);
}

#[tokio::test(start_paused = true)]
async fn the_last_ones_are_not_ejected() {
    let balancer = balancer(backends([1, 2, 3]), consecutive()).await;
    for n in [1, 2, 3, 2, 3, 1, 2, 3] {
        if condition(&balancer, n) == Condition::Ready {
            end(&balancer, n, FAILED);
        }
    }
    assert_eq!(
        ready(&balancer).len(),
        2,
        "one of three is all that half allows"
    );

    let nginx = Options::default().passive(Passive::MaxFails(MaxFails::default()));
    let balancer = self::balancer(backends([1, 2]), nginx).await;
    balancer.set_enabled(&addr(2), false);
    end(&balancer, 1, FAILED);
    assert_eq!(ready(&balancer), [1], "the only one that could be picked");
}

#[tokio::test(start_paused = true)]
async fn the_record_outlives_an_update() {
    let list = Arc::new(Static::new(backends([1, 2, 3])));
    let balancer = LoadBalancer::<Turns>::builder(Arc::clone(&list), TurnsConfig::default())
        .options(consecutive())
        .build()
        .unwrap();
    balancer.update().await.unwrap();
    end(&balancer, 1, FAILED);
    list.add(backend(1).with_weight(4));
    balancer.update().await.unwrap();
    end(&balancer, 1, FAILED);
    assert_eq!(ready(&balancer), [2, 3]);
    list.add(backend(4));
    balancer.update().await.unwrap();
    assert_eq!(ready(&balancer), [2, 3, 4]);
    advance(10 * SECOND).await;
    end(&balancer, 1, Outcome::success(SECOND));
    assert_eq!(ready(&balancer), [1, 2, 3, 4]);
}

/// 52 requests that real nginx served with `hash $key consistent`, while one server refused for
/// six seconds: the servers tried are the same, each time.
#[tokio::test(start_paused = true)]
async fn as_nginx_with_the_ring() {
    let rows = include_str!("../../../../test-data/nginx-recovery/chash_ft2_mf2.csv");
    let servers = [
        ("127.0.0.1:9001", 2),
        ("127.0.0.2:9102", 3),
        ("127.0.0.3:9003", 1),
    ];
    let backends = servers.map(|(addr, weight)| {
        let addr: balancer::Address = addr.parse().unwrap();
        Backend::new(addr).with_weight(weight)
    });
    let rule = MaxFails::default()
        .max_fails(2)
        .fail_timeout(2 * SECOND)
        .tick(SECOND);
    let balancer = LoadBalancer::<Consistent>::builder(Static::new(backends), Default::default())
        .options(Options::default().passive(Passive::MaxFails(rule)))
        .build()
        .unwrap();
    balancer.update().await.unwrap();
    let began = Instant::now();
    let mut count = 0;
    for row in rows.lines().skip(1) {
        let fields: Vec<_> = row.split(',').collect();
        let [n, second, key, refusing, expected, ..] = fields[..] else {
            panic!("{row}");
        };
        sleep_until(began + second.parse::<u32>().unwrap() * SECOND).await;
        let mut tried = Vec::new();
        for pick in balancer.attempts(key) {
            tried.push(pick.addr.to_string());
            if pick.addr.to_string() != refusing {
                pick.complete(Outcome::success(Duration::ZERO));
                break;
            }
            pick.complete(FAILED);
        }
        assert_eq!(tried.join("|"), expected, "request {n}");
        count += 1;
    }
    assert_eq!(count, 52);
}
