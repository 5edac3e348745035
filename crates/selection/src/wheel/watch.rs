//! Which of many lanes has the highest head, without a look at each of them.

use super::lanes::Head;

/// Watches only the heads that have reached a floor.
///
/// A head below the floor sleeps until the round in which it reaches it, which is known in
/// advance: it rises by its weight every round, and nothing else moves it. Whoever is awake is at
/// or above the floor and whoever sleeps is below it, so the highest of those awake is the highest
/// of all. Sleepers wait in a ring of lists, one list a round; a sleeper whose round is further
/// away than one turn of the ring stays in its list until then.
///
/// In the long run one head wakes a round and one falls asleep, the one that is chosen. So the
/// number of those awake wanders, by about the square root of the number of heads. When it gets
/// to none or too many, the floor is set anew so that a few are awake, in O(lanes): once in 1,000
/// rounds with 1,000 different weights.
#[derive(Clone, Debug)]
pub(super) struct Watch {
    /// Copies of the heads at or above the floor, with their places: side by side.
    awake: Vec<(Head, u32)>,
    /// In `awake`, the one chosen last.
    chosen: usize,
    /// More than that awake, and the floor is set anew. 0 before it is set at all.
    most: usize,
    floor: i64,
    /// The first sleeper of each list; a power of two of them.
    lists: Box<[u32]>,
    /// The next sleeper of its list, by place.
    next: Box<[u32]>,
    /// The round in which it wakes, by place.
    wakes: Box<[i64]>,
    /// Space to find a floor in.
    heights: Vec<i64>,
}

impl Watch {
    /// For up to so many heads.
    pub(super) fn new(heads: usize) -> Self {
        let watched = if heads > FEW { heads } else { 0 };
        Self {
            awake: Vec::with_capacity(watched),
            chosen: 0,
            most: 0,
            floor: 0,
            lists: vec![NOBODY; watched.next_power_of_two()].into(),
            next: vec![NOBODY; watched].into(),
            wakes: vec![0; watched].into(),
            heights: Vec::with_capacity(watched),
        }
    }

    /// The heads are others than before.
    pub(super) fn reset(&mut self) {
        self.most = 0;
    }

    /// The place of the head with the largest current weight, of equals that of the lowest node.
    pub(super) fn highest(&mut self, heads: &[Head], round: i64) -> Option<usize> {
        if heads.len() <= FEW {
            return highest(heads.iter().enumerate(), round).map(|(place, _)| place);
        }
        if self.most > 0 {
            self.wake(heads, round);
        }
        if self.awake.is_empty() || self.awake.len() > self.most {
            self.set_floor(heads, round);
        }
        let awake = self.awake.iter().map(|(head, _)| head);
        let (chosen, _) = highest(awake.enumerate(), round)?;
        self.chosen = chosen;
        Some(self.awake[chosen].1 as usize)
    }

    /// The head that `highest` found has paid in `round`, and may be another one now.
    pub(super) fn paid(&mut self, heads: &[Head], round: i64) {
        if heads.len() <= FEW {
            return;
        }
        let (awake, place) = &mut self.awake[self.chosen];
        let (head, place) = (&heads[*place as usize], *place);
        *awake = *head;
        if head.current(round) < self.floor {
            self.awake.swap_remove(self.chosen);
            self.sleep(place, head, round);
        }
    }

    fn wake(&mut self, heads: &[Head], round: i64) {
        let list = self.list(round);
        let mut place = std::mem::replace(&mut self.lists[list], NOBODY);
        while place != NOBODY {
            let next = self.next[place as usize];
            if self.wakes[place as usize] <= round {
                self.awake.push((heads[place as usize], place));
            } else {
                self.next[place as usize] = std::mem::replace(&mut self.lists[list], place);
            }
            place = next;
        }
    }

    fn sleep(&mut self, place: u32, head: &Head, round: i64) {
        // Below the floor, and its weight is not 0: at least one round.
        let below = self.floor.saturating_sub(head.current(round));
        let rounds = 1 + (below - 1) / head.weight();
        let wakes = round.saturating_add(rounds);
        let list = self.list(wakes);
        self.wakes[place as usize] = wakes;
        self.next[place as usize] = std::mem::replace(&mut self.lists[list], place);
    }

    /// The current weight of the head that makes the right number awake becomes the floor.
    fn set_floor(&mut self, heads: &[Head], round: i64) {
        let few = FEWEST.max(heads.len().isqrt() / 3);
        self.heights.clear();
        let heights = heads.iter().map(|head| head.current(round));
        self.heights.extend(heights);
        let place = heads.len().saturating_sub(few);
        self.floor = *self.heights.select_nth_unstable(place).1;
        self.awake.clear();
        self.lists.fill(NOBODY);
        for (place, head) in (0u32..).zip(heads) {
            if head.current(round) < self.floor {
                self.sleep(place, head, round);
            } else {
                self.awake.push((*head, place));
            }
        }
        // Many may be equal; then it takes twice as many.
        self.most = (4 * few).max(2 * self.awake.len());
    }

    fn list(&self, round: i64) -> usize {
        // The low bits of a round that is not negative.
        let low = round & 0xffff_ffff;
        usize::try_from(low).unwrap_or(0) & (self.lists.len() - 1)
    }
}

fn highest<'a>(
    mut heads: impl Iterator<Item = (usize, &'a Head)>,
    round: i64,
) -> Option<(usize, i64)> {
    let (mut place, mut best) = heads.next()?;
    let mut most = best.current(round);
    for (i, head) in heads {
        let current = head.current(round);
        if current > most || current == most && head.node() < best.node() {
            (place, best, most) = (i, head, current);
        }
    }
    Some((place, most))
}

/// Up to so many lanes it is cheapest to look at each.
const FEW: usize = 16;

/// At least so many heads are awake when the floor is set. Fewer are faster to compare, but then
/// it is set more often.
const FEWEST: usize = 3;

/// The end of a list.
const NOBODY: u32 = u32::MAX;
