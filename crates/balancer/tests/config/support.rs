//! What the tests share.

use balancer::config::ParseError;
use balancer::selection::Selector;
use balancer::{LoadBalancer, PoolConfig};

/// One pool in both notations must be one pool.
pub(crate) fn both(toml: &str, json: &str) -> PoolConfig {
    let config = PoolConfig::from_toml(toml).unwrap();
    assert_eq!(config, PoolConfig::from_json(json).unwrap());
    config
}

/// `PATH: MESSAGE` of an error.
pub(crate) fn fault(error: &ParseError) -> String {
    format!("{}: {}", error.key, error.message)
}

pub(crate) fn balancer(toml: &str) -> LoadBalancer<dyn Selector> {
    LoadBalancer::<dyn Selector>::from_config(PoolConfig::from_toml(toml).unwrap()).unwrap()
}

/// Where the requests with these keys go.
pub(crate) fn choices<K: AsRef<[u8]>>(
    balancer: &LoadBalancer<dyn Selector>,
    keys: impl IntoIterator<Item = K>,
) -> Vec<String> {
    let pick = |key: K| balancer.select(key.as_ref()).unwrap().addr.to_string();
    keys.into_iter().map(pick).collect()
}
