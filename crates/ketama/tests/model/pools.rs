//! Pools and keys to compare on.

use proptest::prelude::*;

/// Text and weight; among the texts are addresses whose points collide, and few others.
pub(crate) fn bucket() -> impl Strategy<Value = (String, u32)> {
    let text = prop_oneof![
        (0..8u8).prop_map(|i| format!("192.0.2.{i}:80")),
        Just("203.0.113.210:80".to_owned()),
        Just("203.0.113.215:80".to_owned()),
        (0..4u8).prop_map(|i| format!("[2001:db8::{i}]:443")),
        (0..4u8).prop_map(|i| format!("unix:/run/{i}.sock")),
        // Every one of its points is 0.
        Just("shard-1155-xqvp".to_owned()),
        "[a-z:0-9]{0,6}",
    ];
    (text, 0..4u32)
}

pub(crate) fn pool() -> impl Strategy<Value = Vec<(String, u32)>> {
    proptest::collection::vec(bucket(), 0..8)
}

pub(crate) fn keys() -> impl Strategy<Value = Vec<Vec<u8>>> {
    proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..24), 16)
}
