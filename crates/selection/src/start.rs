//! Where algorithms that take turns begin.

/// Where the turns of a fresh selector start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Start {
    /// With the first node of the set.
    #[default]
    First,
    /// Anywhere in the cycle of all weights, so that a fleet that starts at one time does not
    /// start at one node. The seed of the config decides where.
    Random,
}
