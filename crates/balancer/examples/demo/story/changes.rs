//! What happens to the pool, step by step: each is told, done, and waited for.

use std::time::{Duration, Instant};

use balancer::{BackendStatus, Condition, Drain};
use selection::Build;
use tokio::time::{sleep, sleep_until, timeout};

use super::{Act, FAILER, LEAVER, VICTIM};
use crate::Failure;
use crate::backend::Temper;
use crate::pool::{GLANCE, PATIENCE, Turn};
use crate::shown::{Part, SlowStart};

impl<S: Build> Act<'_, S> {
    /// Both kinds of health find out: requests at once, checks a little later, and those hold.
    pub(super) async fn one_dies(&mut self) -> Result<(), Failure> {
        self.begin("A backend dies: requests notice first, health checks confirm it")?;
        let died = Instant::now();
        self.pool.kill(VICTIM).await?;
        self.up &= !(1 << VICTIM);
        let cut = self.pool.backends()[VICTIM].cut();
        let text = format_args!("its port refuses, {cut} requests cut off");
        self.tell("dies", VICTIM, text)?;
        let out = [Condition::Ejected, Condition::Down];
        let mut turns = self.pool.turns(VICTIM, &out).await?;
        if let Some(ejected) = turn_to(&turns, Condition::Ejected) {
            let after = millis_between(died, ejected.at);
            let reason = &ejected.event.reason;
            let text = format_args!("after {after} ms by what requests met: {reason}");
            self.tell("ejected", VICTIM, text)?;
            turns = self.pool.turns(VICTIM, &[Condition::Down]).await?;
        }
        if let Some(down) = turn_to(&turns, Condition::Down) {
            let after = millis_between(died, down.at);
            let reason = &down.event.reason;
            let text = format_args!("after {after} ms by its health check: {reason}");
            self.tell("down", VICTIM, text)?;
        }
        let retries = self.record.retries(self.record.stage());
        let text = format_args!("{retries} requests so far, each answered by another backend");
        self.say("retried", text)
    }

    /// A port that answers is not enough: it gets nothing until its check passes.
    pub(super) async fn it_comes_back(&mut self) -> Result<(), Failure> {
        self.begin("It listens again, but is not ready yet: requests wait for its health check")?;
        let is_idle = |it: Option<&BackendStatus>| it.is_some_and(|it| it.in_flight == 0);
        self.pool.until(VICTIM, "given up", is_idle).await?;
        let backend = &self.pool.backends()[VICTIM];
        let (asked, checked) = (backend.asked(), backend.checked());
        backend.turn(Temper::Starting);
        self.pool.revive(VICTIM)?;
        self.tell(
            "listens",
            VICTIM,
            format_args!("on its old port, and starts up"),
        )?;
        let came = Instant::now();
        while self.pool.backends()[VICTIM].checked() < checked + CHECKS_WHILE_STARTING {
            patient(came, "no health check reaches the backend")?;
            sleep(GLANCE).await;
        }
        let backend = &self.pool.backends()[VICTIM];
        let shown = (backend.checked() - checked, backend.asked() - asked);
        self.shown.starting = shown;
        let text = format_args!(
            "{} checks answered with 503, {} requests sent to it",
            shown.0, shown.1
        );
        self.tell("starts", VICTIM, text)?;
        self.pool.forget_turns();
        let ready = Instant::now();
        self.pool.turn(VICTIM, Temper::Well);
        let turns = self.pool.turns(VICTIM, &[Condition::Ready]).await?;
        self.up |= 1 << VICTIM;
        let after = ready.elapsed().as_millis();
        let reason = reason(&turns);
        self.tell(
            "up",
            VICTIM,
            format_args!("{after} ms after it was ready: {reason}"),
        )?;
        self.eases_in(VICTIM).await
    }

    /// Nothing is wrong with its health check: only requests can tell.
    pub(super) async fn one_fails(&mut self) -> Result<(), Failure> {
        self.begin("A backend answers 500 to every request, while its health check passes")?;
        self.pool.forget_turns();
        let begun = Instant::now();
        self.pool.turn(FAILER, Temper::Failing);
        let turns = self.pool.turns(FAILER, &[Condition::Ejected]).await?;
        self.up &= !(1 << FAILER);
        let ejected = turn_to(&turns, Condition::Ejected).map_or(begun, |turn| turn.at);
        self.shown.ejected_after = ejected.saturating_duration_since(begun);
        let after = self.shown.ejected_after.as_millis();
        let reason = reason(&turns);
        let text = format_args!("after {after} ms by what requests met: {reason}");
        self.tell("ejected", FAILER, text)
    }

    /// After an ejection one request is let through. It shows that the backend is well.
    pub(super) async fn it_is_mended(&mut self) -> Result<(), Failure> {
        let failed = self.pool.backends()[FAILER].failed();
        self.shown.failed_at_backend = failed;
        let text = format_args!(
            "{failed} requests failed there, trials included; all were answered elsewhere"
        );
        self.tell("out", FAILER, text)?;
        self.begin("It is mended: after the ejection one trial request brings it back")?;
        self.pool.forget_turns();
        let mended = Instant::now();
        self.pool.turn(FAILER, Temper::Well);
        let turns = self.pool.turns(FAILER, &[Condition::Ready]).await?;
        self.up |= 1 << FAILER;
        let after = mended.elapsed().as_millis();
        let reason = reason(&turns);
        self.tell("back", FAILER, format_args!("after {after} ms: {reason}"))?;
        self.eases_in(FAILER).await
    }

    /// The list is a file, and somebody edits it.
    pub(super) async fn one_is_added(&mut self) -> Result<(), Failure> {
        self.begin(
            "The list of backends is edited: a mistake changes nothing, a good list acts at once",
        )?;
        let before = self.pool.balancer().status().backends.len();
        let status = self.pool.misspell().await?;
        let after = status.backends.len();
        self.shown.members = (before, after);
        let error = status.last_error.as_ref();
        let cause = error
            .and_then(std::error::Error::source)
            .map(ToString::to_string);
        self.shown.refused_list = cause.unwrap_or_default();
        let text = self.shown.refused_list.clone();
        self.say("refused", format_args!("{text}"))?;
        self.say("serving", format_args!("{after} members as before"))?;
        let written = Instant::now();
        let new = self.pool.add().await?;
        let addr = self.pool.backends()[new].addr();
        self.tell("listed", new, format_args!("{addr}, with the mistake gone"))?;
        self.pool.until(new, "up", is_up).await?;
        self.up |= 1 << new;
        let after = written.elapsed().as_millis();
        self.tell(
            "joins",
            new,
            format_args!("after {after} ms, once its first check has passed"),
        )?;
        self.eases_in(new).await
    }

    /// It takes its time, so that there is something to wait for.
    pub(super) async fn one_is_drained(&mut self) -> Result<(), Failure> {
        self.begin("A backend is drained: nothing new comes, what it has it finishes")?;
        self.pool.turn(LEAVER, Temper::Slow);
        let (slow, asked) = (Instant::now(), self.pool.backends()[LEAVER].asked());
        while self.pool.backends()[LEAVER].asked() < asked + BUSY {
            patient(slow, "too few requests reach the backend")?;
            sleep(GLANCE).await;
        }
        let drain = self.pool.drain(LEAVER)?;
        let in_flight = drain.in_flight();
        let asked = self.pool.backends()[LEAVER].asked();
        self.up &= !(1 << LEAVER);
        let begun = Instant::now();
        let text = format_args!("{in_flight} requests in flight, each takes up to 120 ms");
        self.tell("drains", LEAVER, text)?;
        self.shown.draining = timeout(PATIENCE, falls(&drain, in_flight)).await?;
        let after = begun.elapsed().as_millis();
        self.pool.remove(LEAVER)?;
        let is_gone = |it: Option<&BackendStatus>| it.is_none();
        self.pool.until(LEAVER, "removed", is_gone).await?;
        self.pool.finish(LEAVER).await?;
        let backend = &self.pool.backends()[LEAVER];
        if backend.cut() > 0 {
            let cut = backend.cut();
            return Err(format!("backend #{LEAVER} was drained, and yet {cut} were cut").into());
        }
        self.shown.late = backend.asked() - asked;
        let falling: Vec<_> = self.shown.draining.iter().map(u32::to_string).collect();
        let text = format!("in flight {}", falling.join(", "));
        self.tell("empties", LEAVER, format_args!("{text}"))?;
        let text =
            format_args!("after {after} ms, nothing cut off; then it is taken from the list");
        self.tell("leaves", LEAVER, text)
    }

    /// The pool starts to change.
    fn begin(&mut self, title: &str) -> Result<(), Failure> {
        self.record.enter_next_stage();
        Ok(self.teller.step(title)?)
    }

    /// Watches the slow start of a backend that has just become ready, a quarter at a time, until
    /// it is over.
    async fn eases_in(&mut self, index: usize) -> Result<(), Failure> {
        let window = self.rules.window;
        let since = self
            .pool
            .status(index)
            .map_or(Duration::ZERO, |it| it.since);
        let now = Instant::now();
        let begun = now.checked_sub(since).unwrap_or(now);
        let mut parts = Vec::new();
        let mut before = self.record.answers(index);
        for part in 1..=PARTS {
            sleep_until((begun + window * part / PARTS).into()).await;
            let after = self.record.answers(index);
            parts.push(Part {
                answers: (after.0 - before.0, after.1 - before.1),
                end: begun.elapsed(),
            });
            before = after;
        }
        let is_over =
            |it: Option<&BackendStatus>| it.is_some_and(|it| it.ready && it.since > window);
        self.pool.until(index, "at its full share", is_over).await?;
        let eased = SlowStart {
            backend: index,
            phase: self.up_by_phase.len(),
            window,
            parts,
        };
        let percents: Vec<_> = eased.percents().map(|it| format!("{it:.0} %")).collect();
        let text = format!(
            "in {} ms: {} of all answers, quarter by quarter, then its full share",
            window.as_millis(),
            percents.join(", "),
        );
        self.shown.slow_starts.push(eased);
        self.tell("eases in", index, format_args!("{text}"))
    }
}

/// The requests in flight, as they fall, until there are none.
async fn falls(drain: &Drain, from: u32) -> Vec<u32> {
    let mut seen = vec![from];
    let mut drained = std::pin::pin!(drain.drained());
    loop {
        tokio::select! {
            () = &mut drained => break,
            () = sleep(GLANCE) => {
                let now = drain.in_flight();
                if now > 0 && seen.last().is_none_or(|last| now < *last) {
                    seen.push(now);
                }
            }
        }
    }
    seen.push(0);
    seen
}

fn patient(since: Instant, what: &str) -> Result<(), Failure> {
    if since.elapsed() > PATIENCE {
        return Err(format!("{what} within {PATIENCE:?}").into());
    }
    Ok(())
}

fn turn_to(turns: &[Turn], to: Condition) -> Option<&Turn> {
    turns.iter().find(|turn| turn.event.to == to)
}

/// Why a backend is where its turns have led: what let it try, and what let it serve.
fn reason(turns: &[Turn]) -> String {
    let is_step = |turn: &&Turn| turn.event.to != Condition::Ejected || turns.len() == 1;
    let reasons = turns.iter().filter(is_step).map(|turn| &*turn.event.reason);
    reasons.collect::<Vec<_>>().join(", then ")
}

fn millis_between(from: Instant, to: Instant) -> u128 {
    to.saturating_duration_since(from).as_millis()
}

fn is_up(backend: Option<&BackendStatus>) -> bool {
    backend.is_some_and(|backend| backend.ready)
}

/// Enough that a check which passed by mistake would have brought the backend up.
const CHECKS_WHILE_STARTING: u64 = 3;

/// Slow requests, to have something to watch fall.
const BUSY: u64 = 6;

/// The parts in which a slow start is watched.
const PARTS: u32 = 4;
