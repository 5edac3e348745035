//! Ten points instead of 160 place other keys; 160 of them are the ring of V1.

use std::num::NonZeroU32;

use selection::{Build, Consistent, Eligible, KetamaConfig, Node, NodeSet, ReadySet, Selector};

fn main() {
    let nodes = [1, 2, 3, 4].map(|n| Node::new(format!("10.0.0.{n}:80").as_str(), 1));
    let nodes = NodeSet::new(nodes).unwrap();
    let first = |config: &KetamaConfig| -> Vec<_> {
        let selector = Consistent::build(&nodes, config).unwrap();
        let ready = ReadySet::all(nodes.len());
        let keys = (0..10_000).map(|n| format!("key-{n}"));
        keys.map(|key| selector.pick(key.as_bytes(), &Eligible::new(&ready)))
            .collect()
    };
    let v1 = first(&KetamaConfig::default());
    let moved = |points| {
        let points = NonZeroU32::new(points).unwrap();
        let v2 = first(&KetamaConfig::default().point_multiple(points));
        v1.iter().zip(v2).filter(|(v1, v2)| *v1 != v2).count()
    };
    assert!(moved(10) > 1_000, "only {} keys moved", moved(10));
    assert_eq!(moved(160), 0);
}
