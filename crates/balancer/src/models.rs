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
use crate::members::{Policy, Seat};
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

fn board(passive: Passive) -> Arc<Board> {
    let policy = Policy {
        initial: InitialHealth::Healthy,
        passive,
        panic_threshold: 0,
        slow_start: None,
        admin: std::collections::BTreeMap::new(),
    };
    Arc::new(Board::new(policy, Clock::start(), None))
}

fn backend() -> Backend {
    Backend::new(std::net::SocketAddr::from(([10, 0, 0, 1], 80)))
}

fn identity() -> Identity {
    backend().addr.identity()
}

/// Seats the one backend, or none, as an update does; returns its entry and its bits.
fn publish(board: &Arc<Board>, member: bool) -> (Arc<Entry>, Arc<ReadySet>) {
    let identity = identity();
    let states = board.states(std::iter::once(&identity));
    let state = Arc::clone(&states[&identity]);
    let ready = Arc::new(ReadySet::none(1));
    let seat = Seat {
        state: Arc::clone(&state),
        ready: Arc::clone(&ready),
        node: NodeId::from(0),
        tier: 0,
        weight: 1,
    };
    board.seat(if member { vec![seat] } else { vec![] }, || {});
    (entry(board, state), ready)
}

fn entry(board: &Arc<Board>, state: Arc<State>) -> Arc<Entry> {
    Arc::new(Entry {
        load: Arc::clone(&state.load),
        node: NodeId::from(0),
        max_in_flight: u32::MAX,
        backend: backend(),
        state,
        selectors: Arc::new([Arc::new(Nobody)]),
        board: Arc::clone(board),
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
        let board = board(Passive::Off);
        publish(&board, true);
        let flip = thread::spawn({
            let board = Arc::clone(&board);
            move || board.set_admin(&identity(), Admin::Disabled).is_some()
        });
        let (entry, ready) = publish(&board, true);
        assert!(flip.join().unwrap(), "a member all the time");
        assert!(!ready.is_ready(NodeId::from(0)));
        assert_eq!(entry.state.mode(), Mode::Closed);
    });
}

#[test]
fn a_check_of_the_former_member_does_not_count() {
    loom::model(|| {
        let board = board(Passive::Off);
        let (_, _) = publish(&board, true);
        let (verdicts, _) = board.verdicts();
        let stint = verdicts[&identity()].stint;
        let check = thread::spawn({
            let board = Arc::clone(&board);
            move || {
                let thresholds = Thresholds { rise: 1, fall: 1 };
                board.probed(&identity(), stint, (Probe::Failed, thresholds), &"refused");
            }
        });
        publish(&board, false);
        let (entry, ready) = publish(&board, true);
        check.join().unwrap();
        assert!(ready.is_ready(NodeId::from(0)));
        assert_eq!(entry.state.mode(), Mode::Open);
    });
}

#[test]
fn a_pick_is_counted_back_once_over_removal_and_return() {
    loom::model(|| {
        let board = board(Passive::Off);
        let (first, _) = publish(&board, true);
        let request = thread::spawn(move || drop(claim(&first)));
        publish(&board, false);
        let (second, _) = publish(&board, true);
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
        let board = board(Passive::Off);
        let (entry, _) = publish(&board, true);
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
        let state = board
            .set_admin(&identity(), Admin::Drain)
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
        let board = board(Passive::Consecutive(rule.max_ejection_percent(100)));
        let entry = on_trial(&board);
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

/// A member that was ejected and whose time is over, beside one that is well.
fn on_trial(board: &Arc<Board>) -> Arc<Entry> {
    let other = Identity::from("other");
    let identities = [identity(), other.clone()];
    let mut states = board.states(identities.iter());
    let ready = Arc::new(ReadySet::none(2));
    let seat = |(node, state): (u32, &Arc<State>)| Seat {
        state: Arc::clone(state),
        ready: Arc::clone(&ready),
        node: NodeId::from(node),
        tier: 0,
        weight: 1,
    };
    board.seat((0..).zip(states.values()).map(seat).collect(), || {});
    let state = states.remove(&identity()).expect("one of the two");
    let entry = entry(board, state);
    let pick = claim(&entry).expect("it is well");
    pick.complete(Outcome::Failure(FailureKind::Connect));
    assert_eq!(entry.state.mode(), Mode::Closed);
    board.attend();
    assert_eq!(entry.state.mode(), Mode::Trial);
    entry
}
