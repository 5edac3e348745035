//! Sorted points and the index over them. Knows hashes and node numbers, nothing of addresses.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt::Debug;
use core::mem;
use core::ops::RangeInclusive;

/// How a point is stored: its hash and its node beside each other, so that a lookup finds both in
/// one cache line.
pub(crate) trait Point: Copy + Debug {
    fn new(hash: u32, node: u32) -> Self;
    fn hash(self) -> u32;
    fn node(self) -> u32;

    /// Whether the point lies before `hash`.
    fn is_before(self, hash: u32) -> bool {
        self.hash() < hash
    }
}

/// Eight bytes: the hash in the high half, so that the order of the numbers is that of the ring.
pub(crate) type Wide = u64;

impl Point for Wide {
    fn new(hash: u32, node: u32) -> Self {
        Self::from(hash) << 32 | Self::from(node)
    }

    fn hash(self) -> u32 {
        (self >> 32) as u32
    }

    #[expect(clippy::cast_possible_truncation, reason = "the low half is asked for")]
    fn node(self) -> u32 {
        self as u32
    }

    fn is_before(self, hash: u32) -> bool {
        self < Self::new(hash, 0)
    }
}

/// Six bytes, for at most 65,536 nodes: the low and the high half of the hash, and the node.
#[cfg(feature = "v2")]
pub(crate) type Narrow = [u16; 3];

#[cfg(feature = "v2")]
#[expect(
    clippy::cast_possible_truncation,
    reason = "halves, and nodes below 2^16"
)]
impl Point for Narrow {
    fn new(hash: u32, node: u32) -> Self {
        [hash as u16, (hash >> 16) as u16, node as u16]
    }

    fn hash(self) -> u32 {
        u32::from(self[1]) << 16 | u32::from(self[0])
    }

    fn node(self) -> u32 {
        u32::from(self[2])
    }
}

/// Points sorted by hash, each hash once.
///
/// The circle is cut into equal arcs of about 72 points, and each arc into 60 equal cells; the
/// index says where the points of each cell begin.
#[derive(Clone, Debug)]
pub(crate) struct Ring<P> {
    points: Vec<P>,
    arcs: Box<[Arc]>,
    /// The points that lost their place to another node, by hash, then in the order of precedence.
    shadows: Box<[P]>,
}

/// The index of one arc: a cache line.
#[derive(Clone, Debug)]
#[repr(align(64))]
struct Arc {
    /// The first point at or after the start of the arc.
    start: u32,
    /// How many points of the arc lie before each of its cells; 0 throughout if the arc has so many
    /// points that a byte does not hold them.
    before: [u8; CELLS],
}

impl<P: Point> Ring<P> {
    /// The ring of `points`, sorted by hash; of several on one hash the first owns it.
    pub(crate) fn from_sorted(mut points: Vec<P>) -> Self {
        let mut shadows = Vec::new();
        points.dedup_by(|point, owner| {
            let tied = point.hash() == owner.hash();
            if tied {
                shadows.push(*point);
            }
            tied
        });
        Self::from_parts(points, shadows)
    }

    /// The ring of `points` with each hash once, and the points that were pushed aside.
    pub(crate) fn from_parts(points: Vec<P>, shadows: Vec<P>) -> Self {
        let arcs = index(&points, points.len() / POINTS_PER_ARC, |_| None);
        Self::from_indexed(points, arcs, shadows)
    }

    /// The same where the hashes differ from those of this ring in the `changed` arcs only, as
    /// [`arc_of`](Self::arc_of) numbers them: the index of the others is kept.
    pub(crate) fn changed(&self, points: Vec<P>, shadows: Vec<P>, changed: &[bool]) -> Self {
        let count = self.arcs.len();
        if !POINTS_PER_KEPT_ARC.contains(&(points.len() / count)) {
            return Self::from_parts(points, shadows);
        }
        let kept = |arc: usize| {
            let is_kept = changed.get(arc) == Some(&false);
            is_kept.then(|| (self.start_of(arc + 1) - self.start_of(arc), &self.arcs[arc]))
        };
        let arcs = index(&points, count, kept);
        Self::from_indexed(points, arcs, shadows)
    }

    fn from_indexed(mut points: Vec<P>, arcs: Box<[Arc]>, shadows: Vec<P>) -> Self {
        // Room for a few ties is not worth a cut: giving back the end of a large block makes the
        // allocator map and zero all pages of the next one afresh, which takes three times as long
        // as a change of the ring.
        if points.capacity() > points.len() + points.len() / 128 {
            points.shrink_to_fit();
        }
        Self {
            arcs,
            points,
            shadows: shadows.into(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.points.len()
    }

    pub(crate) fn points(&self) -> &[P] {
        &self.points
    }

    pub(crate) fn shadows(&self) -> &[P] {
        &self.shadows
    }

    /// The bytes on the heap.
    pub(crate) fn heap_size(&self) -> usize {
        let points = size_of::<P>() * (self.points.capacity() + self.shadows.len());
        points + size_of_val(&*self.arcs)
    }

    /// The first point at or after `hash`, wrapping to the first of all.
    #[inline]
    pub(crate) fn position(&self, hash: u32) -> usize {
        let position = self.lower_bound(hash);
        if position == self.points.len() {
            0
        } else {
            position
        }
    }

    /// The node of the first point at or after `hash`, wrapping.
    #[inline]
    pub(crate) fn owner(&self, hash: u32) -> Option<u32> {
        let window = self.window(hash);
        match window.and_then(|window| window.points.get(window.before)) {
            Some(point) => Some(point.node()),
            None => self.owner_by_search(hash),
        }
    }

    #[cold]
    fn owner_by_search(&self, hash: u32) -> Option<u32> {
        let point = self.points.get(self.position(hash))?;
        Some(point.node())
    }

    /// The number of points before `hash`.
    ///
    /// Expected O(1): a cell holds 1.2 points in the mean, so a window of four, searched without a
    /// branch, has the place all but always. O(log points) where a forged pool crowds its points
    /// into one arc.
    #[inline]
    pub(crate) fn lower_bound(&self, hash: u32) -> usize {
        match self.window(hash) {
            Some(window) if window.before < WINDOW => window.start + window.before,
            _ => self.search(hash),
        }
    }

    /// The points from the cell of `hash` on; `None` at the end of the ring.
    #[inline]
    fn window(&self, hash: u32) -> Option<Window<'_, P>> {
        let (arc, cell) = cell_of(hash, self.arcs.len());
        let arc = self.arcs.get(arc)?;
        let start = arc.start as usize + usize::from(*arc.before.get(cell)?);
        let points = self.points.get(start..start + WINDOW)?.first_chunk()?;
        Some(Window {
            start,
            points,
            before: count_before(points, hash),
        })
    }

    /// [`lower_bound`](Self::lower_bound) by halving the arc of `hash`.
    #[cold]
    fn search(&self, hash: u32) -> usize {
        let arc = self.arc_of(hash);
        let start = self.start_of(arc);
        let points = self.points.get(start..self.start_of(arc + 1));
        start
            + points
                .unwrap_or_default()
                .partition_point(|point| point.is_before(hash))
    }

    /// How many arcs the circle is cut into.
    pub(crate) fn arcs(&self) -> usize {
        self.arcs.len()
    }

    /// The arc in which `hash` lies.
    pub(crate) fn arc_of(&self, hash: u32) -> usize {
        cell_of(hash, self.arcs.len()).0
    }

    /// The first point at or after the start of an arc, or the end of the last one.
    fn start_of(&self, arc: usize) -> usize {
        let arc = self.arcs.get(arc);
        arc.map_or(self.len(), |arc| arc.start as usize)
    }

    /// The position after `position`, wrapping.
    pub(crate) fn step(&self, position: usize) -> usize {
        let next = position + 1;
        if next >= self.points.len() { 0 } else { next }
    }
}

/// Some points of a ring, close to a hash.
struct Window<'a, P> {
    /// The position of the first of them.
    start: usize,
    points: &'a [P; WINDOW],
    /// How many of them lie before the hash: the next, if there is one, is its owner's.
    before: usize,
}

/// How many of four sorted points lie before `hash`.
#[inline]
fn count_before<P: Point>(points: &[P; WINDOW], hash: u32) -> usize {
    points
        .iter()
        .map(|point| usize::from(point.is_before(hash)))
        .sum()
}

/// Where the points of each cell begin, for points sorted by hash and about `count` arcs. An arc that
/// is `kept` has that many points in the same places as there.
#[expect(
    clippy::cast_possible_truncation,
    reason = "a position is below 2^32, and what does not fit is in no cell"
)]
fn index<'a, P: Point>(
    points: &[P],
    count: usize,
    kept: impl Fn(usize) -> Option<(usize, &'a Arc)>,
) -> Box<[Arc]> {
    let count = count.max(1);
    let empty = Arc {
        start: 0,
        before: [0; CELLS],
    };
    let mut arcs = vec![empty; count].into_boxed_slice();
    let cells = (count * CELLS) as u64;
    let mut end = 0;
    for ((number, first), arc) in (0..).zip((0..cells).step_by(CELLS)).zip(&mut arcs) {
        let start = end;
        arc.start = start as u32;
        if let Some((len, kept)) = kept(number) {
            arc.before = kept.before;
            end += len;
            continue;
        }
        // For now how many points are in each cell.
        while let Some(point) = points.get(end) {
            // Both numbers that `cell_of` gives, as one.
            let cell = (u64::from(point.hash()) * cells) >> 32;
            let Some(len) = arc.before.get_mut((cell - first) as usize) else {
                break;
            };
            *len = len.wrapping_add(1);
            end += 1;
        }
        if end - start > usize::from(u8::MAX) {
            arc.before = [0; CELLS];
        }
    }
    // Later, when what is written above can be read in larger pieces without waiting for it.
    for (number, arc) in arcs.iter_mut().enumerate() {
        if kept(number).is_none() {
            add_up(&mut arc.before);
        }
    }
    arcs
}

/// Turns counts into the sum of those before each; all of them are below 256 together.
fn add_up(counts: &mut [u8; CELLS]) {
    let (eights, four) = counts.as_chunks_mut();
    let mut before = 0;
    for eight in eights {
        // Each byte of the product is the sum of that byte and all below it.
        let sums = (u64::from_le_bytes(*eight) + before).wrapping_mul(0x0101_0101_0101_0101);
        *eight = (sums << 8 | before).to_le_bytes();
        before = sums >> 56;
    }
    let [mut before, ..] = before.to_le_bytes();
    for count in four {
        before += mem::replace(count, before);
    }
}

/// The arc and the cell in it of `hash` when the circle is cut into `arcs`.
#[inline]
fn cell_of(hash: u32, arcs: usize) -> (usize, usize) {
    let scaled = u64::from(hash) * arcs as u64;
    let within = scaled & u64::from(u32::MAX);
    (
        (scaled >> 32) as usize,
        ((within * CELLS as u64) >> 32) as usize,
    )
}

/// One byte for each, beside the four of the arc's start, fills a cache line.
const CELLS: usize = 60;

/// The index takes 0.9 bytes a point.
const POINTS_PER_ARC: usize = 72;

/// An index is kept by a change of the ring as long as it takes 0.8 to 0.91 bytes a point.
const POINTS_PER_KEPT_ARC: RangeInclusive<usize> = 70..=80;

/// One lookup in a hundred needs more.
const WINDOW: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    /// A ring whose nodes are the positions of their points.
    fn ring(hashes: impl IntoIterator<Item = u32>) -> Ring<Wide> {
        let points = (0..).zip(hashes).map(|(node, hash)| Wide::new(hash, node));
        Ring::from_sorted(points.collect())
    }

    /// Compares every answer around every point with a plain binary search.
    fn check(ring: &Ring<Wide>) {
        let hashes: Vec<u32> = ring.points().iter().map(|point| point.hash()).collect();
        let around = |hash: &u32| [hash.wrapping_sub(1), *hash, hash.wrapping_add(1)];
        for hash in hashes.iter().flat_map(around).chain([0, u32::MAX]) {
            let expected = hashes.partition_point(|&point| point < hash);
            assert_eq!(ring.lower_bound(hash), expected, "{hash} of {hashes:?}");
            let position = expected % hashes.len();
            assert_eq!(ring.position(hash), position, "{hash}");
            let owner = ring.owner(hash).map(|node| node as usize);
            assert_eq!(owner, Some(position), "{hash}");
        }
    }

    #[test]
    fn finds_every_place_on_small_rings() {
        for len in 1..=40 {
            check(&ring((0..len).map(|i| i * 100_000_007)));
            check(&ring((0..len).map(|i| u32::MAX - 3 * (len - 1 - i))));
        }
        check(&ring([0]));
        check(&ring([u32::MAX]));
        check(&ring([0, u32::MAX]));
    }

    #[test]
    fn finds_every_place_when_all_points_share_a_cell() {
        for start in [0, 1, 0x7fff_f000, u32::MAX - 3_999] {
            let crowded = ring(start..=start + 3_999);
            check(&crowded);
            // All in one or two cells of 55 arcs: no window helps.
            let arcs = crowded.arcs.len();
            let place = |hash| {
                let (arc, cell) = cell_of(hash, arcs);
                arc * CELLS + cell
            };
            let occupied = place(start + 3_999) - place(start);
            assert!(arcs == 55 && occupied <= 1, "{arcs} {occupied}");
        }
    }

    #[test]
    fn finds_every_place_between_crowds() {
        let crowd = |start: u32| start..start + 500;
        check(&ring(
            [7, 1 << 20, 1 << 30, 3 << 30].into_iter().flat_map(crowd),
        ));
    }

    #[test]
    fn finds_every_place_when_a_byte_just_holds_an_arc() {
        for len in 250..=260 {
            let crowd = |start: u32| (start..).step_by(50_001).take(len);
            let ring = ring([5, 1 << 30, 3 << 30].into_iter().flat_map(crowd));
            let starts: Vec<_> = ring.arcs.iter().map(|arc| arc.start as usize).collect();
            assert!(
                starts.contains(&len),
                "{starts:?}: no arc with a whole crowd"
            );
            check(&ring);
        }
    }

    /// One point of each tenth arc goes, each seventh gets another; what is kept of the index is
    /// that of a ring built afresh, and so is every answer.
    #[test]
    fn a_change_keeps_the_index_of_the_other_arcs() {
        let before = ring((0..7200).map(|i| i * 596_523 + i * i % 500_000));
        let arcs = before.arcs();
        assert_eq!(arcs, 100);
        let mut changed = vec![false; arcs];
        let mut hashes = Vec::new();
        for (n, point) in before.points().iter().enumerate() {
            let arc = before.arc_of(point.hash());
            let goes = n % 720 == 0;
            let more = n % 504 == 0;
            changed[arc] |= goes || more;
            hashes.extend((!goes).then_some(point.hash()));
            hashes.extend(more.then_some(point.hash() + 1));
        }
        let points = ring(hashes).points;
        assert!((10..30).contains(&changed.iter().filter(|&&changed| changed).count()));
        let after = before.changed(points.clone(), Vec::new(), &changed);
        check(&after);
        let afresh = Ring::from_indexed(points.clone(), index(&points, arcs, |_| None), vec![]);
        for (after, afresh) in after.arcs.iter().zip(&afresh.arcs) {
            assert_eq!((after.start, after.before), (afresh.start, afresh.before));
        }
        // An eighth fewer: the arcs are cut anew.
        let fewer: Vec<_> = points.iter().copied().take(6300).collect();
        let fewer = after.changed(fewer, Vec::new(), &[true; 100]);
        assert_eq!(fewer.arcs(), 87);
        check(&fewer);
    }

    #[test]
    fn of_equal_hashes_the_first_stays_and_the_others_are_kept() {
        let points = [(5, 2), (5, 0), (5, 1), (9, 1), (9, 0)];
        let points = points.map(|(hash, node)| Wide::new(hash, node));
        let ring = Ring::from_sorted(points.to_vec());
        assert_eq!(ring.points(), [points[0], points[3]]);
        assert_eq!(ring.shadows(), [points[1], points[2], points[4]]);
    }

    #[test]
    fn an_empty_ring_answers() {
        let empty = ring([]);
        assert_eq!((empty.len(), empty.position(7), empty.step(0)), (0, 0, 0));
    }

    #[cfg(feature = "v2")]
    #[test]
    fn six_bytes_hold_a_point() {
        for (hash, node) in [(0, 0), (u32::MAX, 65_535), (0x1234_5678, 0x9abc)] {
            let point = Narrow::new(hash, node);
            assert_eq!((point.hash(), point.node()), (hash, node));
        }
        assert_eq!(size_of::<Narrow>(), 6);
    }
}
