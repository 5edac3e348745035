//! What is recorded, under which names and labels.
#![cfg(feature = "metrics")]
#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "tests: a surprise is a failure, and paused time sleeps at once"
)]

mod recorder;

use std::sync::Arc;
use std::time::Duration;

use balancer::selection::{Consistent, FailureKind, LeastTime, Outcome};
use balancer::{
    Address, Admin, Backend, Builder, ConfigError, Consecutive, LoadBalancer, Metrics, Options,
    Passive, Series, Static,
};
use tokio::time::advance;

use crate::recorder::Recorder;

const SECOND: Duration = Duration::from_secs(1);
const FAILED: Outcome = Outcome::Failure(FailureKind::Connect);

fn addr(n: u8) -> Address {
    format!("10.0.0.{n}:80").parse().unwrap()
}

fn backends(numbers: impl IntoIterator<Item = u8>) -> Vec<Backend> {
    numbers.into_iter().map(|n| Backend::new(addr(n))).collect()
}

fn builder(list: &Arc<Static>) -> Builder<Consistent> {
    let rule = Consecutive::default().failures(1).max_ejection_percent(100);
    LoadBalancer::<Consistent>::builder(Arc::clone(list), Default::default())
        .name("images")
        .options(
            Options::default()
                .passive(Passive::Consecutive(rule))
                .panic_threshold(40),
        )
}

/// Ends a request on backend `n`.
fn end(balancer: &LoadBalancer<Consistent>, n: u8, outcome: Outcome) {
    let pick = balancer.select_where(b"key", |backend| backend.addr == addr(n));
    pick.unwrap().complete(outcome);
}

#[tokio::test(start_paused = true)]
async fn names_labels_and_values() {
    let recorder = Recorder::default();
    let _guard = metrics::set_default_local_recorder(&recorder);
    let list = Arc::new(Static::new(backends([1, 2])));
    let balancer = builder(&list).metrics(Metrics::default()).build().unwrap();
    balancer.update().await.unwrap();
    list.add(Backend::new(addr(3)));
    let update = balancer.update().await.unwrap();
    balancer.update().await.unwrap();
    end(&balancer, 1, Outcome::success(SECOND));
    end(&balancer, 1, FAILED);
    balancer.set_admin(&addr(2), Admin::Drain);
    let _held = balancer.select(b"key").unwrap();
    advance(3 * SECOND).await;
    assert_eq!(
        recorder.value("balancer_picks_total{backend=10.0.0.1:80,pool=images}"),
        0.0,
        "not before it is published"
    );
    balancer.publish_metrics();
    let expected = "\
balancer_age_seconds{pool=images} 3
balancer_backend_state{backend=10.0.0.1:80,pool=images} 3
balancer_backend_state{backend=10.0.0.2:80,pool=images} 6
balancer_backend_state{backend=10.0.0.3:80,pool=images} 1
balancer_backends{pool=images,state=disabled} 0
balancer_backends{pool=images,state=down} 0
balancer_backends{pool=images,state=draining} 1
balancer_backends{pool=images,state=ejected} 1
balancer_backends{pool=images,state=ready} 1
balancer_backends{pool=images,state=trial} 0
balancer_backends{pool=images,state=unchecked} 0
balancer_failures_total{backend=10.0.0.1:80,pool=images} 1
balancer_failures_total{backend=10.0.0.2:80,pool=images} 0
balancer_failures_total{backend=10.0.0.3:80,pool=images} 0
balancer_flips_total{cause=active,pool=images} 0
balancer_flips_total{cause=admin,pool=images} 1
balancer_flips_total{cause=passive,pool=images} 1
balancer_generation{pool=images} 2
balancer_in_flight{backend=10.0.0.1:80,pool=images} 0
balancer_in_flight{backend=10.0.0.2:80,pool=images} 0
balancer_in_flight{backend=10.0.0.3:80,pool=images} 1
balancer_panicking{pool=images} 0
balancer_picks_total{backend=10.0.0.1:80,pool=images} 2
balancer_picks_total{backend=10.0.0.2:80,pool=images} 0
balancer_picks_total{backend=10.0.0.3:80,pool=images} 1
balancer_ready_backends{pool=images} 1
balancer_ring_moved_ratio{pool=images} [MOVED]
balancer_update_duration_seconds{phase=build,pool=images} [0, 0]
balancer_update_duration_seconds{phase=discovery,pool=images} [0, 0, 0]
balancer_updates_total{pool=images,result=changed} 2
balancer_updates_total{pool=images,result=failed} 0
balancer_updates_total{pool=images,result=unchanged} 1
";
    let moved = update.moved().unwrap();
    assert!((0.2..0.5).contains(&moved), "{moved}");
    assert_eq!(
        recorder.text(),
        expected.replace("MOVED", &moved.to_string())
    );

    end(&balancer, 3, FAILED);
    balancer.publish_metrics();
    assert_eq!(recorder.value("balancer_panicking{pool=images}"), 1.0);
    assert_eq!(recorder.value("balancer_ready_backends{pool=images}"), 2.0);
    let kinds = recorder.described();
    assert_eq!(kinds["balancer_update_duration_seconds"], "seconds");
    assert_eq!(kinds["balancer_picks_total"], "count");
}

#[tokio::test(start_paused = true)]
async fn latency_is_recorded_where_a_selector_keeps_it() {
    let recorder = Recorder::default();
    let _guard = metrics::set_default_local_recorder(&recorder);
    let builder =
        LoadBalancer::<LeastTime>::builder(Static::new(backends([1])), Default::default());
    let balancer = builder.metrics(Metrics::default()).build().unwrap();
    balancer.update().await.unwrap();
    let pick = balancer.select(b"").unwrap();
    pick.complete(Outcome::success(SECOND / 4));
    balancer.publish_metrics();
    let name = "balancer_backend_latency_seconds{backend=10.0.0.1:80,pool=default}";
    assert_eq!(recorder.value(name), 0.25);
}

/// Every pick and every failure counts once, whenever it ends.
#[tokio::test(start_paused = true)]
async fn what_leaves_counts_to_its_end_and_goes_on_where_it_was() {
    let recorder = Recorder::default();
    let _guard = metrics::set_default_local_recorder(&recorder);
    let list = Arc::new(Static::new(backends([1, 2])));
    let balancer = builder(&list).metrics(Metrics::default()).build().unwrap();
    balancer.update().await.unwrap();
    let value = |name: &str| recorder.value(&format!("{name}{{backend=10.0.0.1:80,pool=images}}"));
    let values = || {
        let names = [
            "picks_total",
            "failures_total",
            "in_flight",
            "backend_state",
        ];
        names.map(|name| value(&format!("balancer_{name}")))
    };
    let held = balancer
        .select_where(b"key", |b| b.addr == addr(1))
        .unwrap();
    list.remove(&addr(1));
    balancer.update().await.unwrap();
    assert_eq!(values(), [1.0, 0.0, 1.0, 0.0]);
    held.complete(FAILED);
    balancer.publish_metrics();
    assert_eq!(values(), [1.0, 1.0, 0.0, 0.0]);
    list.add(Backend::new(addr(1)));
    balancer.update().await.unwrap();
    assert_eq!(
        balancer.status().backends[0].picks,
        0,
        "nobody knew it any more"
    );
    for _ in 0..3 {
        end(&balancer, 1, Outcome::Cancelled);
    }
    balancer.publish_metrics();
    assert_eq!(values(), [4.0, 1.0, 0.0, 1.0], "a counter goes on");
}

#[tokio::test(start_paused = true)]
async fn without_series_of_the_backends_their_sums_are_recorded() {
    let recorder = Recorder::default();
    let _guard = metrics::set_default_local_recorder(&recorder);
    let list = Arc::new(Static::new(backends([1, 2])));
    let metrics = Metrics::default().series(Series::Pool);
    let balancer = builder(&list).metrics(metrics).build().unwrap();
    balancer.update().await.unwrap();
    end(&balancer, 1, FAILED);
    let _held = [
        balancer.select(b"key").unwrap(),
        balancer.select(b"key").unwrap(),
    ];
    list.remove(&addr(2));
    balancer.update().await.unwrap();
    let value = |name: &str| recorder.value(&format!("balancer_{name}{{pool=images}}"));
    let values = ["picks_total", "failures_total", "in_flight"].map(value);
    assert_eq!(values, [3.0, 1.0, 2.0]);
    assert!(!recorder.text().contains("backend="));
    assert!(!recorder.text().contains("backend_state"));
}

#[tokio::test(start_paused = true)]
async fn the_service_publishes_every_few_seconds_and_at_its_end() {
    let recorder = Recorder::default();
    let _guard = metrics::set_default_local_recorder(&recorder);
    let list = Arc::new(Static::new(backends([1])));
    let metrics = Metrics::default().interval(2 * SECOND);
    let balancer = Arc::new(builder(&list).metrics(metrics).build().unwrap());
    balancer.update().await.unwrap();
    let picks = || recorder.value("balancer_picks_total{backend=10.0.0.1:80,pool=images}");
    let requests = async {
        // Past the first publication, and the first update.
        tokio::time::sleep(SECOND).await;
        end(&balancer, 1, Outcome::Cancelled);
        assert_eq!(picks(), 0.0);
        tokio::time::sleep(2 * SECOND).await;
        assert_eq!(picks(), 1.0);
        end(&balancer, 1, Outcome::Cancelled);
    };
    Arc::clone(&balancer).run(requests).await;
    assert_eq!(picks(), 2.0);
}

#[tokio::test]
async fn a_recorder_that_panics_stops_nothing() {
    let recorder = Recorder::panicking();
    let _guard = metrics::set_default_local_recorder(&recorder);
    let list = Arc::new(Static::new(backends([1])));
    let metrics = Metrics::default();
    let balancer = Arc::new(builder(&list).metrics(metrics).build().unwrap());
    assert_eq!(balancer.update().await.unwrap().generation, 1);
    end(&balancer, 1, FAILED);
    balancer.publish_metrics();
    let followed = async {
        list.add(Backend::new(addr(2)));
        balancer.generation_after(1).await;
        recorder.calm_down();
    };
    Arc::clone(&balancer).run(followed).await;
    assert_eq!(recorder.value("balancer_generation{pool=images}"), 2.0);
    let flips = recorder.value("balancer_flips_total{cause=passive,pool=images}");
    let picks = recorder.value("balancer_picks_total{backend=10.0.0.1:80,pool=images}");
    assert_eq!((flips, picks), (0.0, 1.0), "the only one is not ejected");
}

#[tokio::test]
async fn nothing_is_recorded_unless_asked_for() {
    let recorder = Recorder::default();
    let _guard = metrics::set_default_local_recorder(&recorder);
    let list = Arc::new(Static::new(backends([1])));
    let balancer = builder(&list).build().unwrap();
    balancer.update().await.unwrap();
    balancer.publish_metrics();
    assert_eq!(recorder.text(), "");
    let never = Metrics::default().interval(Duration::ZERO);
    let error = builder(&list).metrics(never).build().unwrap_err();
    let option = "metrics.interval";
    assert_eq!(error, ConfigError::ZeroDuration { option });
}
