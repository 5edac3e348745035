//! What nginx is asked, scenario by scenario.

use crate::nginx::judge::Judge;
use crate::nginx::script::Pool;
use crate::nginx::upstream::Method;
use crate::nginx::{keys, pools};
use crate::random::Random;

/// A scenario, as many random pools of it as are asked.
#[derive(Debug)]
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) pools: usize,
    pub(crate) make: fn(&mut Random) -> Pool,
    pub(crate) judge: Judge,
    pub(crate) needs: Needs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Needs {
    Nothing,
    /// Addresses, ports or names that only a network namespace of our own has.
    Namespace,
}

impl Scenario {
    const fn judged(self, judge: Judge) -> Self {
        Self { judge, ..self }
    }

    const fn in_namespace(self) -> Self {
        Self {
            needs: Needs::Namespace,
            ..self
        }
    }
}

const fn scenario(name: &'static str, pools: usize, make: fn(&mut Random) -> Pool) -> Scenario {
    Scenario {
        name,
        pools,
        make,
        judge: Judge::Same,
        needs: Needs::Nothing,
    }
}

/// In the order of the table that is printed.
pub(crate) const SCENARIOS: &[Scenario] = &[
    scenario("consistent", 6, |r| {
        pools::healthy(r, Method::Consistent, keys::ipv4)
    }),
    scenario("consistent-ipv6", 3, |r| {
        pools::healthy(r, Method::Consistent, keys::ipv6)
    })
    .in_namespace(),
    scenario("consistent-no-port", 2, |r| {
        pools::healthy(r, Method::Consistent, keys::without_port)
    })
    .in_namespace(),
    scenario("consistent-unix", 2, |r| {
        pools::healthy(r, Method::Consistent, keys::unix)
    }),
    scenario("consistent-names", 3, |r| {
        pools::healthy(r, Method::Consistent, keys::name)
    })
    .in_namespace(),
    scenario("consistent-failing", 5, |r| {
        pools::failing(r, Method::Consistent)
    }),
    scenario("consistent-sparse", 3, |r| {
        pools::sparse(r, Method::Consistent)
    })
    .judged(Judge::Walk),
    scenario("hash", 4, |r| pools::healthy(r, Method::Hash, keys::ipv4)),
    scenario("hash-failing", 5, |r| pools::failing(r, Method::Hash)),
    scenario("hash-sparse", 3, |r| pools::sparse(r, Method::Hash)),
    scenario("hash-backup", 3, |r| pools::backup(r, Method::Hash)).judged(Judge::Primaries),
    scenario("hash-held", 2, |r| pools::held(r, Method::Hash)),
    scenario("ip-hash", 4, |r| {
        pools::healthy(r, Method::IpHash, keys::ipv4)
    }),
    scenario("ip-hash-failing", 4, |r| pools::failing(r, Method::IpHash)),
    scenario("ip-hash-sparse", 3, |r| pools::sparse(r, Method::IpHash)),
    scenario("round-robin", 4, |r| {
        pools::healthy(r, Method::RoundRobin, keys::ipv4)
    }),
    scenario("round-robin-failing", 8, |r| {
        pools::failing(r, Method::RoundRobin)
    }),
    scenario("round-robin-backup", 4, |r| {
        pools::backup(r, Method::RoundRobin)
    }),
    scenario("round-robin-held", 3, |r| {
        pools::held(r, Method::RoundRobin)
    }),
    scenario("least-conn-failing", 4, |r| {
        pools::failing(r, Method::LeastConn)
    }),
    scenario("least-conn-backup", 2, |r| {
        pools::backup(r, Method::LeastConn)
    }),
    scenario("least-conn-held", 6, |r| pools::held(r, Method::LeastConn)),
    scenario("random", 2, |r| pools::chance(r, Method::Random)).judged(Judge::Chance),
    scenario("random-two", 2, |r| pools::chance(r, Method::RandomTwo)).judged(Judge::Chance),
    scenario("names", 5, pools::names).in_namespace(),
    scenario("sorted", 5, pools::sorted),
    scenario("recovery", 12, pools::recovery),
];
