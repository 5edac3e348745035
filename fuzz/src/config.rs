//! The parsers of configuration files on any bytes: no panic, and what is read can be written and
//! reads back as the same value.

use std::fmt::Debug;

use balancer::{Address, Backend};
use ketama::{Bucket, RingConfig};
use selection::{Algorithm, Node, NodeSet};
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
