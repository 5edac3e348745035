//! What is measured of each balancer.

use std::net::{Ipv4Addr, SocketAddr};

/// A balancer over the backends 10.0.0.0:80 upwards, of weight 1.
pub(crate) trait Engine: Sync {
    fn name(&self) -> &'static str;

    /// The number of the backend for this key.
    fn choose(&self, key: &[u8]) -> Option<usize>;

    /// Picks once for each key; returns how many picks found nobody.
    fn pick_all(&self, keys: &[String]) -> usize;

    /// Takes a backend out of service.
    fn disable(&self, index: usize);
}

/// Which selector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    Ring,
    RoundRobin,
}

pub(crate) fn addr(index: usize) -> SocketAddr {
    let base = u32::from(Ipv4Addr::new(10, 0, 0, 0));
    let index = u32::try_from(index).expect("below 2^24 backends");
    SocketAddr::from((Ipv4Addr::from(base + index), 80))
}

pub(crate) fn index(addr: SocketAddr) -> usize {
    let SocketAddr::V4(addr) = addr else {
        panic!("not one of ours: {addr}");
    };
    let base = u32::from(Ipv4Addr::new(10, 0, 0, 0));
    (u32::from(*addr.ip()) - base) as usize
}
