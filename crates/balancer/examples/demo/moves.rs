//! Which keys moved, and whether they may have. Pure.

use std::collections::BTreeMap;
use std::fmt;

/// The settled states of the pool. A change lies between two of them, so that the stages of
/// an act are: before, (it dies), dead, (it comes back), back, ... numbered from 0.
pub(crate) const PHASES: [&str; 7] = [
    "before", "dead", "back", "failing", "well", "added", "drained",
];

/// The settled phases and the changes between them.
pub(crate) const STAGES: usize = 2 * PHASES.len() - 1;

/// Who answered each key in one stage: per key, a bit per backend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Owners(Vec<u64>);

impl Owners {
    pub(crate) fn new(masks: Vec<u64>) -> Self {
        Self(masks)
    }

    fn iter(&self) -> impl Iterator<Item = (usize, u64)> {
        self.0.iter().copied().enumerate()
    }
}

/// One settled phase.
#[derive(Clone, Debug)]
pub(crate) struct Phase {
    /// A bit per backend that may answer.
    pub(crate) up: u64,
    pub(crate) owners: Owners,
}

/// How many keys went from one backend to another, by (from, to).
pub(crate) type Routes = BTreeMap<(u32, u32), usize>;

/// The keys that one backend owned in `before` and another in `after`.
pub(crate) fn routes(before: &Phase, after: &Phase) -> Routes {
    let mut routes = Routes::new();
    for ((_, from), (_, to)) in before.owners.iter().zip(after.owners.iter()) {
        if let (Some(from), Some(to)) = (only(from), only(to))
            && from != to
        {
            *routes.entry((from, to)).or_default() += 1;
        }
    }
    routes
}

/// What must not happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Violation {
    /// A backend that is dead, drained or not yet there answered.
    AnsweredWhileOut {
        key: usize,
        phase: usize,
        backend: u32,
    },
    /// A key moved although its old and its new backend were up all along.
    Moved {
        key: usize,
        phases: (usize, usize),
        backends: (u32, u32),
    },
    /// Two backends answered the same key while nothing changed.
    TwoOwners { key: usize, phase: usize },
    /// While the pool changed, a third backend answered: neither the old nor the new owner.
    Strayed {
        key: usize,
        change: usize,
        backend: u32,
    },
}

/// What every algorithm must keep: a backend that is out does not answer.
pub(crate) fn out_is_out(phases: &[Phase]) -> Vec<Violation> {
    let mut found = Vec::new();
    for (phase, Phase { up, owners }) in phases.iter().enumerate() {
        for (key, mask) in owners.iter() {
            if let Some(backend) = lowest(mask & !up) {
                found.push(Violation::AnsweredWhileOut {
                    key,
                    phase,
                    backend,
                });
            }
        }
    }
    found
}

/// What the ring must keep besides: a key has one owner, moves only if its owner left or its new
/// owner came, and meets nobody else on the way. `changes[i]` lies between phases i and i + 1.
///
/// Every two phases are compared, not only neighbours: a key must find its way home.
///
/// One run in some 50,000 has a point that two backends share and the drained one holds. There a
/// walk past the holder and a ring without it differ, which would show as a stray.
pub(crate) fn stayers_stay(phases: &[Phase], changes: &[Owners]) -> Vec<Violation> {
    let mut found = Vec::new();
    for (at, phase) in phases.iter().enumerate() {
        let split = phase
            .owners
            .iter()
            .filter(|(_, mask)| mask.count_ones() > 1);
        found.extend(split.map(|(key, _)| Violation::TwoOwners { key, phase: at }));
        for (later, after) in phases.iter().enumerate().skip(at + 1) {
            found.extend(moved(phase, after).map(|(key, backends)| Violation::Moved {
                key,
                phases: (at, later),
                backends,
            }));
        }
    }
    for (change, (owners, pair)) in changes.iter().zip(phases.windows(2)).enumerate() {
        let known = pair[0].owners.iter().zip(pair[1].owners.iter());
        for ((key, mask), ((_, before), (_, after))) in owners.iter().zip(known) {
            if let Some(backend) = lowest(mask & !(before | after)) {
                found.push(Violation::Strayed {
                    key,
                    change,
                    backend,
                });
            }
        }
    }
    found
}

/// The keys that moved between two backends that are up in both phases.
fn moved(before: &Phase, after: &Phase) -> impl Iterator<Item = (usize, (u32, u32))> {
    let stayed = before.up & after.up;
    before
        .owners
        .iter()
        .zip(after.owners.iter())
        .filter_map(move |((key, from), (_, to))| {
            let (from, to) = (only(from & stayed)?, only(to & stayed)?);
            (from != to).then_some((key, (from, to)))
        })
}

impl Violation {
    /// Whether a key went where it must not, rather than a request to a backend that was out.
    pub(crate) fn is_move(&self) -> bool {
        !matches!(self, Self::AnsweredWhileOut { .. })
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::AnsweredWhileOut {
                key,
                phase,
                backend,
            } => {
                write!(
                    f,
                    "key {key}: #{backend} answered while out ({})",
                    PHASES[phase]
                )
            }
            Self::Moved {
                key,
                phases: (before, after),
                backends: (from, to),
            } => {
                let (before, after) = (PHASES[before], PHASES[after]);
                write!(
                    f,
                    "key {key}: from #{from} ({before}) to #{to} ({after}), both stayed"
                )
            }
            Self::TwoOwners { key, phase } => {
                write!(f, "key {key}: two owners ({})", PHASES[phase])
            }
            Self::Strayed {
                key,
                change,
                backend,
            } => {
                let (before, after) = (PHASES[change], PHASES[change + 1]);
                write!(
                    f,
                    "key {key}: strayed to #{backend} between {before} and {after}"
                )
            }
        }
    }
}

/// The owner, if there is exactly one.
fn only(mask: u64) -> Option<u32> {
    mask.is_power_of_two().then(|| mask.trailing_zeros())
}

fn lowest(mask: u64) -> Option<u32> {
    (mask != 0).then(|| mask.trailing_zeros())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `owners` names, per key, the backends that answered.
    fn phase(up: &[u32], owners: &[&[u32]]) -> Phase {
        Phase {
            up: mask(up),
            owners: answered(owners),
        }
    }

    fn answered(owners: &[&[u32]]) -> Owners {
        Owners::new(owners.iter().map(|backends| mask(backends)).collect())
    }

    fn mask(backends: &[u32]) -> u64 {
        backends.iter().fold(0, |mask, backend| mask | 1 << backend)
    }

    #[test]
    fn a_move_from_the_dead_and_to_the_new_is_allowed() {
        let phases = [
            phase(&[0, 1, 2], &[&[0], &[1], &[2]]),
            phase(&[0, 2], &[&[0], &[2], &[2]]),
            phase(&[0, 1, 2], &[&[0], &[1], &[2]]),
            phase(&[0, 1, 2, 3], &[&[3], &[1], &[2]]),
        ];
        let changes = [
            answered(&[&[0], &[1, 2], &[]]),
            answered(&[&[], &[1, 2], &[2]]),
            answered(&[&[0, 3], &[1], &[2]]),
        ];
        assert_eq!(out_is_out(&phases), []);
        assert_eq!(stayers_stay(&phases, &changes), []);
        assert_eq!(routes(&phases[0], &phases[1]), Routes::from([((1, 2), 1)]));
        assert_eq!(routes(&phases[2], &phases[3]), Routes::from([((0, 3), 1)]));
        assert_eq!(routes(&phases[0], &phases[2]), Routes::new());
    }

    #[test]
    fn a_move_between_two_that_stayed_is_caught() {
        let phases = [
            phase(&[0, 1, 2], &[&[0], &[1]]),
            phase(&[0, 2], &[&[2], &[2]]),
        ];
        let moved = Violation::Moved {
            key: 0,
            phases: (0, 1),
            backends: (0, 2),
        };
        assert_eq!(stayers_stay(&phases, &[]), [moved]);
    }

    #[test]
    fn a_key_that_does_not_come_home_is_caught() {
        // 1 is back, but the key stays with its stand-in: neither step alone is wrong.
        let phases = [
            phase(&[0, 1, 2], &[&[1]]),
            phase(&[0, 2], &[&[2]]),
            phase(&[0, 1, 2], &[&[2]]),
        ];
        let moved = Violation::Moved {
            key: 0,
            phases: (0, 2),
            backends: (1, 2),
        };
        assert_eq!(stayers_stay(&phases, &[]), [moved]);
    }

    #[test]
    fn split_stray_and_out_are_caught() {
        let phases = [
            phase(&[0, 1, 2], &[&[0, 1], &[1], &[1]]),
            phase(&[0, 2], &[&[0], &[1], &[2]]),
        ];
        let changes = [answered(&[&[0, 1], &[2], &[1]])];
        assert_eq!(
            stayers_stay(&phases, &changes),
            [
                Violation::TwoOwners { key: 0, phase: 0 },
                Violation::Strayed {
                    key: 1,
                    change: 0,
                    backend: 2
                },
            ]
        );
        assert_eq!(
            out_is_out(&phases),
            [Violation::AnsweredWhileOut {
                key: 1,
                phase: 1,
                backend: 1
            }]
        );
    }
}
