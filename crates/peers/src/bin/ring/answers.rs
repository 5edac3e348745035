//! Who owns a key, compared before anything is timed.

use std::collections::HashSet;
use std::net::SocketAddr;

use crate::Error;
use crate::engine::{self, Engine, Layout};
use crate::pool::{Pool, keys};

/// V1 against pingora's V1, and V2 against pingora's V2, on 65,536 keys.
///
/// V2 must agree on each. V1 must agree but on tied points, whose owner is left to an unstable sort
/// there: those are the points on which two lists of backends, one from each end, disagree here.
pub(crate) fn check(pool: &Pool) -> Result<(), Error> {
    let build = |layout: usize| (engine::ALL[layout].build)(pool);
    let keys = keys(1 << 16);
    let [ours, theirs] = [engine::OURS_V2, engine::PINGORA_V2].map(build);
    for key in &keys {
        same(pool, key, ours.owner(key), theirs.owner(key))?;
    }
    let [ours, theirs] = [engine::OURS_V1, engine::PINGORA_V1].map(build);
    let reversed = Pool {
        addresses: pool.addresses.iter().rev().copied().collect(),
        ..*pool
    };
    let last_listed = (engine::ALL[engine::OURS_V1].build)(&reversed);
    let mut tied = 0;
    for key in &keys {
        let claimants = [ours.owner(key), last_listed.owner(key)];
        if claimants[0] == claimants[1] {
            same(pool, key, claimants[0], theirs.owner(key))?;
        } else if claimants.contains(&theirs.owner(key)) {
            tied += 1;
        } else {
            same(pool, key, claimants[0], theirs.owner(key))?;
        }
    }
    eprintln!(
        "  pingora agrees on {} keys, {tied} of them on tied V1 points",
        keys.len()
    );
    Ok(())
}

/// A changed ring is the ring of a fresh build; the rings of others are at least whole again.
pub(crate) fn check_changed(
    pool: &Pool,
    engines: &[(&Layout, Box<dyn Engine>)],
) -> Result<(), Error> {
    let changed = Pool {
        addresses: pool.changed(),
        ..*pool
    };
    let keys = keys(1 << 14);
    for (layout, engine) in engines {
        let fresh = (layout.build)(&changed);
        if engine.points() != fresh.points() {
            return Err(format!("{}, {}: not a fresh build", pool.name, layout.name).into());
        }
        for key in &keys {
            same(&changed, key, engine.owner(key), fresh.owner(key))?;
        }
        let owners: HashSet<_> = keys.iter().map(|key| engine.owner(key)).collect();
        if pool.addresses.len() < 100 && owners.len() < pool.addresses.len() {
            return Err(format!("{}, {}: a backend without keys", pool.name, layout.name).into());
        }
    }
    Ok(())
}

fn same(pool: &Pool, key: &[u8], ours: SocketAddr, theirs: SocketAddr) -> Result<(), Error> {
    if ours == theirs {
        return Ok(());
    }
    let key = String::from_utf8_lossy(key);
    Err(format!("{}, {key}: {ours} here, {theirs} there", pool.name).into())
}
