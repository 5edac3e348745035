//! What the members of one balancer add up to. Pure.

use std::collections::BTreeMap;

use crate::health::{Condition, Health};
use crate::passive::Phase;

/// Sums over the members of one balancer.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Members of weight that may be picked, or could be if they were not ejected.
    pub(crate) selectable: usize,
    /// Those of them that are ejected, or on trial.
    pub(crate) ejected: usize,
    tiers: BTreeMap<u8, Weights>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Weights {
    enabled: u64,
    ready: u64,
}

/// What one member adds to a tally.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Share {
    selectable: bool,
    ejected: bool,
    weights: Weights,
}

impl Share {
    pub(crate) fn of(health: &Health, weight: u32) -> Self {
        let condition = health.condition();
        let weight = u64::from(weight);
        let is_enabled = !matches!(condition, Condition::Disabled | Condition::Draining);
        let is_well = is_enabled && !matches!(condition, Condition::Down | Condition::Unchecked);
        let is_out = health.record.phase() != Phase::Serving;
        Self {
            selectable: weight > 0 && is_well,
            ejected: weight > 0 && is_well && is_out,
            weights: Weights {
                enabled: if is_enabled { weight } else { 0 },
                ready: if is_well && !is_out { weight } else { 0 },
            },
        }
    }
}

impl Tally {
    /// Counts a member as it is now, in place of what was counted of it before.
    pub(crate) fn count(&mut self, tier: u8, old: Share, new: Share) {
        self.selectable += usize::from(new.selectable);
        self.selectable -= usize::from(old.selectable);
        self.ejected += usize::from(new.ejected);
        self.ejected -= usize::from(old.ejected);
        let weights = self.tiers.entry(tier).or_default();
        weights.enabled += new.weights.enabled;
        weights.enabled -= old.weights.enabled;
        weights.ready += new.weights.ready;
        weights.ready -= old.weights.ready;
    }

    /// Whether in every tier less than `percent` of the enabled weight is ready.
    pub(crate) fn is_panic(&self, percent: u8) -> bool {
        let scarce = |weights: &Weights| {
            u128::from(weights.ready) * 100 < u128::from(weights.enabled) * u128::from(percent)
        };
        let mut tiers = self
            .tiers
            .values()
            .filter(|tier| tier.enabled > 0)
            .peekable();
        tiers.peek().is_some() && tiers.all(scarce)
    }
}
