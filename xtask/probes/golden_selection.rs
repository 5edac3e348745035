//! Many picks of selectors with their default configs, as digests: equal whatever features are on.

use selection::{
    Build, Consistent, Eligible, FNVHash, IpHash, LeastConn, ModuloHash, Node, NodeId, NodeSet,
    ReadySet, RoundRobin, Selector, SmoothRoundRobin,
};

fn main() {
    picks::<Consistent>("consistent");
    picks::<FNVHash>("fnv");
    picks::<IpHash>("ip_hash");
    picks::<LeastConn>("least_conn");
    picks::<ModuloHash>("hash");
    picks::<RoundRobin>("round_robin");
    picks::<SmoothRoundRobin>("smooth_round_robin");
}

/// With one node in four down.
fn picks<S: Build>(name: &str) {
    let nodes = (0..50u32).map(|n| Node::new(format!("10.0.0.{n}:80").as_str(), n % 6));
    let nodes = NodeSet::new(nodes).unwrap();
    let selector = S::build(&nodes, &S::Config::default()).unwrap();
    let ready = ReadySet::all(nodes.len());
    for down in (0..nodes.len()).step_by(4) {
        ready.set(NodeId::new(down).unwrap(), false);
    }
    let mut digest = Digest::new();
    for n in 0..20_000 {
        let key = format!("key-{n}").repeat(n % 5);
        let node = selector
            .pick(key.as_bytes(), &Eligible::new(&ready))
            .unwrap();
        digest.add(&node.index().to_le_bytes());
    }
    println!("{name} {:x}", digest.0);
}
