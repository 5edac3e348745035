//! A bucket is read from a file and written again; a pool is read, and its backends serve. What
//! needs a feature that is not there is named with it.

use balancer::selection::Selector;
use balancer::selection::ketama::Bucket;
use balancer::{LoadBalancer, PoolConfig};

fn main() {
    let bucket: Bucket = serde_json::from_str(r#"{"addr":"10.0.0.1:80","weight":3}"#).unwrap();
    assert_eq!(bucket, Bucket::new("10.0.0.1:80".parse().unwrap(), 3));
    let written = serde_json::to_string(&bucket).unwrap();
    assert_eq!(serde_json::from_str::<Bucket>(&written).unwrap(), bucket);

    let pool = "algorithm = 'random'\n[[backends]]\naddr = '10.0.0.1:80'";
    let config = PoolConfig::from_toml(pool).unwrap();
    assert_eq!(
        PoolConfig::from_json(&config.to_json().unwrap()).unwrap(),
        config
    );
    let balancer = LoadBalancer::<dyn Selector>::from_config(config).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    runtime.block_on(balancer.update()).unwrap();
    assert_eq!(
        balancer.select(b"").unwrap().addr.to_string(),
        "10.0.0.1:80"
    );

    for (key, feature, rest) in [
        (
            "health.active.http",
            "http",
            "health.active.http = {path = '/'}",
        ),
        (
            "discovery[0].file",
            "file",
            "discovery = [{file = {path = 'a.toml'}}]",
        ),
        (
            "discovery[0].dns",
            "dns",
            "discovery = [{dns = {host = 'a', port = 80}}]",
        ),
        (
            "discovery[0].etcd",
            "etcd",
            "discovery = [{etcd = {endpoints = [], prefix = '/'}}]",
        ),
    ] {
        let error = PoolConfig::from_toml(&format!("{rest}\n{pool}")).unwrap_err();
        let expected = format!("needs the Cargo feature `{feature}` of the crate `balancer`");
        assert_eq!((error.key.as_str(), error.message), (key, expected));
    }
}
