//! Whole configurations, and all that is printed of them.

use crate::import;

macro_rules! corpus {
    ($($name:literal),* $(,)?) => {
        [$((
            $name,
            include_str!(concat!("corpus/", $name, ".conf")),
            include_str!(concat!("corpus/", $name, ".out")),
        )),*]
    };
}

const CORPUS: [(&str, &str, &str); 6] =
    corpus!["api", "broken", "cdn", "names", "refused", "sessions"];

#[test]
fn all_of_the_corpus_is_printed_as_expected() {
    for (name, conf, expected) in CORPUS {
        let printed = import(conf);
        assert_eq!(printed, expected, "{name}.conf:\n{printed}");
    }
}

/// What is printed is a pool: it is read, and written and read again.
#[cfg(all(feature = "serde", feature = "dns"))]
#[test]
fn every_pool_that_is_printed_is_one() {
    use balancer::selection::Selector;
    use balancer::{LoadBalancer, PoolConfig};

    let mut pools = 0;
    for (name, conf, _) in CORPUS {
        let Ok(upstreams) = crate::nginx::parse(conf) else {
            continue;
        };
        for upstream in upstreams {
            let Ok(toml) = crate::pool::toml(&upstream) else {
                continue;
            };
            let config = PoolConfig::from_toml(&toml);
            let config = config.unwrap_or_else(|error| panic!("{name}: {error}\n{toml}"));
            let again = PoolConfig::from_json(&config.to_json().unwrap()).unwrap();
            assert_eq!(again, config, "{name}: {toml}");
            LoadBalancer::<dyn Selector>::from_config(config).unwrap();
            pools += 1;
        }
    }
    assert_eq!(pools, 15);
}
