//! A ring of another program places other keys.

use selection::ketama::{Scheme, SchemeConfig};
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
    let nginx = first(&KetamaConfig::default());
    let libketama = SchemeConfig::new(Scheme::LibKetama);
    let libketama = first(&KetamaConfig::default().scheme(libketama));
    assert!(nginx.iter().zip(libketama).filter(|(a, b)| *a != b).count() > 1_000);
}
