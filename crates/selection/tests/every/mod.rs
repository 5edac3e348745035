//! One line for each selector of the crate: what the suites run over.

#[cfg(feature = "schemes")]
use selection::ketama::{Scheme, SchemeConfig};
use selection::{
    AddressPart, Build, Consistent, FNVHash, Fair, FairConfig, Fallback, IpHash, IpHashConfig,
    KetamaConfig, LeastConn, LeastConnConfig, LeastTime, LeastTimeConfig, Load, ModuloHash,
    ModuloHashConfig, Node, NodeId, NodeSet, P2c, P2cConfig, PeakEwmaConfig, Random, RandomTwo,
    RandomTwoConfig, RoundRobin, Selector, SmoothConfig, SmoothRoundRobin, WeightedConfig,
};

/// A selector under test.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    /// Whether the same key over the same eligible nodes gives the same node.
    pub(crate) pure: bool,
    pub(crate) build: fn(&NodeSet) -> Box<dyn Selector>,
}

/// All selectors, each with a fixed seed where it takes one.
pub(crate) fn selectors() -> Vec<Case> {
    vec![
        case("fnv", true, |n| boxed::<FNVHash>(n, &weighted())),
        case("fnv uniform", true, |n| boxed::<FNVHash>(n, &uniform())),
        case("random", false, |n| boxed::<Random>(n, &weighted())),
        case("random uniform", false, |n| boxed::<Random>(n, &uniform())),
        case("round robin", false, |n| {
            boxed::<RoundRobin>(n, &weighted())
        }),
        case("round robin uniform", false, |n| {
            boxed::<RoundRobin>(n, &uniform())
        }),
        case("p2c", false, |n| boxed::<P2c>(n, &p2c())),
        case("p2c peak ewma", false, |n| {
            let load = Load::PeakEwma(PeakEwmaConfig::default());
            boxed::<P2c>(n, &p2c().load(load))
        }),
        case("smooth round robin", false, |n| {
            boxed::<SmoothRoundRobin>(n, &SmoothConfig::default())
        }),
        case("fair", false, |n| boxed::<Fair>(n, &FairConfig::default())),
        case("hash", false, |n| {
            boxed::<ModuloHash>(n, &ModuloHashConfig::default())
        }),
        case("ip hash", false, |n| {
            boxed::<IpHash>(n, &IpHashConfig::default())
        }),
        case("ip hash full address", false, |n| {
            let full = IpHashConfig::default().address(AddressPart::Full);
            boxed::<IpHash>(n, &full)
        }),
        case("least conn", false, |n| {
            boxed::<LeastConn>(n, &LeastConnConfig::default())
        }),
        case("least time", false, |n| {
            boxed::<LeastTime>(n, &LeastTimeConfig::default())
        }),
        case("least time inflight", false, |n| {
            boxed::<LeastTime>(n, &LeastTimeConfig::default().with_inflight())
        }),
        case("random two", false, |n| {
            boxed::<RandomTwo>(n, &RandomTwoConfig::default().seed(7))
        }),
        case("consistent", true, |n| {
            boxed::<Consistent>(n, &KetamaConfig::default())
        }),
        case("consistent bounded", true, |n| {
            boxed::<Consistent>(n, &KetamaConfig::default().balance_factor(150))
        }),
        case("consistent by names", false, |n| {
            boxed::<Consistent>(&named(n), &KetamaConfig::default())
        }),
        case("consistent by names bounded", false, |n| {
            boxed::<Consistent>(&named(n), &KetamaConfig::default().balance_factor(150))
        }),
        #[cfg(feature = "schemes")]
        case("consistent libketama", true, |n| {
            let scheme = SchemeConfig::new(Scheme::LibKetama);
            boxed::<Consistent>(n, &KetamaConfig::default().scheme(scheme))
        }),
        #[cfg(feature = "v2")]
        case("consistent v2", true, |n| {
            let multiple = std::num::NonZeroU32::new(10).unwrap();
            boxed::<Consistent>(n, &KetamaConfig::default().point_multiple(multiple))
        }),
    ]
}

fn case(name: &'static str, pure: bool, build: fn(&NodeSet) -> Box<dyn Selector>) -> Case {
    Case { name, pure, build }
}

fn weighted() -> WeightedConfig {
    WeightedConfig::default().seed(7)
}

fn uniform() -> WeightedConfig {
    weighted().fallback(Fallback::Uniform)
}

fn p2c() -> P2cConfig {
    P2cConfig::default().seed(7)
}

fn boxed<S: Build>(nodes: &NodeSet, config: &S::Config) -> Box<dyn Selector> {
    Box::new(S::build(nodes, config).unwrap())
}

/// The same nodes, two of three under a name that they share with others.
fn named(set: &NodeSet) -> NodeSet {
    let members = set.ids().zip(set).map(|(id, node)| match id.index() % 3 {
        0 => node.clone(),
        _ => node
            .clone()
            .with_ring_name(format!("group-{}", id.index() % 100 / 10)),
    });
    NodeSet::in_order(members).unwrap()
}

/// Nodes 10.0.x.y:80 of the given weights, numbered in this order.
pub(crate) fn nodes(weights: &[u32]) -> NodeSet {
    NodeSet::new((1u32..).zip(weights).map(|(i, &weight)| {
        let ip = std::net::Ipv4Addr::from(0x0a00_0000 + i);
        Node::new(std::net::SocketAddr::from((ip, 80)), weight)
    }))
    .unwrap()
}

/// The node number `index`.
pub(crate) fn id(index: usize) -> NodeId {
    NodeId::new(index).unwrap()
}
