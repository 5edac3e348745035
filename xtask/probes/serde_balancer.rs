//! A bucket is read from a file and written again; a pool is read, and its backends serve.

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
    assert_eq!(PoolConfig::from_json(&config.to_json().unwrap()).unwrap(), config);
    let balancer = LoadBalancer::<dyn Selector>::from_config(config).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(balancer.update()).unwrap();
    assert_eq!(balancer.select(b"").unwrap().addr.to_string(), "10.0.0.1:80");
}
