use super::*;

const fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

fn picked(at: u64) -> Picked {
    Picked {
        at: seconds(at),
        trial: false,
    }
}

fn trial(at: u64) -> Picked {
    Picked {
        at: seconds(at),
        trial: true,
    }
}

fn fail(record: &mut Record, rule: &Passive, now: u64, picked: Picked) {
    record.failed(rule, seconds(now), picked, || true);
}

fn max_fails(max_fails: u32) -> Passive {
    Passive::MaxFails(MaxFails::default().max_fails(max_fails))
}

#[test]
fn nginx_failures_add_up_over_successes() {
    let rule = max_fails(2);
    let mut record = Record::new();
    fail(&mut record, &rule, 100, picked(100));
    record.succeeded(&rule, seconds(105), picked(105));
    record.succeeded(&rule, seconds(111), picked(110));
    assert!(record.is_suspect(), "110 is not more than 10 s after 100");
    fail(&mut record, &rule, 112, picked(112));
    assert_eq!(
        (record.phase(), record.ends()),
        (Phase::Ejected, Some(seconds(122)))
    );
}

#[test]
fn nginx_forgets_after_a_success_of_a_late_pick() {
    let rule = max_fails(2);
    let mut record = Record::new();
    fail(&mut record, &rule, 100, picked(100));
    record.succeeded(&rule, seconds(112), picked(111));
    assert!(!record.is_suspect());
    fail(&mut record, &rule, 113, picked(113));
    assert_eq!(record.phase(), Phase::Serving, "the first of two again");
}

#[test]
fn nginx_lets_one_request_through_per_timeout() {
    let rule = max_fails(1);
    let mut record = Record::new();
    fail(&mut record, &rule, 100, picked(100));
    record.at(seconds(109));
    assert_eq!(record.phase(), Phase::Ejected);
    record.at(seconds(110));
    assert_eq!(record.phase(), Phase::Trial);
    record.take_trial(&rule, seconds(115));
    assert_eq!(
        (record.phase(), record.ends()),
        (Phase::Ejected, Some(seconds(125)))
    );
    fail(&mut record, &rule, 116, trial(115));
    assert_eq!(record.ends(), Some(seconds(126)));
    record.at(seconds(126));
    record.take_trial(&rule, seconds(127));
    record.succeeded(&rule, seconds(128), trial(127));
    assert_eq!(record.phase(), Phase::Serving);
    assert!(!record.is_suspect());
}

#[test]
fn nginx_in_whole_seconds() {
    let rule = MaxFails::default()
        .fail_timeout(seconds(2))
        .tick(seconds(1));
    let rule = Passive::MaxFails(rule);
    let mut record = Record::new();
    let now = Duration::from_millis(7900);
    record.failed(&rule, now, picked(7), || true);
    assert_eq!(
        record.ends(),
        Some(seconds(10)),
        "out for the rest of 7, 8 and 9"
    );
}

#[test]
fn max_fails_0_never_ejects() {
    let rule = max_fails(0);
    let mut record = Record::new();
    for now in 0..10 {
        fail(&mut record, &rule, now, picked(now));
    }
    assert_eq!(record.phase(), Phase::Serving);
    assert!(!record.is_suspect(), "nothing for a success to clear");
}

#[test]
fn a_backend_may_say_for_itself_when_it_fails() {
    let own = |max_fails, fail_timeout: Option<u64>| Fails {
        max_fails,
        fail_timeout: fail_timeout.map(seconds),
    };
    let rule = |fails, timeout| {
        let rule = MaxFails::default().tick(seconds(1));
        Passive::MaxFails(rule.max_fails(fails).fail_timeout(seconds(timeout)))
    };
    let pool = rule(3, 20);
    assert_eq!(pool.with(own(None, None)), pool);
    assert_eq!(pool.with(own(Some(0), None)), rule(0, 20));
    assert_eq!(pool.with(own(Some(5), Some(0))), rule(5, 0));
    for other in [Passive::Off, consecutive(2)] {
        assert_eq!(other.with(own(Some(1), Some(1))), other);
    }
}

fn consecutive(failures: u32) -> Passive {
    Passive::Consecutive(
        Consecutive::default()
            .failures(failures)
            .base(seconds(30))
            .max(seconds(70)),
    )
}

#[test]
fn only_failures_in_a_row_eject() {
    let rule = consecutive(3);
    let mut record = Record::new();
    for (now, result) in "FFSFFSFFF".chars().enumerate() {
        let now = now as u64;
        assert_eq!(record.phase(), Phase::Serving);
        match result {
            'F' => fail(&mut record, &rule, now, picked(now)),
            _ => record.succeeded(&rule, seconds(now), picked(now)),
        }
    }
    assert_eq!(record.ends(), Some(seconds(8 + 30)));
}

#[test]
fn each_ejection_is_longer_up_to_the_maximum() {
    let rule = consecutive(1);
    let mut record = Record::new();
    let mut now = 0;
    fail(&mut record, &rule, now, picked(now));
    for length in [30, 60, 70, 70] {
        assert_eq!(record.ends(), Some(seconds(now + length)));
        now += length;
        record.at(seconds(now));
        assert_eq!(record.phase(), Phase::Trial);
        record.take_trial(&rule, seconds(now));
        fail(&mut record, &rule, now, trial(now));
    }
}

#[test]
fn service_without_ejection_takes_levels_off() {
    let rule = consecutive(1);
    let mut record = Record::new();
    fail(&mut record, &rule, 0, picked(0));
    record.at(seconds(30));
    record.take_trial(&rule, seconds(30));
    fail(&mut record, &rule, 31, trial(30));
    assert_eq!(record.ends(), Some(seconds(31 + 60)));
    record.at(seconds(91));
    record.take_trial(&rule, seconds(91));
    record.succeeded(&rule, seconds(92), trial(91));
    fail(&mut record, &rule, 92 + 29, picked(100));
    assert_eq!(
        record.ends(),
        Some(seconds(121 + 70)),
        "level 3, at its limit"
    );
    record.at(seconds(200));
    record.take_trial(&rule, seconds(200));
    record.succeeded(&rule, seconds(200), trial(200));
    fail(&mut record, &rule, 200 + 60, picked(210));
    assert_eq!(
        record.ends(),
        Some(seconds(260 + 60)),
        "two of three are off"
    );
}

#[test]
fn outcomes_of_earlier_picks_neither_lengthen_nor_end_an_ejection() {
    let rule = consecutive(1);
    let mut record = Record::new();
    fail(&mut record, &rule, 10, picked(9));
    fail(&mut record, &rule, 11, picked(9));
    record.succeeded(&rule, seconds(12), picked(9));
    assert_eq!(record.ends(), Some(seconds(40)));
}

#[test]
fn a_trial_given_up_is_offered_again() {
    let rule = consecutive(1);
    let mut record = Record::new();
    fail(&mut record, &rule, 0, picked(0));
    record.at(seconds(30));
    record.take_trial(&rule, seconds(30));
    record.give_back_trial();
    assert_eq!(record.phase(), Phase::Trial);
}

#[test]
fn the_limit_holds_after_the_ejection() {
    let half = Passive::Consecutive(Consecutive::default().max_ejection_percent(50));
    for (ejected, selectable, may) in [
        (0, 1, false),
        (0, 2, true),
        (1, 2, false),
        (0, 3, true),
        (1, 3, false),
        (1, 4, true),
    ] {
        assert_eq!(
            half.may_eject(ejected, selectable),
            may,
            "{ejected} of {selectable}"
        );
    }
    assert!(!max_fails(1).may_eject(0, 1), "the only one");
    assert!(
        max_fails(1).may_eject(1, 2),
        "nginx has no limit beyond that"
    );
    let all = Passive::Consecutive(Consecutive::default().max_ejection_percent(100));
    assert!(!all.may_eject(0, 1) && all.may_eject(1, 2));
}

#[test]
fn an_ejection_that_is_refused_leaves_it_serving() {
    let rule = consecutive(1);
    let mut record = Record::new();
    record.failed(&rule, seconds(1), picked(1), || false);
    assert_eq!(record.phase(), Phase::Serving);
    record.failed(&rule, seconds(2), picked(2), || true);
    assert_eq!(record.phase(), Phase::Ejected);
}
