//! The nodes that one pick has asked for in vain.

use crate::{NodeId, Tried};

/// As a rule few: a list on the stack, which for any number of nodes allocates nothing, and a set
/// behind it.
#[derive(Debug)]
pub(crate) struct Refused {
    few: [NodeId; FEW],
    len: usize,
    many: Tried,
}

impl Refused {
    pub(crate) fn new() -> Self {
        Self {
            few: [NodeId::from(0); FEW],
            len: 0,
            many: Tried::new(),
        }
    }

    /// Adds `node`; returns whether it was new.
    pub(crate) fn insert(&mut self, node: NodeId) -> bool {
        if self.contains(node) {
            return false;
        }
        match self.few.get_mut(self.len) {
            Some(slot) => {
                *slot = node;
                self.len += 1;
                true
            }
            None => self.many.insert(node),
        }
    }

    pub(crate) fn contains(&self, node: NodeId) -> bool {
        self.few[..self.len].contains(&node) || self.many.contains(node)
    }

    pub(crate) fn len(&self) -> usize {
        self.len + self.many.len()
    }

    /// All of them as a set, for those who look at every node anyway.
    pub(crate) fn into_set(mut self) -> Tried {
        for &node in &self.few[..self.len] {
            self.many.insert(node);
        }
        self.many
    }
}

/// As many as the selectors draw before they scan.
const FEW: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_and_the_set_are_one() {
        let mut refused = Refused::new();
        for node in (0..40u32).map(|i| NodeId::from(i * 50)) {
            assert!(!refused.contains(node));
            assert!(refused.insert(node) && !refused.insert(node));
            assert!(refused.contains(node));
        }
        assert_eq!(refused.len(), 40);
        let set = refused.into_set();
        assert_eq!(set.len(), 40);
        assert!((0..40u32).all(|i| set.contains(NodeId::from(i * 50))));
    }
}
