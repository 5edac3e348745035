//! What the clients see, as they see it: which backend answered which key in which stage.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use crate::moves::{Owners, PHASES, STAGES};

/// Written by every client at once, read by the story.
#[derive(Debug)]
pub(crate) struct Record {
    keys: usize,
    /// Requests still to be given out; 0 ends the load.
    budget: AtomicU64,
    /// The next key.
    turn: AtomicUsize,
    stage: AtomicUsize,
    /// A bit per backend that answered, for every key of every stage.
    owners: Vec<AtomicU64>,
    retries: [AtomicU64; STAGES],
    /// By backend.
    answers: [AtomicU64; u64::BITS as usize],
    failed: AtomicU64,
    first_failures: Mutex<Vec<String>>,
}

/// One request that a client is to make.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ask {
    pub(crate) key: usize,
    stage: usize,
}

/// One request that was answered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    /// The stage it belongs to: see [`Record::answered`].
    pub(crate) stage: usize,
    pub(crate) backend: usize,
    pub(crate) latency: Duration,
}

/// An answer as a client read it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answer {
    pub(crate) backend: usize,
    /// Backends that were asked until one answered.
    pub(crate) attempts: u64,
}

impl Record {
    pub(crate) fn new(keys: usize, budget: u64) -> Self {
        Self {
            keys,
            budget: AtomicU64::new(budget),
            turn: AtomicUsize::new(0),
            stage: AtomicUsize::new(0),
            owners: std::iter::repeat_with(AtomicU64::default)
                .take(keys * STAGES)
                .collect(),
            retries: Default::default(),
            answers: std::array::from_fn(|_| AtomicU64::new(0)),
            failed: AtomicU64::new(0),
            first_failures: Mutex::default(),
        }
    }

    /// The next request, or `None` once the load is over. The keys take turns.
    pub(crate) fn next(&self) -> Option<Ask> {
        let take = |budget: u64| budget.checked_sub(1);
        self.budget
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take)
            .ok()?;
        Some(Ask {
            key: self.turn.fetch_add(1, Ordering::Relaxed) % self.keys,
            stage: self.stage(),
        })
    }

    /// Ends the load.
    pub(crate) fn stop(&self) {
        self.budget.store(0, Ordering::Relaxed);
    }

    pub(crate) fn is_over(&self) -> bool {
        self.budget.load(Ordering::Relaxed) == 0
    }

    /// The pool starts to change, or has settled: see [`PHASES`] for the order of the stages.
    pub(crate) fn enter_next_stage(&self) {
        self.stage.fetch_add(1, Ordering::SeqCst);
    }

    pub(crate) fn stage(&self) -> usize {
        self.stage.load(Ordering::SeqCst)
    }

    /// An answer.
    ///
    /// It belongs to the stage in which it was asked for, if it came in that stage too. One that
    /// saw a stage end belongs to the change: it may have met the pool before or after it.
    pub(crate) fn answered(&self, ask: Ask, answer: Answer, latency: Duration) -> Sample {
        let now = self.stage();
        let change = ask.stage + usize::from(is_settled(ask.stage) && now > ask.stage);
        let sample = Sample {
            stage: change,
            backend: answer.backend,
            latency,
        };
        self.answers[answer.backend].fetch_add(1, Ordering::Relaxed);
        self.retries[change].fetch_add(answer.attempts.saturating_sub(1), Ordering::Relaxed);
        // One that lasted through more than one change could be anyone's: it counts, but it says
        // nothing about its key.
        if now <= change + 1 {
            self.owners[change * self.keys + ask.key]
                .fetch_or(1 << answer.backend, Ordering::Relaxed);
        }
        sample
    }

    /// A request that a client saw fail.
    pub(crate) fn failed(&self, ask: Ask, why: &str) {
        self.failed.fetch_add(1, Ordering::Relaxed);
        let mut failures = match self.first_failures.lock() {
            Ok(failures) => failures,
            Err(poisoned) => poisoned.into_inner(),
        };
        if failures.len() < FAILURES_KEPT {
            let phase = PHASES[ask.stage.div_ceil(2)];
            failures.push(format!("key {} ({phase}): {why}", ask.key));
        }
    }

    pub(crate) fn failures(&self) -> (u64, Vec<String>) {
        let kept = match self.first_failures.lock() {
            Ok(failures) => failures.clone(),
            Err(poisoned) => poisoned.into_inner().clone(),
        };
        (self.failed.load(Ordering::Relaxed), kept)
    }

    /// Further attempts that requests of `stage` needed.
    pub(crate) fn retries(&self, stage: usize) -> u64 {
        self.retries[stage].load(Ordering::Relaxed)
    }

    /// The answers so far: those of `backend`, and all.
    pub(crate) fn answers(&self, backend: usize) -> (u64, u64) {
        let count = |answers: &AtomicU64| answers.load(Ordering::Relaxed);
        (
            count(&self.answers[backend]),
            self.answers.iter().map(count).sum(),
        )
    }

    /// The keys that nobody has answered yet in the present stage.
    pub(crate) fn unanswered(&self) -> usize {
        self.masks(self.stage()).filter(|&mask| mask == 0).count()
    }

    /// Who answered each key in `stage`.
    pub(crate) fn owners(&self, stage: usize) -> Owners {
        Owners::new(self.masks(stage).collect())
    }

    fn masks(&self, stage: usize) -> impl Iterator<Item = u64> {
        self.owners[stage * self.keys..][..self.keys]
            .iter()
            .map(|mask| mask.load(Ordering::Relaxed))
    }
}

/// Settled stages and changes take turns, and a settled one comes first.
fn is_settled(stage: usize) -> bool {
    stage.is_multiple_of(2)
}

const FAILURES_KEPT: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWER: Answer = Answer {
        backend: 3,
        attempts: 2,
    };

    #[test]
    fn an_answer_that_saw_its_stage_end_belongs_to_the_change() {
        let record = Record::new(2, 10);
        let (quick, slow, slowest) = (record.next(), record.next(), record.next());
        let stage = |ask: Option<Ask>| record.answered(ask.unwrap(), ANSWER, Duration::ZERO).stage;
        assert_eq!(stage(quick), 0);
        assert_eq!(record.unanswered(), 1);
        record.enter_next_stage();
        record.enter_next_stage();
        assert_eq!(stage(slow), 1);
        assert_eq!(record.owners(1), Owners::new(vec![0, 1 << 3]));
        record.enter_next_stage();
        assert_eq!(stage(slowest), 1);
        assert_eq!(
            record.owners(1),
            Owners::new(vec![0, 1 << 3]),
            "too long a way"
        );
        assert_eq!((record.retries(0), record.retries(1)), (1, 2));
        assert_eq!((record.answers(3), record.answers(0)), ((3, 3), (0, 3)));
    }

    #[test]
    fn the_budget_is_never_exceeded_and_keys_take_turns() {
        let record = Record::new(2, 3);
        let keys: Vec<_> = std::iter::from_fn(|| record.next())
            .map(|ask| ask.key)
            .collect();
        assert_eq!(keys, [0, 1, 0]);
        assert!(record.is_over());
    }

    #[test]
    fn failures_are_counted_and_the_first_are_kept() {
        let record = Record::new(1, 10);
        while let Some(ask) = record.next() {
            record.failed(ask, "refused");
        }
        let (count, kept) = record.failures();
        assert_eq!((count, kept.len()), (10, FAILURES_KEPT));
        assert_eq!(kept[0], "key 0 (before): refused");
    }
}
