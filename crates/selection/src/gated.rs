//! What to say to code that names something whose feature is off.
//!
//! For an item that a `cfg` takes away the compiler tells which feature would bring it back. For a
//! method it does not, so here is one that cannot be called and whose error does.

use crate::KetamaConfig;

impl KetamaConfig {
    /// Cannot be called: it needs the Cargo feature `v2`.
    #[doc(hidden)]
    #[must_use]
    pub fn point_multiple(self, _: impl FeatureV2) -> Self {
        self
    }
}

/// What nothing is while the feature is off.
#[diagnostic::on_unimplemented(
    message = "`KetamaConfig::point_multiple` needs the Cargo feature `v2`",
    label = "the feature `v2` is off",
    note = "add `features = [\"v2\"]` to the dependency that `KetamaConfig` comes from: \
            `balancer` and `selection` both have it, and hand it down"
)]
#[expect(
    unnameable_types,
    reason = "that nobody can name it, and so implement it, is its purpose"
)]
pub trait FeatureV2 {}
