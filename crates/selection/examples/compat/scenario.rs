//! One recording, replayed: how many of its decisions we share, and which not.

use std::fmt::{Debug, Display};

/// What came of replaying one recording.
#[derive(Debug)]
pub(crate) struct Scenario {
    /// The system it was recorded from, as in `test-data/SYSTEM`.
    pub(crate) system: &'static str,
    /// The recording, usually its file name without the ending.
    pub(crate) name: String,
    /// The rows compared.
    pub(crate) decisions: usize,
    /// Those on which we answer as expected.
    pub(crate) agreed: usize,
    /// The first few of the others, as text.
    pub(crate) differences: Vec<String>,
    /// Decisions on which we answer otherwise on purpose; they count as agreed.
    pub(crate) deviations: Vec<String>,
}

impl Scenario {
    pub(crate) fn new(system: &'static str, name: impl Into<String>) -> Self {
        Self {
            system,
            name: name.into(),
            decisions: 0,
            agreed: 0,
            differences: Vec::new(),
            deviations: Vec::new(),
        }
    }

    /// Counts one decision: `theirs` was recorded, `ours` is what we choose for the same `row`.
    pub(crate) fn decide<T: PartialEq + Debug>(&mut self, row: impl Display, theirs: T, ours: T) {
        self.decisions += 1;
        if theirs == ours {
            self.agreed += 1;
        } else if self.differences.len() < SHOWN {
            self.differences
                .push(format!("{row}: theirs {theirs:?}, ours {ours:?}"));
        }
    }

    /// Counts one decision on which we chose to answer `intended`, whatever theirs was.
    ///
    /// Where the two differ the row is listed as a deviation; only an answer other than `intended`
    /// is a difference.
    pub(crate) fn decide_as<T: PartialEq + Debug>(
        &mut self,
        row: impl Display,
        theirs: T,
        intended: T,
        ours: T,
    ) {
        if theirs != intended {
            self.deviations.push(format!(
                "{row}: theirs {theirs:?}, ours {intended:?} on purpose"
            ));
        }
        self.decide(row, intended, ours);
    }

    pub(crate) fn differing(&self) -> usize {
        self.decisions - self.agreed
    }
}

/// Enough to see the pattern.
const SHOWN: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_is_counted_and_the_first_few_are_told() {
        let mut scenario = Scenario::new("nginx", "a");
        scenario.decide("key-0", 1, 1);
        for key in 1..=7 {
            scenario.decide(format!("key-{key}"), 1, 2);
        }
        assert_eq!((scenario.decisions, scenario.agreed), (8, 1));
        assert_eq!(scenario.differing(), 7);
        assert_eq!(scenario.differences.len(), 5);
        assert_eq!(scenario.differences[0], "key-1: theirs 1, ours 2");
    }

    #[test]
    fn a_deviation_is_told_and_agrees_only_with_what_was_intended() {
        let mut scenario = Scenario::new("nginx", "a");
        scenario.decide_as("key-0", 1, 2, 2);
        scenario.decide_as("key-1", 1, 2, 1);
        scenario.decide_as("key-2", 1, 1, 1);
        assert_eq!((scenario.decisions, scenario.differing()), (3, 1));
        assert_eq!(scenario.differences, ["key-1: theirs 2, ours 1"]);
        assert_eq!(scenario.deviations.len(), 2);
        assert_eq!(scenario.deviations[0], "key-0: theirs 1, ours 2 on purpose");
    }
}
