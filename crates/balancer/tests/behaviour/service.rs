//! The background loops, in paused time.

use std::collections::BTreeMap;
use std::future::pending;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::{Answer, Script, Turns, TurnsConfig, addr, backend, backends, number, ready};
use async_trait::async_trait;
use balancer::selection::Selector;
use balancer::{
    Active, Address, Backend, CheckError, Discovery, DiscoveryError, HealthCheck, InitialHealth,
    LoadBalancer, Options, Static, TcpCheck, Thresholds,
};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Instant, advance};

const SECOND: Duration = Duration::from_secs(1);

/// Answers what it was told for each backend; counts what it was asked.
#[derive(Default)]
struct Scripted {
    results: Mutex<BTreeMap<Address, Result>>,
    asked: Mutex<Vec<u8>>,
    running: AtomicUsize,
    most_running: AtomicUsize,
    thresholds: Thresholds,
}

#[derive(Clone, Copy)]
enum Result {
    Passes,
    Fails,
    Hangs,
    Panics,
}

impl Scripted {
    fn tell(&self, n: u8, result: Result) {
        self.results.lock().unwrap().insert(addr(n), result);
    }

    fn asked(&self) -> Vec<u8> {
        std::mem::take(&mut *self.asked.lock().unwrap())
    }
}

#[async_trait]
impl HealthCheck for Scripted {
    async fn check(&self, backend: &Backend) -> std::result::Result<(), CheckError> {
        self.asked.lock().unwrap().push(number(&backend.addr));
        let running = self.running.fetch_add(1, Ordering::Relaxed) + 1;
        self.most_running.fetch_max(running, Ordering::Relaxed);
        let result = self.results.lock().unwrap().get(&backend.addr).copied();
        if matches!(result, Some(Result::Hangs)) {
            pending::<()>().await;
        }
        self.running.fetch_sub(1, Ordering::Relaxed);
        match result {
            None | Some(Result::Passes) => Ok(()),
            Some(Result::Fails) => Err(CheckError::new("refused")),
            Some(Result::Hangs | Result::Panics) => panic!("check fell over"),
        }
    }

    fn thresholds(&self) -> Thresholds {
        self.thresholds
    }

    fn time_limit(&self) -> Duration {
        3600 * SECOND
    }
}

/// A running service, and the way to stop it.
struct Running {
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Running {
    fn start<S: Selector + ?Sized>(balancer: &Arc<LoadBalancer<S>>) -> Self {
        let (stop, stopped) = oneshot::channel::<()>();
        let shutdown = async move { drop(stopped.await) };
        let task = tokio::spawn(Arc::clone(balancer).run(shutdown));
        Self { stop, task }
    }

    /// Stops it and returns how long that took.
    async fn stop(self) -> Duration {
        let began = Instant::now();
        self.stop.send(()).unwrap();
        self.task.await.unwrap();
        began.elapsed()
    }
}

/// Lets everything that is ready run, without the clock going on.
async fn settle() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

/// Lets `time` pass, and everything that it wakes run.
async fn pass(time: Duration) {
    advance(time).await;
    settle().await;
}

/// Builds run on another thread, which paused time does not wait for: wait for their result.
async fn until(condition: impl Fn() -> bool) {
    for _ in 0..100_000 {
        if condition() {
            return;
        }
        tokio::task::yield_now().await;
        std::thread::yield_now();
    }
    panic!("it did not come to pass");
}

fn every_second() -> Options {
    Options::default()
        .check_interval(SECOND)
        .check_jitter(0)
        .update_interval(3600 * SECOND)
}

#[tokio::test(start_paused = true)]
async fn stops_at_once_whatever_the_intervals() {
    let check = Arc::new(Scripted::default());
    check.tell(1, Result::Hangs);
    let options = every_second().check_interval(3600 * SECOND);
    let balancer =
        LoadBalancer::<Turns>::builder(Static::new(backends([1])), TurnsConfig::default())
            .health_check(Arc::clone(&check))
            .options(options)
            .build()
            .unwrap();
    let balancer = Arc::new(balancer);
    let running = Running::start(&balancer);
    until(|| !check.asked.lock().unwrap().is_empty()).await;
    assert!(running.stop().await < Duration::from_millis(100));
    assert_eq!(Arc::strong_count(&balancer), 1, "no task is left behind");
}

#[tokio::test(start_paused = true)]
async fn a_change_of_the_list_is_served_without_waiting() {
    let list = Arc::new(Static::new(backends([1])));
    let balancer = LoadBalancer::<Turns>::builder(Arc::clone(&list), TurnsConfig::default())
        .options(every_second())
        .build()
        .unwrap();
    let balancer = Arc::new(balancer);
    let running = Running::start(&balancer);
    let began = Instant::now();
    until(|| balancer.generation() == 1).await;
    list.add(backend(2));
    until(|| ready(&balancer) == [1, 2]).await;
    list.remove(&addr(1));
    until(|| ready(&balancer) == [2]).await;
    assert!(began.elapsed() < SECOND);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_nobody_announces_is_found_at_the_next_interval() {
    /// Answers more with every question, and falls over when it is to tell of changes.
    struct Mute(Script);
    #[async_trait]
    impl Discovery for Mute {
        async fn discover(&self) -> std::result::Result<Vec<Backend>, DiscoveryError> {
            self.0.discover().await
        }
        async fn changed(&self) {
            panic!("not today");
        }
    }
    let answers = [[1, 1], [1, 2], [3, 4]].map(|found| Answer::Found(backends(found)));
    let balancer =
        LoadBalancer::<Turns>::builder(Mute(Script::new(answers)), TurnsConfig::default())
            .options(every_second())
            .build()
            .unwrap();
    let balancer = Arc::new(balancer);
    let running = Running::start(&balancer);
    until(|| ready(&balancer) == [1]).await;
    settle().await;
    assert_eq!(
        balancer.status().updates,
        1,
        "a panic is no reason to ask again at once"
    );
    advance(3600 * SECOND).await;
    until(|| ready(&balancer) == [1, 2]).await;
    advance(3600 * SECOND).await;
    until(|| ready(&balancer) == [3, 4]).await;
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn failed_updates_are_repeated_soon_and_recovery_is_noticed() {
    let script = Script::new([
        Answer::Fails,
        Answer::Panics,
        Answer::Fails,
        Answer::Found(backends([1])),
    ]);
    let balancer = LoadBalancer::<Turns>::builder(script, TurnsConfig::default())
        .options(every_second())
        .build()
        .unwrap();
    let balancer = Arc::new(balancer);
    let running = Running::start(&balancer);
    settle().await;
    let failed = || balancer.status().failed_updates;
    assert_eq!(failed(), 1);
    pass(SECOND).await;
    assert_eq!(failed(), 2);
    pass(SECOND).await;
    assert_eq!(failed(), 2);
    pass(SECOND).await;
    assert_eq!(failed(), 3);
    advance(4 * SECOND).await;
    until(|| ready(&balancer) == [1]).await;
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn consecutive_results_turn_a_backend() {
    let check = Arc::new(Scripted::default());
    let list = Arc::new(Static::new(backends([1, 2])));
    let balancer = LoadBalancer::<Turns>::builder(Arc::clone(&list), TurnsConfig::default())
        .health_check(Arc::clone(&check))
        .options(every_second())
        .build()
        .unwrap();
    let balancer = Arc::new(balancer);
    let running = Running::start(&balancer);
    until(|| balancer.generation() == 1).await;
    settle().await;
    assert_eq!(check.asked(), [1, 2], "new backends are checked at once");

    for (result, expected) in [
        (Result::Fails, vec![1, 2]),
        (Result::Fails, vec![1, 2]),
        (Result::Passes, vec![1, 2]),
        (Result::Fails, vec![1, 2]),
        (Result::Panics, vec![1, 2]),
        (Result::Fails, vec![1, 2]),
        (Result::Panics, vec![1, 2]),
        (Result::Fails, vec![2]),
    ] {
        check.tell(1, result);
        pass(SECOND).await;
        assert_eq!(check.asked(), [1, 2]);
        assert_eq!(ready(&balancer), expected);
    }

    // A new weight is a new generation, and no new health; nor is another value of the user's own.
    list.add(backend(1).with_weight(9).with_ext("eu-west"));
    until(|| balancer.generation() == 2).await;
    settle().await;
    assert_eq!(ready(&balancer), [2]);
    assert_eq!(
        check.asked(),
        [0u8; 0],
        "and no new backend to check at once"
    );

    check.tell(1, Result::Passes);
    pass(SECOND).await;
    assert_eq!(ready(&balancer), [2]);
    pass(SECOND).await;
    assert_eq!(ready(&balancer), [1, 2]);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_check_that_is_cancelled_counts_for_nothing() {
    let thresholds = Thresholds { rise: 1, fall: 1 };
    let check = Arc::new(Scripted {
        thresholds,
        ..Scripted::default()
    });
    check.tell(1, Result::Hangs);
    let list = Static::new(backends([1]));
    let balancer = LoadBalancer::<Turns>::builder(list, TurnsConfig::default())
        .health_check(Arc::clone(&check))
        .options(every_second())
        .build()
        .unwrap();
    let balancer = Arc::new(balancer);
    for _ in 0..3 {
        let running = Running::start(&balancer);
        until(|| !check.asked().is_empty()).await;
        running.stop().await;
    }
    assert_eq!(balancer.status().backends[0].active, Active::Unknown);
    assert_eq!(ready(&balancer), [1]);
}

#[tokio::test(start_paused = true)]
async fn a_hung_check_delays_neither_discovery_nor_other_checks() {
    let check = Arc::new(Scripted::default());
    check.tell(1, Result::Hangs);
    let list = Arc::new(Static::new(backends([1, 2])));
    let balancer = LoadBalancer::<Turns>::builder(Arc::clone(&list), TurnsConfig::default())
        .health_check(Arc::clone(&check))
        .options(every_second().parallel_checks(2))
        .build()
        .unwrap();
    let balancer = Arc::new(balancer);
    let running = Running::start(&balancer);
    until(|| balancer.generation() == 1).await;
    settle().await;
    for _ in 0..3 {
        pass(SECOND).await;
    }
    assert_eq!(check.asked(), [1, 2, 2, 2, 2]);
    list.add(backend(3));
    until(|| balancer.generation() == 2).await;
    settle().await;
    assert_eq!(check.asked(), [3]);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_hung_check_fails_at_its_timeout() {
    struct Hung;
    #[async_trait]
    impl HealthCheck for Hung {
        async fn check(&self, _: &Backend) -> std::result::Result<(), CheckError> {
            pending().await
        }
        fn thresholds(&self) -> Thresholds {
            Thresholds { rise: 1, fall: 1 }
        }
        fn time_limit(&self) -> Duration {
            2 * SECOND
        }
    }
    let balancer =
        LoadBalancer::<Turns>::builder(Static::new(backends([1])), TurnsConfig::default())
            .health_check(Hung)
            .options(every_second())
            .build()
            .unwrap();
    let balancer = Arc::new(balancer);
    let running = Running::start(&balancer);
    until(|| balancer.generation() == 1).await;
    settle().await;
    pass(SECOND).await;
    assert_eq!(ready(&balancer), [1]);
    pass(SECOND).await;
    assert_eq!(ready(&balancer), [0u8; 0]);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn no_more_checks_at_once_than_allowed() {
    let check = Arc::new(Scripted::default());
    for n in 1..=20 {
        check.tell(n, Result::Hangs);
    }
    let list = Static::new(backends(1..=20));
    let balancer = LoadBalancer::<Turns>::builder(list, TurnsConfig::default())
        .health_check(Arc::clone(&check))
        .options(every_second().parallel_checks(5))
        .build()
        .unwrap();
    let balancer = Arc::new(balancer);
    let running = Running::start(&balancer);
    until(|| balancer.generation() == 1).await;
    settle().await;
    pass(10 * SECOND).await;
    assert_eq!(check.most_running.load(Ordering::Relaxed), 5);
    assert_eq!(check.asked().len(), 5);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn with_jitter_backends_that_joined_together_part() {
    let check = Arc::new(Scripted::default());
    let list = Static::new(backends(1..=100));
    let balancer = LoadBalancer::<Turns>::builder(list, TurnsConfig::default())
        .health_check(Arc::clone(&check))
        .options(every_second().check_jitter(10).parallel_checks(1000))
        .build()
        .unwrap();
    let balancer = Arc::new(balancer);
    let running = Running::start(&balancer);
    until(|| balancer.generation() == 1).await;
    settle().await;
    assert_eq!(check.asked().len(), 100, "the first checks are at once");
    let mut tenths = Vec::new();
    for _ in 0..10 {
        pass(SECOND / 10).await;
        tenths.push(check.asked().len());
    }
    // Each of 100 falls into a given tenth with probability 0.1: more than 30 once in 10^8 runs.
    assert!(tenths.iter().all(|&checks| checks <= 30), "{tenths:?}");
    assert!(tenths.iter().sum::<usize>() >= 100, "{tenths:?}");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn unhealthy_until_checked() {
    let check = Arc::new(Scripted::default());
    check.tell(1, Result::Hangs);
    check.tell(2, Result::Fails);
    let list = Static::new(backends([1, 2, 3]));
    let balancer = LoadBalancer::<Turns>::builder(list, TurnsConfig::default())
        .health_check(Arc::clone(&check))
        .options(every_second().initial_health(InitialHealth::Unhealthy))
        .build()
        .unwrap();
    let balancer = Arc::new(balancer);
    balancer.update().await.unwrap();
    assert!(balancer.select(b"").is_none());
    let running = Running::start(&balancer);
    settle().await;
    assert_eq!(ready(&balancer), [3]);
    check.tell(2, Result::Passes);
    pass(SECOND).await;
    assert_eq!(ready(&balancer), [2, 3]);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_result_does_not_count_for_one_that_left_and_came_back() {
    let check = Arc::new(Scripted::default());
    check.tell(1, Result::Hangs);
    let list = Arc::new(Static::new(backends([1])));
    let balancer = LoadBalancer::<Turns>::builder(Arc::clone(&list), TurnsConfig::default())
        .health_check(Arc::clone(&check))
        .options(every_second())
        .build()
        .unwrap();
    let balancer = Arc::new(balancer);
    let running = Running::start(&balancer);
    until(|| balancer.generation() == 1).await;
    settle().await;
    list.set([]);
    until(|| balancer.generation() == 2).await;
    check.tell(1, Result::Passes);
    list.add(backend(1));
    until(|| balancer.generation() == 3).await;
    settle().await;
    assert_eq!(
        check.asked(),
        [1, 1],
        "checked at once, though the old check still hangs"
    );
    // The hung check of the former member ends in a failure after its hour.
    for _ in 0..3601 {
        pass(SECOND).await;
    }
    assert_eq!(ready(&balancer), [1]);
    running.stop().await;
}

#[tokio::test]
async fn tcp_check_against_real_sockets() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let check = TcpCheck::new().rise(1).fall(1);
    let backend = Backend::new(listener.local_addr().unwrap());
    check.check(&backend).await.unwrap();
    drop(listener);
    let error = check.check(&backend).await.unwrap_err();
    assert!(
        error.to_string().to_lowercase().contains("refused"),
        "{error}"
    );
}

#[cfg(unix)]
#[tokio::test]
async fn tcp_check_against_a_unix_socket() {
    let directory = std::env::temp_dir().join(format!("balancer-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let path = directory.join("check.sock");
    let listener = tokio::net::UnixListener::bind(&path).unwrap();
    let backend = Backend::new(path.clone());
    TcpCheck::new().check(&backend).await.unwrap();
    drop(listener);
    assert!(TcpCheck::new().check(&backend).await.is_err());
    std::fs::remove_dir_all(&directory).unwrap();
}
