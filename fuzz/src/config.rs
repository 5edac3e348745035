//! The parsers of configuration files on any bytes: no panic, and what is read can be written and
//! reads back as the same value.

use std::fmt::Debug;

use balancer::{Address, Backend, LoadBalancer, PoolConfig};
use ketama::{Bucket, RingConfig};
use selection::{Algorithm, Node, NodeSet, Selector};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Panics if a value does not survive being written.
pub fn run(bytes: &[u8]) {
    value::<Algorithm>(bytes, |one, other| {
        assert_eq!(one, other);
        build(one);
    });
    value::<Backend>(bytes, |one, other| {
        assert_eq!(format!("{one:?}"), format!("{other:?}"))
    });
    value::<Bucket>(bytes, |one, other| assert_eq!(one, other));
    value::<RingConfig>(bytes, |one, other| assert_eq!(one, other));
    if let Ok(text) = str::from_utf8(bytes) {
        names(text);
        pools(text);
    }
}

/// A whole pool. It makes a balancer, unless it has sources outside this process.
fn pools(text: &str) {
    if let Ok(read) = PoolConfig::from_toml(text) {
        let written = read.to_toml().unwrap();
        assert_eq!(PoolConfig::from_toml(&written), Ok(read), "{written}");
    }
    let Ok(read) = PoolConfig::from_json(text) else {
        return;
    };
    let written = read.to_json().unwrap();
    assert_eq!(
        PoolConfig::from_json(&written).as_ref(),
        Ok(&read),
        "{written}"
    );
    let is_ring = matches!(read.algorithm, Algorithm::Consistent(_));
    if !is_ring && read.discovery.is_empty() {
        let balancer = LoadBalancer::<dyn Selector>::from_config(read);
        assert!(balancer.is_ok_and(|balancer| balancer.generation() == 0));
    }
}

/// In both formats.
fn value<T: Debug + DeserializeOwned + Serialize>(bytes: &[u8], same: impl Fn(&T, &T)) {
    if let Ok(read) = serde_json::from_slice::<T>(bytes) {
        let written = serde_json::to_string(&read).unwrap();
        same(&read, &serde_json::from_str(&written).unwrap());
    }
    let Ok(text) = str::from_utf8(bytes) else {
        return;
    };
    if let Ok(read) = toml::from_str::<T>(text) {
        let written = toml::to_string(&read).unwrap();
        same(&read, &toml::from_str(&written).unwrap());
    }
}

/// A config that can be written down is one that builds, or an error that says why not. Not the
/// ring, of which a file may ask for more points than there is memory.
fn build(algorithm: &Algorithm) {
    if let Algorithm::Consistent(_) = algorithm {
        return;
    }
    let nodes = ["10.0.0.1:80", "10.0.0.2:80"].map(|text| Node::new(text, 1));
    let nodes = NodeSet::new(nodes).unwrap();
    match algorithm.build(&nodes) {
        Ok(selector) => assert_eq!(selector.len(), 2),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// What stands in a file as a bare text.
fn names(text: &str) {
    if let Ok(algorithm) = text.parse::<Algorithm>() {
        assert_eq!(algorithm.name(), text);
    }
    if let Ok(address) = text.parse::<Address>() {
        assert_eq!(address.to_string().parse(), Ok(address));
    }
}
