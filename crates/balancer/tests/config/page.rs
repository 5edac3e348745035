//! `docs/configuration.md` has every key of the schema, and no other; its examples are pools.

use std::collections::BTreeSet;

use balancer::PoolConfig;
use balancer::selection::Algorithm;

const PAGE: &str = include_str!("../../../../docs/configuration.md");

/// For each table: what stands before its keys on the page, and a pool with a key in it that
/// nobody knows, `zz`.
const TABLES: &[(&str, &str)] = &[
    ("", "zz = 1"),
    ("backends[].", "backends = [{addr = '10.0.0.1:80', zz = 1}]"),
    ("discovery[].", "discovery = [{zz = 1}]"),
    #[cfg(feature = "file")]
    (
        "discovery[].file.",
        "discovery = [{file = {path = 'a.toml', zz = 1}}]",
    ),
    #[cfg(feature = "dns")]
    ("discovery[].dns.", "discovery = [{dns = {zz = 1}}]"),
    #[cfg(feature = "etcd")]
    ("discovery[].etcd.", "discovery = [{etcd = {zz = 1}}]"),
    ("slow_start.", "slow_start = {zz = 1}"),
    ("health.", "health = {zz = 1}"),
    ("health.active.", "health.active = {zz = 1}"),
    #[cfg(feature = "http")]
    ("health.active.http.", "health.active.http = {zz = 1}"),
    ("health.passive.", "health.passive = {zz = 1}"),
    (
        "health.passive.max_fails.",
        "health.passive.max_fails = {zz = 1}",
    ),
    (
        "health.passive.consecutive.",
        "health.passive.consecutive = {zz = 1}",
    ),
];

/// What the message of an unknown key lists.
fn known(toml: &str) -> Vec<String> {
    let error = PoolConfig::from_toml(toml).unwrap_err();
    let (found, known) = error.message.split_once(", expected ").unwrap();
    assert!(
        found.starts_with("unknown ") && found.ends_with("`zz`"),
        "{error}"
    );
    let known = known.split('`').skip(1).step_by(2);
    known.map(str::to_owned).collect()
}

fn schema() -> BTreeSet<String> {
    let mut keys = BTreeSet::new();
    for (table, toml) in TABLES {
        keys.extend(known(toml).into_iter().map(|key| format!("{table}{key}")));
    }
    // Not a table but the other way to write it.
    assert!(keys.remove("health.passive.off"));
    for name in Algorithm::NAMES {
        let fields = known(&format!("algorithm = {{algorithm = '{name}', zz = 1}}"));
        keys.extend(fields.into_iter().map(|key| format!("algorithm.{key}")));
    }
    keys.insert("algorithm.algorithm".to_owned());
    keys
}

/// The first cells of the tables.
fn page() -> BTreeSet<String> {
    let rows = PAGE.lines().filter_map(|line| line.strip_prefix("| `"));
    let keys: Vec<_> = rows.filter_map(|row| row.split('`').next()).collect();
    let set: BTreeSet<_> = keys.iter().map(|&key| key.to_owned()).collect();
    assert_eq!(set.len(), keys.len(), "a key stands on the page twice");
    set
}

#[test]
fn the_page_has_every_key() {
    let page = page();
    let missing: Vec<_> = schema().difference(&page).cloned().collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[cfg(all(feature = "http", feature = "file", feature = "dns", feature = "etcd"))]
#[test]
fn the_page_has_no_key_that_is_not() {
    let schema = schema();
    let too_many: Vec<_> = page().difference(&schema).cloned().collect();
    assert!(too_many.is_empty(), "{too_many:?}");
}

/// For each row, the algorithms that it names are those that know the key.
#[test]
fn the_page_says_which_algorithm_has_which_field() {
    for row in PAGE
        .lines()
        .filter_map(|line| line.strip_prefix("| `algorithm."))
    {
        let (key, rest) = row.split_once('`').unwrap();
        let of = rest.split('|').nth(1).unwrap();
        for name in Algorithm::NAMES {
            let knows = known(&format!("algorithm = {{algorithm = '{name}', zz = 1}}"));
            let is_named = of.trim() == "all" || of.contains(&format!("`{name}`"));
            let is_known = key == "algorithm" || knows.iter().any(|field| field == key);
            assert_eq!(is_named, is_known, "{key} of {name}");
        }
    }
}

/// The blocks of one language.
fn blocks(language: &str) -> impl Iterator<Item = &'static str> {
    let fence = format!("```{language}\n");
    let mut parts = PAGE.split("```");
    parts.next();
    let blocks: Vec<_> = parts.step_by(2).collect();
    blocks
        .into_iter()
        .filter_map(move |block| block.strip_prefix(fence.trim_start_matches('`')))
}

#[test]
fn both_complete_examples_are_the_same_pool() {
    let toml = PoolConfig::from_toml(blocks("toml").next().unwrap()).unwrap();
    let json = PoolConfig::from_json(blocks("json").next().unwrap()).unwrap();
    assert_eq!(toml, json);
    assert_eq!((toml.backends.len(), toml.admin.len()), (4, 1));
}

#[cfg(all(feature = "http", feature = "dns"))]
#[test]
fn every_example_is_a_pool() {
    let pools: Vec<_> = blocks("toml").map(PoolConfig::from_toml).collect();
    assert_eq!(pools.len(), 2);
    for pool in pools {
        pool.unwrap();
    }
}

/// The defaults on the page are those of the code, wherever the page gives a value.
#[cfg(all(feature = "http", feature = "dns"))]
#[test]
fn the_page_gives_the_defaults_of_the_code() {
    use serde_json::Value;

    let whole = |passive: &str| {
        let text = format!(
            "discovery = [{{dns = {{host = 'a', port = 80}}}}]
             slow_start = {{window = '1s'}}
             health = {{active = {{http = {{}}}}, passive = {{{passive} = {{}}}}}}"
        );
        let config = PoolConfig::from_toml(&text).unwrap();
        serde_json::to_value(config).unwrap()
    };
    let configs = ["max_fails", "consecutive"].map(whole);
    let mut checked = 0;
    for row in PAGE.lines().filter_map(|line| line.strip_prefix("| `")) {
        let cells: Vec<_> = row.split('|').map(str::trim).collect();
        let pointer = cells[0]
            .trim_end_matches('`')
            .replace("[]", ".0")
            .replace('.', "/");
        let default = cells[3].split('`').nth(1).unwrap_or(cells[3]);
        let default = default.split(',').next().unwrap();
        let written = configs
            .iter()
            .find_map(|config| config.pointer(&format!("/{pointer}")));
        // The table of algorithms has other columns, and what is a table has no value.
        let is_value = |written: &&Value| !pointer.starts_with("algorithm") && !written.is_object();
        let written = written.filter(is_value);
        if let (Some(written), Ok(default)) = (written, serde_json::from_str::<Value>(default)) {
            assert_eq!(*written, default, "{pointer}");
            checked += 1;
        }
    }
    assert_eq!(checked, 31);
}
