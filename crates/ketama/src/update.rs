//! The ring after a change, at the cost of what changed.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use crate::layout::{Layout, precedence};
use crate::points::{Chain, total_points};
use crate::ring::{Point, Ring, Wide};
use crate::{Bucket, BuildError, Continuum, Version, sort};

/// One change of a bucket list.
///
/// A bucket is meant by its identity text. If several have it, the first of them is meant.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Change {
    /// One more bucket, at the end of the list.
    Add(Bucket),
    /// The bucket of this text leaves the list; those behind it move up.
    Remove(Box<str>),
    /// The bucket of this text keeps its place and gets another weight.
    SetWeight(Box<str>, u32),
}

/// Every ring that these give equals a fresh build of the resulting list, point by point and with
/// the same bucket numbers: a point that a removed bucket had won goes back to the bucket that had
/// lost it.
///
/// They take one pass over the points, most of which is copying, plus a sort of the points that
/// come and go. The ring of a scheme is built afresh.
impl Continuum {
    /// The ring after `changes`, in their order; this ring stays as it is.
    ///
    /// # Errors
    ///
    /// [`BuildError::UnknownBucket`] if a change means a bucket that is not there, and the limits
    /// of [`with_config`](Self::with_config), which count for the resulting list.
    pub fn applied(&self, changes: &[Change]) -> Result<Self, BuildError> {
        let mut list: Vec<(Bucket, Option<usize>)> = (0..)
            .zip(self.buckets())
            .map(|(index, bucket)| (bucket.clone(), Some(index)))
            .collect();
        for change in changes {
            match change {
                Change::Add(bucket) => list.push((bucket.clone(), None)),
                Change::Remove(text) => {
                    let place = place_of(text, &list)?;
                    list.remove(place);
                }
                Change::SetWeight(text, weight) => {
                    let place = place_of(text, &list)?;
                    let (bucket, _) = &mut list[place];
                    *bucket = bucket.clone().with_weight(*weight);
                }
            }
        }
        let (buckets, origins): (Vec<_>, Vec<_>) = list.into_iter().unzip();
        self.updated(buckets.into(), &origins)
    }

    /// The ring over `buckets` with the configuration of this one.
    ///
    /// Buckets are matched by identity text and may stand in any order, so this serves callers who
    /// know the list they want and not the way to it.
    ///
    /// # Errors
    ///
    /// As for [`with_config`](Self::with_config).
    pub fn rebuilt(&self, buckets: &[Bucket]) -> Result<Self, BuildError> {
        self.updated(buckets.into(), &origins(self.buckets(), buckets))
    }

    /// Replaces this ring by the one after `changes`. If they are refused, it stays as it is.
    ///
    /// # Errors
    ///
    /// As for [`applied`](Self::applied).
    pub fn apply(&mut self, changes: &[Change]) -> Result<(), BuildError> {
        *self = self.applied(changes)?;
        Ok(())
    }

    /// Adds `bucket` at the end of the list.
    ///
    /// # Errors
    ///
    /// The limits of [`with_config`](Self::with_config).
    pub fn add(&mut self, bucket: Bucket) -> Result<(), BuildError> {
        self.apply(&[Change::Add(bucket)])
    }

    /// Takes the bucket of this identity text out of the list.
    ///
    /// # Errors
    ///
    /// [`BuildError::UnknownBucket`] if there is none.
    pub fn remove(&mut self, text: &str) -> Result<(), BuildError> {
        self.apply(&[Change::Remove(text.into())])
    }

    /// Gives the bucket of this identity text another weight.
    ///
    /// # Errors
    ///
    /// [`BuildError::UnknownBucket`] if there is none, and the limits of
    /// [`with_config`](Self::with_config).
    pub fn set_weight(&mut self, text: &str, weight: u32) -> Result<(), BuildError> {
        self.apply(&[Change::SetWeight(text.into(), weight)])
    }

    /// The ring over `buckets`, of which each stood at its origin in this ring's list, if anywhere.
    fn updated(
        &self,
        buckets: Box<[Bucket]>,
        origins: &[Option<usize>],
    ) -> Result<Self, BuildError> {
        // There one server more or less changes the number of points of all others.
        #[cfg(feature = "schemes")]
        if let Some(scheme) = self.scheme() {
            return Self::with_scheme(&buckets, scheme);
        }
        let config = self.config();
        let total = total_points(&buckets, config)?;
        let edit = Edit::new(self.buckets(), &buckets, origins, config.version);
        let gained: usize = edit.gained.iter().map(Chain::len).sum();
        // Sorting the new points one by one costs more than a build once they are the majority.
        let ring = if gained > total / 2 {
            Layout::build(&buckets, config)?
        } else {
            self.layout().edited(&edit)
        };
        Ok(Self::from_parts(buckets, ring, config))
    }
}

/// What leads from one ring to another.
#[derive(Debug)]
pub(crate) struct Edit {
    /// The new number of each old node; anything for one that has left.
    numbers: Vec<u32>,
    /// Whether no old node that stays has another number than before.
    keeps_numbers: bool,
    /// Which node takes precedence on a shared point, by new number.
    ranks: Vec<u32>,
    /// Points to take away, under their old numbers.
    lost: Vec<Chain>,
    /// Points to put on, under their new numbers.
    gained: Vec<Chain>,
}

impl Edit {
    fn new(old: &[Bucket], new: &[Bucket], origins: &[Option<usize>], version: Version) -> Self {
        let chain = |bucket, node, weights| Chain::between(bucket, node, version, weights);
        let mut numbers: Vec<Option<u32>> = vec![None; old.len()];
        let (mut lost, mut gained) = (Vec::new(), Vec::new());
        for ((number, bucket), origin) in (0..).zip(new).zip(origins) {
            let mut before = 0;
            if let Some(origin) = *origin {
                before = old[origin].weight();
                numbers[origin] = Some(number);
            }
            if bucket.weight() > before {
                gained.push(chain(bucket, number, before..bucket.weight()));
            }
        }
        for ((node, bucket), number) in (0..).zip(old).zip(&numbers) {
            let after = number.map_or(0, |number| new[number as usize].weight());
            if bucket.weight() > after {
                lost.push(chain(bucket, node, after..bucket.weight()));
            }
        }
        Self {
            keeps_numbers: (0..)
                .zip(&numbers)
                .all(|(old, new)| new.is_none_or(|new| new == old)),
            numbers: numbers.into_iter().map(Option::unwrap_or_default).collect(),
            ranks: precedence(new, version),
            lost,
            gained,
        }
    }

    /// Appends old points under their new numbers.
    fn renumber<P: Point>(&self, old: &[P], points: &mut Vec<P>) {
        if self.keeps_numbers {
            points.extend_from_slice(old);
        } else {
            points.extend(old.iter().map(|point| self.renumbered(*point)));
        }
    }

    fn renumbered<P: Point>(&self, point: P) -> P {
        P::new(point.hash(), self.numbers[point.node() as usize])
    }
}

impl<P: Point> Ring<P> {
    /// The ring after `edit`.
    ///
    /// Between the places where points come, go or are tied, points are copied; at each of these
    /// places all that claim it are ranked anew.
    pub(crate) fn edited(&self, edit: &Edit) -> Self {
        let (lost, gained) = (sorted(&edit.lost), sorted(&edit.gained));
        let (mut lost, mut gained, mut shadowed) = (&*lost, &*gained, self.shadows());
        let most = self.len() + shadowed.len() - lost.len() + gained.len();
        let mut points = Vec::with_capacity(most);
        let (mut shadows, mut claims) = (Vec::new(), Vec::new());
        let (mut rest, mut done) = (self.points(), 0);
        let mut changed = vec![false; self.arcs()];
        loop {
            let places = [
                first_place(lost),
                first_place(gained),
                first_place(shadowed),
            ];
            let Some(place) = places.into_iter().flatten().min() else {
                break;
            };
            changed[self.arc_of(place)] = true;
            let end = self.lower_bound(place);
            let (run, behind) = rest.split_at(end - done);
            (rest, done) = (behind, end);
            edit.renumber(run, &mut points);

            let owner = split_place(&mut rest, place);
            done += owner.len();
            let gone = split_place(&mut lost, place);
            let stays = |point: &&P| gone.iter().all(|gone| gone.node() != point.node());
            let old = owner.iter().chain(split_place(&mut shadowed, place));
            claims.extend(old.filter(stays).map(|point| edit.renumbered(*point)));
            let new = split_place(&mut gained, place).iter();
            claims.extend(new.map(|point| P::new(point.hash(), point.node())));
            claims.sort_unstable_by_key(|point| edit.ranks[point.node() as usize]);
            let mut ranked = claims.drain(..);
            points.extend(ranked.next());
            shadows.extend(ranked);
        }
        edit.renumber(rest, &mut points);
        self.changed(points, shadows, &changed)
    }
}

/// The points of `chains` by hash.
fn sorted(chains: &[Chain]) -> Vec<Wide> {
    let total = chains.iter().map(Chain::len).sum();
    sort::sorted(total, || chains.iter().copied())
}

fn first_place<P: Point>(points: &[P]) -> Option<u32> {
    points.first().map(|point| point.hash())
}

/// Takes the points on `place` from the front of `points`, which has none before it.
fn split_place<'a, P: Point>(points: &mut &'a [P], place: u32) -> &'a [P] {
    let there = points
        .iter()
        .take_while(|point| point.hash() == place)
        .count();
    let (front, behind) = points.split_at(there);
    *points = behind;
    front
}

fn place_of(text: &str, list: &[(Bucket, Option<usize>)]) -> Result<usize, BuildError> {
    list.iter()
        .position(|(bucket, _)| bucket.text() == text)
        .ok_or_else(|| BuildError::UnknownBucket { text: text.into() })
}

/// Where each of `new` stands in `old`: the k-th of a text there is the k-th of it here.
fn origins(old: &[Bucket], new: &[Bucket]) -> Vec<Option<usize>> {
    let by_text = |buckets: &[Bucket]| {
        let mut order: Vec<usize> = (0..buckets.len()).collect();
        order.sort_by_key(|&index| buckets[index].text());
        order
    };
    let mut origins = vec![None; new.len()];
    let mut candidates = by_text(old).into_iter().peekable();
    for index in by_text(new) {
        let text = new[index].text();
        while candidates
            .next_if(|&old_index| old[old_index].text() < text)
            .is_some()
        {}
        origins[index] = candidates.next_if(|&old_index| old[old_index].text() == text);
    }
    origins
}
