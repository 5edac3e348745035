//! The balancer on one thread, under any order of picks, ends, updates, checks, flips and drains,
//! against a model that knows the members, the requests in flight and the operator's wishes.
//!
//! What a backend is fit for is the balancer's own word (`status`), which has models of its own in
//! its unit tests; here, that every pick, count and event agrees with it.

mod model;
mod source;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::future::pending;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arbitrary::Arbitrary;
use balancer::selection::{Algorithm, FailureKind, Outcome, Selector};
use balancer::{
    Admin, Attempts, Builder, Consecutive, Drain, Event, Handle, InitialHealth, LoadBalancer,
    MaxFails, Options, Passive, Pick, SlowStart, Status,
};
use tokio::runtime::Runtime;
use tokio::task::yield_now;
use tokio::time::advance;

use self::model::{Model, number_of};
use self::source::{Checks, Source, address};

/// A balancer, and what happens to it.
#[derive(Arbitrary, Debug)]
pub struct Input {
    algorithm: u8,
    options: Settings,
    members: Vec<Member>,
    steps: Vec<Step>,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
struct Settings {
    passive: Failures,
    panic_threshold: u8,
    min_backends: bool,
    slow_start: bool,
    unhealthy_at_first: bool,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Failures {
    Off,
    MaxFails { max_fails: u8, fail_timeout: u8 },
    Consecutive { failures: u8, base: u8, percent: u8 },
}

#[derive(Arbitrary, Clone, Copy, Debug)]
pub(crate) struct Member {
    pub(crate) number: u8,
    pub(crate) weight: u8,
    pub(crate) tier: u8,
    pub(crate) max_in_flight: Option<u8>,
}

#[derive(Arbitrary, Debug)]
enum Step {
    /// By the balancer, or by a handle; the requests that it is refused by number.
    Pick {
        key: u8,
        by_handle: bool,
        refused: u8,
    },
    /// As many attempts as that, all of which stay in flight.
    Attempts {
        key: u8,
        count: u8,
    },
    /// A cursor that stays open over what follows.
    Open {
        key: u8,
    },
    Next,
    End {
        nth: u8,
        how: End,
    },
    Update(Vec<Member>),
    FailedUpdate,
    SetAdmin {
        number: u8,
        admin: Wish,
    },
    Drain {
        number: u8,
    },
    /// From now on checks of these fail; then time for one of each passes.
    Check {
        failing: u8,
    },
    Pass {
        millis: u16,
    },
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum End {
    Dropped,
    Cancelled,
    Failed,
    Succeeded { millis: u16 },
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Wish {
    Enabled,
    Drain,
    Disabled,
}

type Balancer = LoadBalancer<dyn Selector>;

struct World {
    balancer: Arc<Balancer>,
    handle: Handle<dyn Selector>,
    source: Arc<Source>,
    checks: Arc<Checks>,
    events: Arc<Mutex<Vec<Event>>>,
    model: Model,
    held: Vec<Pick>,
    cursor: Option<Cursor>,
    drains: Vec<(u8, Drain)>,
}

/// Attempts that go on over what else happens, and whom they have met.
struct Cursor {
    attempts: Attempts<dyn Selector, Vec<u8>>,
    tried: BTreeSet<u8>,
}

thread_local! {
    /// One for all inputs: a runtime and its thread for builds cost more than an input does.
    static RUNTIME: Runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
}

/// Panics if the balancer does what it should not.
pub fn run(input: Input) {
    RUNTIME.with(|runtime| runtime.block_on(play(input)));
}

#[expect(
    clippy::disallowed_methods,
    reason = "a program starts its balancer's service"
)]
async fn play(input: Input) {
    let Some(mut world) = World::new(&input) else {
        return;
    };
    let service = tokio::spawn(Arc::clone(&world.balancer).run(pending()));
    // The service begins with an update of its own, built on another thread.
    while world.balancer.status().updates == 0 {
        yield_now().await;
    }
    settle().await;
    world.model.update(&input.members);
    world.check().await;
    for step in input.steps.iter().take(MOST_STEPS) {
        world.take(step).await;
        world.check().await;
    }
    world.finish();
    service.abort();
    settle().await;
}

impl World {
    fn new(input: &Input) -> Option<Self> {
        let options = input.options.options();
        if options.min_backends > input.members.len() {
            return None; // The service would try again and again, at times of its own.
        }
        let source = Arc::new(Source::new(&input.members));
        let checks = Arc::new(Checks::default());
        let events = Arc::new(Mutex::new(Vec::new()));
        let name = Algorithm::NAMES[usize::from(input.algorithm) % Algorithm::NAMES.len()];
        let algorithm: Algorithm = name.parse().unwrap();
        let told = Arc::clone(&events);
        let model = Model::new(&options);
        let builder = Builder::from_factory(Arc::clone(&source), move |nodes, previous| {
            let selector = match previous {
                Some(previous) => algorithm.rebuild(previous, nodes)?,
                None => algorithm.build(nodes)?,
            };
            Ok(selector.into())
        });
        let balancer = builder
            .health_check(Arc::clone(&checks))
            .options(options)
            .on_event(move |event| {
                let mut told = told.lock().unwrap_or_else(PoisonError::into_inner);
                told.push(event.clone());
            })
            .build();
        let balancer = Arc::new(balancer.unwrap());
        Some(Self {
            handle: balancer.handle(),
            balancer,
            source,
            checks,
            events,
            model,
            held: Vec::new(),
            cursor: None,
            drains: Vec::new(),
        })
    }

    async fn take(&mut self, step: &Step) {
        match *step {
            Step::Pick {
                key,
                by_handle,
                refused,
            } => self.pick(key, by_handle, refused),
            Step::Attempts { key, count } => self.attempts(key, count),
            Step::Open { key } => {
                let attempts = self.balancer.attempts(bytes(key));
                let tried = BTreeSet::new();
                self.cursor = Some(Cursor { attempts, tried });
            }
            Step::Next => self.next(),
            Step::End { nth, how } => self.end(nth, how),
            Step::Update(ref members) => self.update(members).await,
            Step::FailedUpdate => {
                self.source.fail();
                let before = self.balancer.status();
                self.balancer.update().await.unwrap_err();
                let after = self.balancer.status();
                assert_eq!(after.failed_updates, before.failed_updates + 1);
                assert_eq!(after.generation, before.generation);
            }
            Step::SetAdmin { number, admin } => {
                let admin = admin.admin();
                let known = self.balancer.set_admin(&address(number), admin);
                assert_eq!(known, self.model.set_admin(number, admin));
            }
            Step::Drain { number } => {
                let drain = self.balancer.drain(&address(number));
                assert_eq!(drain.is_some(), self.model.set_admin(number, Admin::Drain));
                self.drains
                    .extend(drain.map(|drain| (number_of(&address(number)), drain)));
            }
            Step::Check { failing } => {
                self.checks.fail(failing);
                advance(CHECK_INTERVAL).await;
                settle().await;
                self.model.checked(&self.balancer.status(), failing);
            }
            Step::Pass { millis } => {
                advance(Duration::from_millis(millis.into())).await;
                settle().await;
            }
        }
    }

    fn pick(&mut self, key: u8, by_handle: bool, refused: u8) {
        let key = bytes(key);
        let fits = |number: u8| refused >> number & 1 == 0;
        let everyone = refused == 0;
        let may = self.candidates(&BTreeSet::new(), |number| everyone || fits(number));
        let pick = if !everyone {
            let fits = |backend: &balancer::Backend| fits(number_of(&backend.addr));
            self.balancer.select_where(&key, fits)
        } else if by_handle {
            self.handle.select(&key)
        } else {
            self.balancer.select(&key)
        };
        self.hold(pick, &may);
    }

    fn attempts(&mut self, key: u8, count: u8) {
        let mut attempts = self.balancer.attempts(bytes(key));
        let mut tried = BTreeSet::new();
        for _ in 0..count % 8 {
            let may = self.candidates(&tried, |_| true);
            let Some(number) = self.hold(attempts.next(), &may) else {
                break;
            };
            tried.insert(number);
        }
    }

    /// The cursor is on the members of when it was opened; of those it passes what may not serve.
    fn next(&mut self) {
        let status = self.status();
        let Some(Cursor { attempts, tried }) = &mut self.cursor else {
            return;
        };
        let Some(pick) = attempts.next() else {
            return;
        };
        let number = number_of(&pick.addr);
        assert!(tried.insert(number), "{number} twice");
        assert!(
            self.model.serves(number, &status),
            "{number} of an open cursor"
        );
        self.model.count(number);
        self.held.push(pick);
    }

    /// The backends that may be picked now: those of the lowest tier that has any.
    fn candidates(&self, tried: &BTreeSet<u8>, fits: impl Fn(u8) -> bool) -> BTreeSet<u8> {
        let status = self.status();
        let fits = |number: &u8| !tried.contains(number) && fits(*number);
        self.model.candidates(&status, fits)
    }

    /// That of a pick to come: a look lets happen what is due.
    fn status(&self) -> Status {
        self.balancer.peek(b"", |_| ());
        self.balancer.status()
    }

    fn hold(&mut self, pick: Option<Pick>, may: &BTreeSet<u8>) -> Option<u8> {
        let Some(pick) = pick else {
            assert!(may.is_empty(), "nobody, but one of {may:?} may be picked");
            return None;
        };
        let number = number_of(&pick.addr);
        assert!(may.contains(&number), "{number}, none of {may:?}");
        self.model.count(number);
        assert_eq!(pick.in_flight(), self.model.in_flight(number));
        self.held.push(pick);
        Some(number)
    }

    fn end(&mut self, nth: u8, how: End) {
        let Some(last) = self.held.len().checked_sub(1) else {
            return;
        };
        let pick = self.held.swap_remove(usize::from(nth).min(last));
        self.model.ended(number_of(&pick.addr));
        match how {
            End::Dropped => drop(pick),
            End::Cancelled => pick.complete(Outcome::Cancelled),
            End::Failed => pick.complete(Outcome::Failure(FailureKind::Status)),
            End::Succeeded { millis } => {
                pick.complete(Outcome::success(Duration::from_millis(millis.into())));
            }
        }
    }

    async fn update(&mut self, members: &[Member]) {
        self.source.set(members);
        let before = self.balancer.generation();
        match self.balancer.update().await {
            Ok(update) => {
                assert_eq!(update.generation, self.balancer.generation());
                let changes = self.model.update(members);
                assert_eq!(update.is_unchanged(), !changes);
                assert_eq!(update.generation, before + u64::from(changes));
            }
            Err(error) => {
                assert!(self.model.is_too_few(members), "{error}");
                assert_eq!(self.balancer.generation(), before);
            }
        }
    }

    /// Whatever holds at any time.
    async fn check(&mut self) {
        let events =
            std::mem::take(&mut *self.events.lock().unwrap_or_else(PoisonError::into_inner));
        let status = self.balancer.status();
        self.model.told(&events);
        self.model.check(&status);
        self.model.check_selectors(&self.balancer.tiers());
        for (number, drain) in &self.drains {
            assert_eq!(drain.in_flight(), self.model.in_flight(*number), "a drain");
            let is_idle = poll_once(drain.drained()).await;
            assert_eq!(is_idle, drain.in_flight() == 0, "drained");
        }
    }

    /// All requests end, and nothing is left of them.
    fn finish(&mut self) {
        while !self.held.is_empty() {
            self.end(u8::MAX, End::Dropped);
        }
        let status = self.balancer.status();
        assert!(status.backends.iter().all(|backend| backend.in_flight == 0));
    }
}

impl Settings {
    fn options(self) -> Options {
        let secs = |secs: u8| Duration::from_secs(u64::from(secs % 64) + 1);
        let passive = match self.passive {
            Failures::Off => Passive::Off,
            Failures::MaxFails {
                max_fails,
                fail_timeout,
            } => Passive::MaxFails(
                MaxFails::default()
                    .max_fails((max_fails % 4).into())
                    .fail_timeout(secs(fail_timeout)),
            ),
            Failures::Consecutive {
                failures,
                base,
                percent,
            } => Passive::Consecutive(
                Consecutive::default()
                    .failures((failures % 4).into())
                    .base(secs(base))
                    .max_ejection_percent(percent % 101),
            ),
        };
        let options = Options::default()
            .check_interval(CHECK_INTERVAL)
            .check_jitter(0)
            .update_interval(A_LONG_TIME)
            .passive(passive)
            .panic_threshold(self.panic_threshold % 101)
            .min_backends(self.min_backends.into());
        let options = match self.unhealthy_at_first {
            true => options.initial_health(InitialHealth::Unhealthy),
            false => options,
        };
        match self.slow_start {
            true => options.slow_start(SlowStart::new(Duration::from_secs(20))),
            false => options,
        }
    }
}

impl Wish {
    fn admin(self) -> Admin {
        match self {
            Self::Enabled => Admin::Enabled,
            Self::Drain => Admin::Drain,
            Self::Disabled => Admin::Disabled,
        }
    }
}

/// A key of its own, or none.
fn bytes(key: u8) -> Vec<u8> {
    match key % 8 {
        0 => Vec::new(),
        _ => vec![key; 4],
    }
}

/// Lets everything run that is ready, without the clock going on.
async fn settle() {
    for _ in 0..16 {
        yield_now().await;
    }
}

/// Whether a future is ready at its first poll.
async fn poll_once(future: impl Future<Output = ()>) -> bool {
    let future = RefCell::new(Box::pin(future));
    std::future::poll_fn(|context| {
        let mut future = future.borrow_mut();
        std::task::Poll::Ready(future.as_mut().poll(context).is_ready())
    })
    .await
}

const MOST_STEPS: usize = 32;
const CHECK_INTERVAL: Duration = Duration::from_secs(10);
const A_LONG_TIME: Duration = Duration::from_secs(100 * 365 * 24 * 3600);
