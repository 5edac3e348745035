//! The alias table: a choice by weight in two look-ups, for any number of nodes and any weights.
//!
//! Walker 1977, "An efficient method for generating discrete random variables with general
//! distributions"; built in O(n) as in Vose 1991. All arithmetic is on integers, so a share is off
//! by less than n / 2^64.

use crate::{NodeId, NodeSet};

/// As many columns as nodes with a weight, each as tall as the mean weight, filled by at most two
/// nodes: its own, and above `keep` another one that was too heavy for its own column.
#[derive(Clone, Debug)]
pub(crate) struct Alias {
    columns: Box<[Column]>,
}

#[derive(Clone, Copy, Debug)]
struct Column {
    own: NodeId,
    other: NodeId,
    /// The part of the column that is its own node's, in 2^-64.
    keep: u64,
}

impl Alias {
    pub(crate) fn new(nodes: &NodeSet) -> Self {
        let members = nodes.ids().zip(nodes).filter(|(_, node)| node.weight() > 0);
        let (ids, weights): (Vec<_>, Vec<_>) = members
            .map(|(id, node)| (id, u128::from(node.weight())))
            .unzip();
        let height = u128::from(nodes.total_weight());
        // In units of a column's height times the number of columns, everything is an integer:
        // below 2^32 nodes * 2^32 weight each, and height is below 2^64.
        let mut left: Vec<_> = weights.iter().map(|w| w * weights.len() as u128).collect();
        let mut columns: Vec<_> = ids.iter().map(|&own| Column::full(own)).collect();
        let (mut low, mut high): (Vec<_>, Vec<_>) =
            (0..left.len()).partition(|&column| left[column] < height);
        while let (Some(short), Some(&tall)) = (low.pop(), high.last()) {
            columns[short].other = ids[tall];
            columns[short].keep = fraction(left[short], height);
            left[tall] -= height - left[short];
            if left[tall] < height {
                high.pop();
                low.push(tall);
            }
        }
        // What is left has exactly the height of a column: the sums are exact.
        Self {
            columns: columns.into(),
        }
    }

    /// How many nodes can be drawn.
    pub(crate) fn len(&self) -> usize {
        self.columns.len()
    }

    /// The node that `random` falls on; `None` if no node has a weight.
    pub(crate) fn node(&self, random: u64) -> Option<NodeId> {
        let columns = self.columns.len() as u64;
        let column = (u128::from(random) * u128::from(columns)) >> 64;
        let column = self.columns.get(usize::try_from(column).ok()?)?;
        // The low half of the same product: uniform within the column.
        let height = random.wrapping_mul(columns);
        Some(if height < column.keep {
            column.own
        } else {
            column.other
        })
    }
}

impl Column {
    fn full(own: NodeId) -> Self {
        Self {
            own,
            other: own,
            keep: u64::MAX,
        }
    }
}

/// `part / whole` in 2^-64, for a part smaller than the whole.
fn fraction(part: u128, whole: u128) -> u64 {
    u64::try_from((part << 64) / whole).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Node;

    fn alias(weights: &[u32]) -> Alias {
        let named = (0..).zip(weights);
        let nodes = named.map(|(i, &weight)| Node::new(format!("n{i:04}").as_str(), weight));
        Alias::new(&NodeSet::new(nodes).unwrap())
    }

    /// The share of each node, by the area it covers, in 2^-64 of a column.
    fn areas(alias: &Alias, nodes: usize) -> Vec<u128> {
        let mut areas = vec![0; nodes];
        for column in &alias.columns {
            let keep = match column.own == column.other {
                true => 1 << 64,
                false => u128::from(column.keep),
            };
            areas[column.own.index()] += keep;
            areas[column.other.index()] += (1 << 64) - keep;
        }
        areas
    }

    #[test]
    fn areas_are_the_weights() {
        for weights in [
            vec![1, 2, 3, 4],
            vec![0, 7, 0, 1],
            vec![u32::MAX, 1, u32::MAX, 3],
            vec![1; 1000],
            (0..1000).map(|i| i * i % 977).collect(),
        ] {
            let alias = alias(&weights);
            let members = weights.iter().filter(|&&weight| weight > 0).count();
            assert_eq!(alias.len(), members);
            let total: u128 = weights.iter().map(|&weight| u128::from(weight)).sum();
            for (area, &weight) in areas(&alias, weights.len()).into_iter().zip(&weights) {
                // area / (members * 2^64) = weight / total, up to the rounding of each column.
                let exact = (u128::from(weight) * members as u128) << 64;
                let off = (area * total).abs_diff(exact);
                assert!(off <= total * members as u128, "{weight} of {total}: {off}");
            }
        }
    }

    #[test]
    fn draws_at_the_edges_stay_inside() {
        let table = alias(&[0, 3, 1, 0]);
        assert_eq!(table.node(0), Some(NodeId::from(1)));
        assert_eq!(table.node(u64::MAX), Some(NodeId::from(1)));
        let heavy_part = (u64::MAX / 2) + (u64::MAX / 4) + 2;
        assert!(table.node(heavy_part).is_some());
        assert_eq!(alias(&[0, 0]).node(5), None);
        assert_eq!(alias(&[]).node(5), None);
    }
}
