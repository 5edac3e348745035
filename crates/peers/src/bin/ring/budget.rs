//! What must be reached, as a floor: the ring's part of the project's performance budget.

use crate::engine::{OURS_V1, OURS_V2, PINGORA_V1, PINGORA_V2};
use crate::measure::{Cell, Kind, Row};

/// One floor or ceiling, and what was measured.
pub(crate) struct Verdict {
    pub(crate) what: String,
    pub(crate) measured: f64,
    pub(crate) limit: f64,
    pub(crate) kept: bool,
}

pub(crate) fn verdicts(rows: &[Row]) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for &(kind, pool, engine, name, floor) in FLOORS {
        let row = rows.iter().find(|row| row.kind == kind && row.pool == pool);
        let Some(Cell { times_ours, .. }) = row.and_then(|row| row.cells[engine]) else {
            continue; // The user has left it out.
        };
        let measured = times_ours;
        verdicts.push(Verdict {
            what: format!("{kind:?} {pool} times {name}").to_lowercase(),
            measured,
            limit: floor,
            kept: measured >= floor,
        });
    }
    for row in rows.iter().filter(|row| row.kind == Kind::Points) {
        for (engine, name, ceiling) in [(OURS_V1, "v1", 9.0), (OURS_V2, "v2", 7.0)] {
            let measured = row.cells[engine].map_or(f64::INFINITY, |cell| cell.figure);
            verdicts.push(Verdict {
                what: format!("bytes a point {} {name}", row.pool),
                measured,
                limit: ceiling,
                kept: measured <= ceiling,
            });
        }
    }
    verdicts
}

/// (what, pool, theirs, its name, how many times ours theirs must be)
///
/// pingora's V2 sorts on all cores, ours on one.
const FLOORS: &[(Kind, &str, usize, &str, f64)] = &[
    (Kind::Lookup, "4x1", PINGORA_V1, "pingora v1", 1.8),
    (Kind::Lookup, "4x1", PINGORA_V2, "pingora v2", 1.8),
    (Kind::Lookup, "9x100", PINGORA_V1, "pingora v1", 2.5),
    (Kind::Lookup, "9x100", PINGORA_V2, "pingora v2", 2.5),
    (Kind::Lookup, "1000x1", PINGORA_V1, "pingora v1", 2.5),
    (Kind::Lookup, "1000x1", PINGORA_V2, "pingora v2", 2.5),
    (Kind::Lookup, "1000x10", PINGORA_V1, "pingora v1", 4.0),
    (Kind::Lookup, "1000x10", PINGORA_V2, "pingora v2", 4.0),
    (Kind::Lookup, "10000x10", PINGORA_V1, "pingora v1", 4.0),
    (Kind::Lookup, "10000x10", PINGORA_V2, "pingora v2", 4.0),
    (Kind::Build, "1000x1", PINGORA_V1, "pingora v1", 2.0),
    (Kind::Build, "1000x10", PINGORA_V1, "pingora v1", 1.7),
    (Kind::Build, "1000x1", PINGORA_V2, "pingora v2", 1.0),
    (Kind::Build, "1000x10", PINGORA_V2, "pingora v2", 1.0),
    (Kind::Remove, "1000x10", PINGORA_V1, "pingora v1", 10.0),
    (Kind::Remove, "1000x10", PINGORA_V2, "pingora v2", 10.0),
    (Kind::Add, "1000x10", PINGORA_V1, "pingora v1", 10.0),
    (Kind::Add, "1000x10", PINGORA_V2, "pingora v2", 10.0),
];
