//! Every interleaving of what may happen at once, explored by loom.
//!
//! `RUSTFLAGS="--cfg loom_models" cargo test -p balancer --lib models`

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use loom::thread;
use selection::{Eligible, FailureKind, Identity, NodeId, Outcome, ReadySet, Selector};

use crate::board::Board;
use crate::clock::Clock;
use crate::health::{Admin, Probe};
use crate::member::Seat;
use crate::members::{Own, Policy};
use crate::pool::{Pool, Stay};
use crate::snapshot::{Choice, Entry};
use crate::state::{Mode, State};
use crate::{Backend, Consecutive, InitialHealth, Passive, Pick, Thresholds};

#[derive(Debug)]
struct Nobody;

impl Selector for Nobody {
    fn len(&self) -> usize {
        0
    }

    fn pick(&self, _: &[u8], _: &Eligible<'_>) -> Option<NodeId> {
        None
    }
}

fn policy(passive: Passive) -> Policy {
    Policy {
        initial: InitialHealth::Healthy,
        passive,
        slow_start: None,
    }
}

fn own() -> Own {
    Own {
        name: "model".into(),
        panic_threshold: 0,
        admin: std::collections::BTreeMap::new(),
        listener: None,
    }
}

/// A balancer of its own.
fn pool(passive: Passive) -> Arc<Pool> {
    let board = Arc::new(Board::new(policy(passive), Clock::start()));
    board.join(own())
}

/// Two balancers that share the health of their backends.
fn two_pools() -> [Arc<Pool>; 2] {
    let board = Arc::new(Board::shared(policy(Passive::Off), Clock::start()));
    [board.join(own()), board.join(own())]
}

fn backend() -> Backend {
    Backend::new(std::net::SocketAddr::from(([10, 0, 0, 1], 80)))
}

fn identity() -> Identity {
    backend().addr.identity()
}

/// Seats the one backend, or none, as an update does; returns its entry and its bits.
fn publish(pool: &Arc<Pool>, member: bool) -> (Arc<Entry>, Arc<ReadySet>) {
    let identity = identity();
    let states = pool.board.states(std::iter::once(&identity));
    let state = Arc::clone(&states[&identity]);
    let ready = Arc::new(ReadySet::none(1));
    let stay = pool.stay();
    let seat = Seat {
        state: Arc::clone(&state),
        ready: Arc::clone(&ready),
        node: NodeId::from(0),
        tier: 0,
        weight: 1,
        fails: crate::passive::Fails::default(),
        stay: stay.clone(),
    };
    let seats = if member { vec![seat] } else { vec![] };
    pool.board.seat(pool.id, seats, || {});
    (entry(pool, state, stay), ready)
}

fn entry(pool: &Arc<Pool>, state: Arc<State>, stay: Option<Arc<Stay>>) -> Arc<Entry> {
    Arc::new(Entry {
        load: Arc::clone(&state.load),
        node: NodeId::from(0),
        max_in_flight: u32::MAX,
        stay,
        backend: backend(),
        state,
        selectors: Arc::new([Arc::new(Nobody)]),
        pool: Arc::clone(pool),
    })
}

fn claim(entry: &Arc<Entry>) -> Option<Pick> {
    Pick::claim(Choice {
        entry,
        lane: 0,
        tracked: false,
    })
}

#[test]
fn a_flip_is_never_lost_in_a_publication() {
    loom::model(|| {
        let pool = pool(Passive::Off);
        publish(&pool, true);
        let flip = thread::spawn({
            let pool = Arc::clone(&pool);
            move || {
                pool.board
                    .set_admin(pool.id, &identity(), Admin::Disabled)
                    .is_some()
            }
        });
        let (entry, ready) = publish(&pool, true);
        assert!(flip.join().unwrap(), "a member all the time");
        assert!(!ready.is_ready(NodeId::from(0)));
        assert_eq!(entry.state.mode(), Mode::Closed);
    });
}

#[test]
fn a_check_of_the_former_member_does_not_count() {
    loom::model(|| {
        let pool = pool(Passive::Off);
        let (_, _) = publish(&pool, true);
        let stint = pool.board.take_checks(pool.id)[&identity()];
        let check = thread::spawn({
            let pool = Arc::clone(&pool);
            move || {
                let thresholds = Thresholds { rise: 1, fall: 1 };
                pool.board
                    .probed(&identity(), stint, (Probe::Failed, thresholds), &"refused");
            }
        });
        publish(&pool, false);
        let (entry, ready) = publish(&pool, true);
        check.join().unwrap();
        assert!(ready.is_ready(NodeId::from(0)));
        assert_eq!(entry.state.mode(), Mode::Open);
    });
}

#[test]
fn a_pick_is_counted_back_once_over_removal_and_return() {
    loom::model(|| {
        let pool = pool(Passive::Off);
        let (first, _) = publish(&pool, true);
        let request = thread::spawn(move || drop(claim(&first)));
        publish(&pool, false);
        let (second, _) = publish(&pool, true);
        let pick = claim(&second).expect("a member again");
        request.join().unwrap();
        assert_eq!(second.state.load.in_flight(), 1);
        drop(pick);
        assert_eq!(second.state.load.in_flight(), 0);
    });
}

#[test]
fn no_pick_comes_after_a_drain_has_ended() {
    loom::model(|| {
        let pool = pool(Passive::Off);
        let (entry, _) = publish(&pool, true);
        // Not loom's: set and seen at once, whatever the memory model.
        let drained = Arc::new(AtomicBool::new(false));
        let request = thread::spawn({
            let (entry, drained) = (Arc::clone(&entry), Arc::clone(&drained));
            move || {
                if let Some(pick) = claim(&entry) {
                    thread::yield_now();
                    assert!(!drained.load(SeqCst), "it is on a backend that is drained");
                    drop(pick);
                }
            }
        });
        let state = pool
            .board
            .set_admin(pool.id, &identity(), Admin::Drain)
            .expect("a member");
        loom::future::block_on(state.idle());
        drained.store(true, SeqCst);
        // One that is just being refused may still be counted here for a moment.
        request.join().unwrap();
        assert_eq!(state.load.in_flight(), 0);
        assert!(claim(&entry).is_none());
    });
}

#[test]
fn a_trial_is_one_request() {
    loom::model(|| {
        let rule = Consecutive::default()
            .failures(1)
            .base(Duration::from_nanos(1));
        let pool = pool(Passive::Consecutive(rule.max_ejection_percent(100)));
        let entry = on_trial(&pool);
        let request = thread::spawn({
            let entry = Arc::clone(&entry);
            move || claim(&entry)
        });
        let mine = claim(&entry);
        let other = request.join().unwrap();
        assert!(
            mine.is_some() != other.is_some(),
            "one of the two, and only one"
        );
    });
}

#[test]
fn a_flip_reaches_all_who_share_it() {
    loom::model(|| {
        let [one, other] = two_pools();
        let (_, ready) = publish(&one, true);
        publish(&other, true);
        let flip = thread::spawn({
            let one = Arc::clone(&one);
            move || one.board.set_admin(one.id, &identity(), Admin::Disabled)
        });
        let (entry, published) = publish(&other, true);
        let state = flip.join().unwrap().expect("a member all the time");
        assert!(Arc::ptr_eq(&state, &entry.state));
        for ready in [ready, published] {
            assert!(!ready.is_ready(NodeId::from(0)));
        }
        assert!(claim(&entry).is_none());
    });
}

#[test]
fn two_that_find_a_backend_at_once_share_its_counter() {
    loom::model(|| {
        let [one, other] = two_pools();
        let found = thread::spawn(move || publish(&one, true).0);
        let (mine, _) = publish(&other, true);
        let theirs = found.join().unwrap();
        assert!(Arc::ptr_eq(&mine.state, &theirs.state));
        let _pick = claim(&mine).expect("it is well");
        assert_eq!(theirs.load.in_flight(), 1);
    });
}

#[test]
fn what_leaves_one_is_closed_to_that_one_only() {
    loom::model(|| {
        let [one, other] = two_pools();
        let (left, _) = publish(&one, true);
        let (stays, _) = publish(&other, true);
        // Not loom's: set and seen at once, whatever the memory model.
        let published = Arc::new(AtomicBool::new(false));
        let request = thread::spawn({
            let (left, published) = (Arc::clone(&left), Arc::clone(&published));
            move || match claim(&left) {
                Some(pick) => drop(pick),
                None => assert!(published.load(SeqCst), "it would find nobody else"),
            }
        });
        let publish = || {
            // Whatever was closed too early is seen here.
            thread::yield_now();
            published.store(true, SeqCst);
        };
        one.board.seat(one.id, Vec::new(), publish);
        assert!(claim(&left).is_none());
        drop(claim(&stays).expect("a member there"));
        request.join().unwrap();
        assert_eq!(stays.load.in_flight(), 0);
    });
}

/// A member that was ejected and whose time is over, beside one that is well.
fn on_trial(pool: &Arc<Pool>) -> Arc<Entry> {
    let other = Identity::from("other");
    let identities = [identity(), other.clone()];
    let mut states = pool.board.states(identities.iter());
    let ready = Arc::new(ReadySet::none(2));
    let seat = |(node, state): (u32, &Arc<State>)| Seat {
        state: Arc::clone(state),
        ready: Arc::clone(&ready),
        node: NodeId::from(node),
        tier: 0,
        weight: 1,
        fails: crate::passive::Fails::default(),
        stay: None,
    };
    let seats = (0..).zip(states.values()).map(seat).collect();
    pool.board.seat(pool.id, seats, || {});
    let state = states.remove(&identity()).expect("one of the two");
    let entry = entry(pool, state, None);
    let pick = claim(&entry).expect("it is well");
    pick.complete(Outcome::Failure(FailureKind::Connect));
    assert_eq!(entry.state.mode(), Mode::Sick);
    pool.board.attend();
    assert_eq!(entry.state.mode(), Mode::Trial);
    entry
}
