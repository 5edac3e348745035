//! Sorted points and the index over them. Knows hashes and node numbers, nothing of addresses.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt::Debug;

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
/// The circle is cut into equal cells, two for nine points; the index says where the points of each
/// cell begin.
#[derive(Clone, Debug)]
pub(crate) struct Ring<P> {
    points: Vec<P>,
    /// The first point at or after the start of each cell; one more at the end.
    cells: Box<[u32]>,
    /// The points that lost their place to another node, by hash, then in the order of precedence.
    shadows: Box<[P]>,
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
    pub(crate) fn from_parts(mut points: Vec<P>, shadows: Vec<P>) -> Self {
        // Room for a few ties is not worth a cut: giving back the end of a large block makes the
        // allocator map and zero all pages of the next one afresh, which takes three times as long
        // as a change of the ring.
        if points.capacity() > points.len() + points.len() / 128 {
            points.shrink_to_fit();
        }
        Self {
            cells: index(&points),
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
        points + size_of_val(&*self.cells)
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
        let point = self.points.get(self.lower_bound(hash));
        point
            .or_else(|| self.points.first())
            .map(|point| point.node())
    }

    /// The number of points before `hash`.
    ///
    /// Expected O(1): a cell holds four or five points in the mean, so a window of eight, searched
    /// without a branch, has the place all but always. O(log points) where a forged pool crowds its
    /// points into one cell.
    #[inline]
    pub(crate) fn lower_bound(&self, hash: u32) -> usize {
        let cell = cell_of(hash, self.cells.len() - 1);
        let bounds = self.cells.get(cell..).and_then(<[u32]>::first_chunk);
        let Some([mut start, end]) = bounds.map(|bounds: &[u32; 2]| bounds.map(|at| at as usize))
        else {
            return 0; // Never: a cell is below the number of cells, and one more bound follows.
        };
        let window = self.points.get(start..).and_then(<[P]>::first_chunk);
        if let Some(window) = window {
            let before = count_before(window, hash);
            start += before;
            if before < WINDOW {
                return start;
            }
        }
        let rest = self.points.get(start..end).unwrap_or_default();
        start + rest.partition_point(|point| point.is_before(hash))
    }

    /// The position after `position`, wrapping.
    pub(crate) fn step(&self, position: usize) -> usize {
        let next = position + 1;
        if next >= self.points.len() { 0 } else { next }
    }
}

/// How many of eight sorted points lie before `hash`.
///
/// By halves, and each step adds instead of branching. Counting all eight would do as well, but
/// for points of eight bytes the compiler gathers the hashes into vector registers and counts bits
/// without the instruction for it, which takes longer than three dependent loads.
fn count_before<P: Point>(points: &[P; WINDOW], hash: u32) -> usize {
    let mut before = 4 * usize::from(points[3].is_before(hash));
    before += 2 * usize::from(points[before + 1].is_before(hash));
    before += usize::from(points[before].is_before(hash));
    before + usize::from(points[7].is_before(hash))
}

/// Where the points of each cell begin, for points sorted by hash.
fn index<P: Point>(points: &[P]) -> Box<[u32]> {
    let cells = (points.len() / POINTS_PER_TWO_CELLS * 2).max(1);
    let mut starts = vec![0; cells + 1].into_boxed_slice();
    // Each point overwrites what the one before has left for its cell: no branch to mispredict.
    for (end, point) in (1..).zip(points) {
        starts[cell_of(point.hash(), cells) + 1] = end;
    }
    let mut last = 0;
    for start in &mut starts {
        last = last.max(*start);
        *start = last;
    }
    starts
}

/// The cell of `hash` when the circle is cut into `cells`.
fn cell_of(hash: u32, cells: usize) -> usize {
    ((u64::from(hash) * cells as u64) >> 32) as usize
}

/// Four and a half points a cell: the index takes 0.9 bytes a point, and one lookup in fifty
/// needs more than its window.
const POINTS_PER_TWO_CELLS: usize = 9;

/// Eight points of eight bytes are a cache line.
const WINDOW: usize = 8;

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
            assert_eq!(ring.position(hash), expected % hashes.len(), "{hash}");
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
            // All in the first, a middle or the last two of 888 cells: no window helps.
            let cells = crowded.cells.len() - 1;
            let occupied = cell_of(start + 3_999, cells) - cell_of(start, cells);
            assert!(cells == 888 && occupied <= 1, "{cells} {occupied}");
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
