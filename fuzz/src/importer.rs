//! The importer of nginx configurations on any text: no panic, every complaint is about a place of
//! the text, and what it writes is a pool that can be read, of the servers that are there.

use balancer::PoolConfig;

use crate::nginx::server::{Server, Target};
use crate::nginx::{self, Located, Upstream};
use crate::pool;

/// Panics if the importer does what it should not.
pub fn run(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else {
        return;
    };
    match nginx::parse(text) {
        Ok(upstreams) => upstreams.iter().for_each(|upstream| import(text, upstream)),
        Err(error) => check_place(text, &error),
    }
}

fn import(text: &str, upstream: &Upstream) {
    for note in &upstream.notes {
        check_place(text, note);
    }
    let written = match pool::toml(upstream) {
        Ok(written) => written,
        Err(refusals) => {
            assert!(!refusals.is_empty());
            return refusals
                .iter()
                .for_each(|refusal| check_place(text, refusal));
        }
    };
    // Sources of names need a feature, which would bring a resolver.
    if written.contains("[discovery.dns]") {
        toml::from_str::<toml::Table>(&written).unwrap();
        return;
    }
    let config = PoolConfig::from_toml(&written).unwrap_or_else(|error| {
        panic!("{error}\n{written}");
    });
    // A name that is down is nobody's address.
    let is_name = |server: &Server| !matches!(server.target, Target::Inet(_) | Target::Unix(_));
    let servers = upstream.servers.iter();
    let servers: Vec<_> = servers.filter(|server| !is_name(server)).collect();
    assert_eq!(config.backends.len(), servers.len());
    for (backend, server) in config.backends.iter().zip(servers) {
        assert_eq!(u64::from(backend.weight), u64::from(server.weight));
    }
}

/// A line of the text, and a column of that line or right behind it.
fn check_place(text: &str, said: &Located) {
    let line = said
        .at
        .line
        .checked_sub(1)
        .and_then(|line| text.split('\n').nth(line));
    let line = line.unwrap_or_else(|| panic!("{said}: no such line"));
    assert!(
        (1..=line.len() + 1).contains(&said.at.column),
        "{said}: no such column"
    );
    assert!(!said.message.is_empty());
}
