//! Our selectors, through `dyn Selector` as a proxy would hold them.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use selection::{
    Algorithm, Eligible, KetamaConfig, Load, Node, NodeSet, P2cConfig, PeakEwmaConfig, ReadySet,
};

use crate::Pick;

type Make = fn(u32, u32) -> Option<Pick>;

pub(crate) fn all() -> Vec<(&'static str, Make)> {
    vec![
        ("round_robin", |n, step| by_name("round_robin", n, step)),
        ("random", |n, step| by_name("random", n, step)),
        ("fnv", |n, step| by_name("fnv", n, step)),
        ("consistent", |n, step| by_name("consistent", n, step)),
        ("consistent bounded", |n, step| {
            pick(
                &Algorithm::Consistent(KetamaConfig::default().balance_factor(150)),
                n,
                step,
            )
        }),
        ("smooth_round_robin", |n, step| {
            by_name("smooth_round_robin", n, step)
        }),
        ("hash", |n, step| by_name("hash", n, step)),
        ("ip_hash", |n, step| by_name("ip_hash", n, step)),
        ("least_conn", |n, step| by_name("least_conn", n, step)),
        ("random_two", |n, step| by_name("random_two", n, step)),
        ("least_time", |n, step| by_name("least_time", n, step)),
        ("p2c", |n, step| by_name("p2c", n, step)),
        ("p2c peak_ewma", |n, step| {
            let load = Load::PeakEwma(PeakEwmaConfig::default());
            pick(&Algorithm::P2c(P2cConfig::default().load(load)), n, step)
        }),
        ("fair", |n, step| by_name("fair", n, step)),
    ]
}

fn by_name(name: &str, len: u32, step: u32) -> Option<Pick> {
    pick(&name.parse().ok()?, len, step)
}

fn pick(algorithm: &Algorithm, len: u32, step: u32) -> Option<Pick> {
    let nodes = (0..len).map(|i| Node::new(address(i), weight(i)));
    let set = NodeSet::new(nodes).ok()?;
    let selector = algorithm.build(&set).ok()?;
    let ready = ReadySet::none(set.len());
    for index in (0..len).step_by(step as usize) {
        ready.set(index.into(), true);
    }
    Some(Box::new(move |key| {
        let clock = || Duration::from_secs(1);
        let eligible = Eligible::new(&ready).at(&clock);
        selector
            .pick(key, &eligible)
            .map_or(usize::MAX, |node| node.index())
    }))
}

pub(crate) fn address(index: u32) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::from(BASE + index), 80))
}

/// The node of an address that [`address`] made.
pub(crate) fn index(address: &SocketAddr) -> usize {
    match address {
        SocketAddr::V4(address) => (u32::from(*address.ip()) - BASE) as usize,
        SocketAddr::V6(_) => usize::MAX,
    }
}

pub(crate) fn weight(index: u32) -> u32 {
    1 + index % 5
}

const BASE: u32 = 0x0a00_0000;
