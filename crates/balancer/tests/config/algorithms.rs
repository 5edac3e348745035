//! Every algorithm through the file, and what an update leaves of its config.

use balancer::selection::{Algorithm, Eligible, Node, NodeSet, ReadySet};

use crate::support::{balancer, choices};

const BACKENDS: &str = "
    backends = [
        {addr = '10.0.0.1:80', weight = 1},
        {addr = '10.0.0.2:80', weight = 2},
        {addr = '10.0.0.3:80', weight = 3},
    ]";

/// All but those that draw random numbers pick what their selector picks by itself.
#[tokio::test]
async fn each_algorithm_picks_what_its_selector_picks() {
    let nodes = (1..=3).map(|n| Node::new(format!("10.0.0.{n}:80").as_str(), n));
    let nodes = NodeSet::new(nodes).unwrap();
    let ready = ReadySet::all(3);
    for name in Algorithm::NAMES {
        let seed = match name {
            "random" | "random_two" | "p2c" => ", seed = 7",
            _ => "",
        };
        let balancer = balancer(&format!(
            "algorithm = {{algorithm = '{name}'{seed}}}{BACKENDS}"
        ));
        balancer.update().await.unwrap();
        let json = match seed {
            "" => format!("{{\"algorithm\": \"{name}\"}}"),
            _ => format!("{{\"algorithm\": \"{name}\", \"seed\": 7}}"),
        };
        let algorithm: Algorithm = serde_json::from_str(&json).unwrap();
        let alone = algorithm.build(&nodes).unwrap();
        // A key of four bytes is an address too.
        let keys: Vec<_> = (1000..1100).map(|n: u32| n.to_string()).collect();
        let eligible = Eligible::new(&ready);
        let now = || std::time::Duration::ZERO;
        let expected: Vec<_> = keys
            .iter()
            .map(|key| {
                let node = alone.pick(key.as_bytes(), &eligible.at(&now)).unwrap();
                nodes[node].identity().to_string()
            })
            .collect();
        assert_eq!(choices(&balancer, &keys), expected, "{name}");
    }
}

/// The order of the list decides ties only if it is asked to.
#[tokio::test]
async fn backends_are_numbered_as_told() {
    let backends = "
        algorithm = 'smooth_round_robin'
        backends = [{addr = '10.0.0.2:80'}, {addr = '10.0.0.1:80'}, {addr = '10.0.0.3:80'}]";
    for (order, expected) in [
        ("order = 'address'", [1, 2, 3]),
        ("order = 'listed'", [2, 1, 3]),
    ] {
        let balancer = balancer(&format!("{order}\n{backends}"));
        balancer.update().await.unwrap();
        let expected = expected.map(|n| format!("10.0.0.{n}:80"));
        assert_eq!(choices(&balancer, [b""; 3]), expected);
    }
}

#[cfg(feature = "file")]
mod updates {
    use std::any::Any;
    use std::path::PathBuf;
    use std::{fs, process};

    use balancer::selection::ketama::Continuum;
    use balancer::selection::{Consistent, Selector};
    use balancer::{LoadBalancer, UpdateError};

    use super::*;

    /// A list of backends `10.0.0.n:80` of these weights, removed at the end of its test.
    struct List(PathBuf);

    impl List {
        fn new(test: &str, weights: &[u32]) -> Self {
            let name = format!("balancer-config-{}-{test}.toml", process::id());
            let list = Self(std::env::temp_dir().join(name));
            list.set(weights);
            list
        }

        fn set(&self, weights: &[u32]) {
            let line =
                |(n, weight)| format!("[[backends]]\naddr='10.0.0.{n}:80'\nweight={weight}\n");
            let text: String = (1..).zip(weights).map(line).collect();
            fs::write(&self.0, text).unwrap();
        }

        fn balancer(&self, algorithm: &str) -> LoadBalancer<dyn Selector> {
            balancer(&format!(
                "algorithm = {algorithm}\ndiscovery = [{{file = {{path = '{}'}}}}]",
                self.0.display()
            ))
        }
    }

    impl Drop for List {
        fn drop(&mut self) {
            drop(fs::remove_file(&self.0));
        }
    }

    fn points(balancer: &LoadBalancer<dyn Selector>) -> usize {
        let tiers = balancer.tiers();
        let selector: &dyn Any = &*tiers[0].selectors[0];
        let ring: &Continuum = selector.downcast_ref::<Consistent>().unwrap().ring();
        ring.points().len()
    }

    #[tokio::test]
    async fn the_limit_of_the_ring_survives_updates() {
        let list = List::new("limit", &[1, 2, 3]);
        // Six weights of 160 points fit, seven do not.
        let balancer = list.balancer("{algorithm = 'consistent', max_points = 1000}");
        balancer.update().await.unwrap();
        for _ in 0..3 {
            list.set(&[1, 2, 4]);
            let error = balancer.update().await.unwrap_err();
            let UpdateError::Selector(cause) = &error else {
                panic!("{error:?}");
            };
            let cause = std::error::Error::source(cause).unwrap().to_string();
            assert!(cause.contains("1000") && cause.contains("1120"), "{cause}");
            list.set(&[1, 2, 3]);
            balancer.update().await.unwrap();
            list.set(&[3, 2, 1]);
            assert_eq!(balancer.update().await.unwrap().changed.len(), 2);
        }
        assert_eq!(balancer.status().backends.len(), 3);
    }

    #[cfg(feature = "v2")]
    #[tokio::test]
    async fn a_point_multiple_survives_updates() {
        let list = List::new("multiple", &[1, 2, 3]);
        let balancer = list.balancer("{algorithm = 'consistent', point_multiple = 10}");
        for (weights, expected) in [
            (&[1, 2, 3][..], 60),
            (&[1, 2, 3, 4], 100),
            (&[5, 2, 3, 4], 140),
            (&[5, 2], 70),
        ] {
            list.set(weights);
            balancer.update().await.unwrap();
            assert_eq!(points(&balancer), expected);
        }
    }

    #[tokio::test]
    async fn without_one_there_are_nginxs_points() {
        let list = List::new("points", &[1, 2]);
        let balancer = list.balancer("'consistent'");
        balancer.update().await.unwrap();
        assert_eq!(points(&balancer), 480);
    }

    #[tokio::test]
    async fn another_order_is_a_change_only_where_order_counts() {
        let list = List::new("order", &[1, 1]);
        let text = fs::read_to_string(&list.0).unwrap();
        let (first, second) = text.split_at(text.rfind("[[").unwrap());
        let [address, listed] = ["", "\norder = 'listed'"]
            .map(|order| list.balancer(&format!("'smooth_round_robin'{order}")));
        for balancer in [&address, &listed] {
            balancer.update().await.unwrap();
        }
        fs::write(&list.0, format!("{second}{first}")).unwrap();
        assert!(address.update().await.unwrap().is_unchanged());
        assert_eq!(listed.update().await.unwrap().changed.len(), 2);
        assert!(listed.update().await.unwrap().is_unchanged());
        assert_eq!(choices(&address, [b""]), ["10.0.0.1:80"]);
        assert_eq!(choices(&listed, [b""]), ["10.0.0.2:80"]);
    }

    #[tokio::test]
    async fn every_algorithm_is_rebuilt_with_its_own_config() {
        for name in Algorithm::NAMES {
            let list = List::new(name, &[1, 1]);
            let balancer = list.balancer(&format!("'{name}'"));
            balancer.update().await.unwrap();
            list.set(&[1, 1, 1]);
            balancer.update().await.unwrap();
            let tiers = balancer.tiers();
            let selector = &*tiers[0].selectors[0];
            assert_eq!(selector.len(), 3, "{name}");
            let eligible = ReadySet::all(3);
            let now = || std::time::Duration::ZERO;
            let picked = selector.pick(b"0123", &Eligible::new(&eligible).at(&now));
            assert!(picked.is_some(), "{name}");
        }
    }
}
