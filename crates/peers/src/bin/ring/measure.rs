//! Interleaved rounds.

use std::hint::black_box;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use crate::counting::allocated;
use crate::engine::{ALL, Engine, Layout};
use crate::pool::{Key, Pool, keys, portions};

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Nanoseconds a key.
    Lookup,
    /// Nanoseconds a point.
    Build,
    /// Nanoseconds to take one backend out.
    Remove,
    /// Nanoseconds to put one backend in.
    Add,
    /// Bytes a point, the list of backends included.
    Memory,
    /// Bytes a point, without the list of backends, as far as an engine can tell them apart.
    Points,
}

/// One line of the table.
pub(crate) struct Row {
    pub(crate) kind: Kind,
    pub(crate) pool: &'static str,
    /// In the order of [`ALL`]; `None` where the engine is left out.
    pub(crate) cells: [Option<Cell>; ALL.len()],
}

#[derive(Clone, Copy)]
pub(crate) struct Cell {
    /// The figure that stands for the rounds, and how many times ours it is.
    ///
    /// On the clock of a thread: the median, and the median of the ratios within a round. On the
    /// clock of the wall, where others can only add: the least disturbed round of each.
    pub(crate) figure: f64,
    pub(crate) times_ours: f64,
    pub(crate) value: Spread,
    /// How many times ours this is, within each round.
    pub(crate) ratio: Spread,
}

/// The least and the quartiles of some rounds.
#[derive(Clone, Copy)]
pub(crate) struct Spread {
    pub(crate) least: f64,
    pub(crate) low: f64,
    pub(crate) median: f64,
    pub(crate) high: f64,
    pub(crate) rounds: usize,
}

impl Spread {
    fn of(values: impl Iterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<_> = values.collect();
        values.sort_by(f64::total_cmp);
        let last = values.len().checked_sub(1)?;
        let at = |quarter: usize| values[last * quarter / 4];
        Some(Self {
            least: at(0),
            low: at(1),
            median: at(2),
            high: at(3),
            rounds: values.len(),
        })
    }
}

pub(crate) type Engines<'a> = Vec<(&'a Layout, Box<dyn Engine>)>;

pub(crate) fn lookup(pool: &Pool, engines: &mut Engines<'_>) -> Row {
    let keys = keys(1 << 20);
    let portions = portions(&keys, pool.points());
    let unit = (Kind::Lookup, portions[0].len());
    let [row] = rounds(pool, [unit], engines, |round, engine| {
        let keys = portions[round % portions.len()];
        if portions.len() == 1 {
            // The engine before has left its own data in the cache.
            black_box(engine.sum_of_owners(black_box(keys)));
        }
        [on_this_thread(|| {
            black_box(engine.sum_of_owners(black_box(keys)));
        })]
    });
    row
}

/// Nanoseconds for the CRC-32 of a key alone, as pingora takes it before it looks.
pub(crate) fn hash_alone() -> Option<Spread> {
    let keys = keys(1 << 14);
    let round = |_| {
        let took = on_this_thread(|| {
            let hash = |key: &Key| u64::from(crc32fast::hash(black_box(key.as_slice())));
            black_box(keys.iter().map(hash).sum::<u64>());
        });
        took.as_nanos() as f64 / keys.len() as f64
    };
    Spread::of((0..MOST_ROUNDS).map(round))
}

pub(crate) fn build(pool: &Pool, layouts: &[&'static Layout]) -> Row {
    let mut builds: Vec<_> = layouts
        .iter()
        .map(|&layout| (layout, layout.build))
        .collect();
    let [row] = rounds(
        pool,
        [(Kind::Build, pool.points())],
        &mut builds,
        |_, build| {
            let mut ring = None;
            let took = timed(|| ring = Some(build(black_box(pool))));
            drop(black_box(ring));
            [took]
        },
    );
    row
}

/// Takes a backend out and puts it in again, in turns.
pub(crate) fn change(pool: &Pool, engines: &mut Engines<'_>) -> [Row; 2] {
    let changing = pool.changing();
    rounds(
        pool,
        [(Kind::Remove, 1), (Kind::Add, 1)],
        engines,
        |_, engine| {
            let removed = timed(|| engine.remove(black_box(changing)));
            let added = timed(|| engine.add(black_box(changing)));
            [removed, added]
        },
    )
}

/// The engines, and what each of them has left allocated.
pub(crate) fn memory<'a>(pool: &Pool, layouts: &[&'a Layout]) -> (Engines<'a>, [Row; 2]) {
    let mut engines = Vec::new();
    let mut bytes = Vec::new();
    for &layout in layouts {
        let before = allocated();
        let engine = (layout.build)(pool);
        let all = allocated() - before;
        let of_points = engine.bytes_of_points().unwrap_or(all);
        bytes.push((layout, [all, of_points]));
        engines.push((layout, engine));
    }
    let row = |which: usize, kind| {
        let per_point = |bytes: usize| bytes as f64 / pool.points() as f64;
        let values: Vec<_> = bytes
            .iter()
            .map(|(layout, bytes)| (*layout, vec![Some(per_point(bytes[which]))]))
            .collect();
        table_row(pool, kind, &values)
    };
    let rows = [row(0, Kind::Memory), row(1, Kind::Points)];
    (engines, rows)
}

/// Runs `step` for every engine in every round until each has had its time, and returns a row for
/// each duration that a step gives, divided by the number beside its kind.
///
/// The order rotates, so that no engine always follows the same other.
fn rounds<T, const N: usize>(
    pool: &Pool,
    kinds: [(Kind, usize); N],
    engines: &mut [(&Layout, T)],
    mut step: impl FnMut(usize, &mut T) -> [Duration; N],
) -> [Row; N] {
    let mut spent = vec![Duration::ZERO; engines.len()];
    let mut taken: Vec<Vec<Option<[Duration; N]>>> = vec![Vec::new(); engines.len()];
    for round in 0..MOST_ROUNDS {
        for turn in 0..engines.len() {
            let index = (turn + round) % engines.len();
            let (_, engine) = &mut engines[index];
            let durations = needs_more(round, spent[index]).then(|| step(round, engine));
            spent[index] += durations.iter().flatten().sum::<Duration>();
            taken[index].push(durations);
        }
    }
    let mut kinds = kinds.into_iter().enumerate();
    [(); N].map(|()| {
        let (which, (kind, units)) = kinds.next().expect("one for each");
        let per_unit = |durations: &Option<[Duration; N]>| {
            let nanoseconds = durations.as_ref()?[which].as_nanos() as f64;
            Some(nanoseconds / units as f64)
        };
        let values: Vec<_> = engines
            .iter()
            .zip(&taken)
            .map(|((layout, _), taken)| (*layout, taken.iter().map(per_unit).collect()))
            .collect();
        table_row(pool, kind, &values)
    })
}

fn needs_more(round: usize, spent: Duration) -> bool {
    round == 0 || spent < TIME || (round < FEWEST_ROUNDS && spent < MOST_TIME)
}

/// A row from the value of each engine in each round.
fn table_row(pool: &Pool, kind: Kind, values: &[(&Layout, Vec<Option<f64>>)]) -> Row {
    let of = |layout: &Layout| {
        let (_, values) = values.iter().find(|(other, _)| other.name == layout.name)?;
        Some(values)
    };
    let cell = |layout: &Layout| {
        let (theirs, ours) = (of(layout)?, of(&ALL[layout.against])?);
        let ratios = theirs.iter().zip(ours).filter_map(|(theirs, ours)| {
            let (theirs, ours) = ((*theirs)?, (*ours)?);
            Some(theirs / ours)
        });
        let value = Spread::of(theirs.iter().copied().flatten())?;
        let ratio = Spread::of(ratios)?;
        let (figure, times_ours) = if matches!(kind, Kind::Build | Kind::Remove | Kind::Add) {
            let ours = Spread::of(ours.iter().copied().flatten())?;
            (value.least, value.least / ours.least)
        } else {
            (value.median, ratio.median)
        };
        Some(Cell {
            figure,
            times_ours,
            value,
            ratio,
        })
    };
    Row {
        kind,
        pool: pool.name,
        cells: ALL.each_ref().map(cell),
    }
}

/// What a clock on the wall says, for work that some engines spread over threads.
fn timed(work: impl FnOnce()) -> Duration {
    let start = now();
    work();
    start.elapsed()
}

/// What this thread was given of a processor: others that run meanwhile do not count.
fn on_this_thread(work: impl FnOnce()) -> Duration {
    let now = || Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default();
    let start = now();
    work();
    now().saturating_sub(start)
}

#[expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
fn now() -> Instant {
    Instant::now()
}

/// What an engine gets for a row.
const TIME: Duration = Duration::from_secs(1);
/// Slower than this for [`FEWEST_ROUNDS`] is slow enough.
const MOST_TIME: Duration = Duration::from_secs(4);
const FEWEST_ROUNDS: usize = 7;
const MOST_ROUNDS: usize = 201;
