//! Algorithms by name: built, rebuilt, read and written.
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

#[expect(dead_code, reason = "the contract suite needs more of it")]
mod every;

use every::{id, nodes};
use selection::{Algorithm, Eligible, ReadySet};

#[test]
fn every_name_builds_a_selector() {
    let set = nodes(&[2, 0, 1]);
    let ready = ReadySet::all(3);
    for name in Algorithm::NAMES {
        let selector = name.parse::<Algorithm>().unwrap().build(&set).unwrap();
        assert_eq!(selector.len(), 3, "{name}");
        for key in [&b""[..], b"a", b"b", &[10, 0, 0, 1]] {
            let picked = selector.pick(key, &Eligible::new(&ready));
            assert!(
                [Some(id(0)), Some(id(2))].contains(&picked),
                "{name}: {picked:?}"
            );
        }
    }
}

#[test]
fn a_rebuild_carries_over_within_an_algorithm_only() {
    let set = nodes(&[1, 1, 1]);
    let ready = ReadySet::all(3);
    let eligible = Eligible::new(&ready);
    let (turns, smooth): (Algorithm, Algorithm) = (
        "round_robin".parse().unwrap(),
        "smooth_round_robin".parse().unwrap(),
    );
    let first = turns.build(&set).unwrap();
    assert_eq!(first.pick(b"", &eligible), Some(id(0)));
    let second = turns.rebuild(first.as_ref(), &set).unwrap();
    assert_eq!(second.pick(b"", &eligible), Some(id(1)));
    let other = smooth.rebuild(second.as_ref(), &set).unwrap();
    assert_eq!(other.pick(b"", &eligible), Some(id(0)), "starts anew");
    assert_eq!(
        smooth
            .rebuild(other.as_ref(), &set)
            .unwrap()
            .pick(b"", &eligible),
        Some(id(1))
    );
}

#[test]
fn what_a_config_gets_wrong_is_an_error_of_the_build() {
    let config = selection::KetamaConfig::default().balance_factor(90);
    let error = Algorithm::Consistent(config)
        .build(&nodes(&[1]))
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "balance_factor is 90, allowed is 101 and more"
    );
}

#[cfg(feature = "serde")]
mod written {
    use super::*;
    use std::time::Duration;

    use selection::ketama::RingConfig;
    use selection::{
        AddressPart, FairConfig, Fallback, IpHashConfig, KetamaConfig, LeastTimeConfig, Load,
        P2cConfig, PeakEwmaConfig, RandomTwoConfig, SmoothConfig, Start, TimeTo, WeightedConfig,
    };

    fn read(text: &str) -> Result<Algorithm, String> {
        serde_json::from_str(text).map_err(|error| error.to_string())
    }

    #[test]
    fn a_name_alone_is_the_default() {
        for name in Algorithm::NAMES {
            let algorithm: Algorithm = name.parse().unwrap();
            assert_eq!(read(&format!("\"{name}\"")), Ok(algorithm.clone()));
            assert_eq!(
                read(&format!("{{\"algorithm\": \"{name}\"}}")),
                Ok(algorithm)
            );
        }
    }

    /// Each row is read to the config, and the config written to the row.
    #[test]
    fn fields_are_read_and_written() {
        let seconds = Duration::from_secs;
        let ewma = PeakEwmaConfig::default()
            .tau(seconds(3))
            .failure(seconds(1));
        for (text, algorithm) in [
            (
                r#"{"algorithm":"round_robin","start":"random","seed":7,"fallback":"uniform"}"#,
                Algorithm::RoundRobin(
                    WeightedConfig::default()
                        .start(Start::Random)
                        .seed(7)
                        .fallback(Fallback::Uniform),
                ),
            ),
            (
                r#"{"algorithm":"smooth_round_robin","max_fails":3,"start":"first"}"#,
                Algorithm::SmoothRoundRobin(SmoothConfig::default().max_fails(3)),
            ),
            (
                r#"{"algorithm":"random","seed":7,"fallback":"weighted"}"#,
                Algorithm::Random(WeightedConfig::default().seed(7)),
            ),
            (
                r#"{"algorithm":"ip_hash","address":"full","max_fails":1}"#,
                Algorithm::IpHash(IpHashConfig::default().address(AddressPart::Full)),
            ),
            (
                r#"{"algorithm":"consistent","max_points":5000,"balance_factor":150,"max_fails":2}"#,
                Algorithm::Consistent({
                    let ring = RingConfig::new().max_points(5000);
                    KetamaConfig::default()
                        .ring(ring)
                        .balance_factor(150)
                        .max_fails(2)
                }),
            ),
            (
                r#"{"algorithm":"random_two","seed":9,"max_fails":1}"#,
                Algorithm::RandomTwo(RandomTwoConfig::default().seed(9)),
            ),
            (
                r#"{"algorithm":"least_time","time":"last_byte","inflight":true,"fail_timeout_ms":2000,"max_fails":1}"#,
                Algorithm::LeastTime(
                    LeastTimeConfig::default()
                        .time(TimeTo::LastByte)
                        .with_inflight()
                        .fail_timeout(seconds(2)),
                ),
            ),
            (
                r#"{"algorithm":"p2c","load":"peak_ewma","tau_ms":3000,"failure_ms":1000,"seed":7}"#,
                Algorithm::P2c(P2cConfig::default().seed(7).load(Load::PeakEwma(ewma))),
            ),
            (
                r#"{"algorithm":"fair","max_fails":2,"fail_timeout_ms":500}"#,
                Algorithm::Fair(
                    FairConfig::default()
                        .max_fails(2)
                        .fail_timeout(Duration::from_millis(500)),
                ),
            ),
        ] {
            assert_eq!(read(text), Ok(algorithm.clone()), "{text}");
            assert_eq!(serde_json::to_string(&algorithm).unwrap(), text);
        }
    }

    #[test]
    fn unknown_and_inapplicable_fields_are_named() {
        for (text, complaint) in [
            (
                r#""swrr""#,
                "unknown variant `swrr`, expected one of `round_robin`, `smooth_",
            ),
            (r#"{"algorithm":"swrr"}"#, "unknown variant `swrr`"),
            (r#"{"max_fails":1}"#, "missing field `algorithm`"),
            (
                r#"7"#,
                "the name of an algorithm, or a map with its name under `algorithm`",
            ),
            (
                r#"{"algorithm":"least_conn","seed":1}"#,
                "unknown field `seed`",
            ),
            (
                r#"{"algorithm":"hash","balance_factor":150}"#,
                "unknown field `balance_factor`",
            ),
            (
                r#"{"algorithm":"random","start":"random"}"#,
                "unknown field `start`",
            ),
            (
                r#"{"algorithm":"consistent","max_fail":1}"#,
                "unknown field `max_fail`",
            ),
            (
                r#"{"algorithm":"fair","fail_timeout":1}"#,
                "unknown field `fail_timeout`",
            ),
            (
                r#"{"algorithm":"round_robin","seed":1}"#,
                "field `seed` applies only with `start` = `random`",
            ),
            (
                r#"{"algorithm":"smooth_round_robin","start":"first","seed":1}"#,
                "field `seed` applies only with `start` = `random`",
            ),
            (
                r#"{"algorithm":"p2c","tau_ms":1}"#,
                "field `tau_ms` applies only with `load` = `peak_ewma`",
            ),
            (
                r#"{"algorithm":"p2c","load":"in_flight","failure_ms":1}"#,
                "field `failure_ms` applies only with `load` = `peak_ewma`",
            ),
            (
                r#"{"algorithm":"consistent","key_hash":"md5"}"#,
                "field `key_hash` applies only with `scheme`",
            ),
            (
                r#"{"algorithm":"consistent","scheme":"libketama","point_multiple":40}"#,
                "field `point_multiple` does not apply beside `scheme`",
            ),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(complaint), "{text}: {error}");
        }
    }

    #[cfg(feature = "v2")]
    #[test]
    fn point_multiple_is_layout_v2() {
        let text = r#"{"algorithm":"consistent","point_multiple":40,"max_fails":1}"#;
        let multiple = std::num::NonZeroU32::new(40).unwrap();
        let algorithm = Algorithm::Consistent(KetamaConfig::default().point_multiple(multiple));
        assert_eq!(read(text), Ok(algorithm.clone()));
        assert_eq!(serde_json::to_string(&algorithm).unwrap(), text);
        let error = read(r#"{"algorithm":"consistent","point_multiple":0}"#).unwrap_err();
        assert!(
            error.contains("field `point_multiple` is 0, allowed is 1 and more"),
            "{error}"
        );
    }

    #[cfg(not(feature = "v2"))]
    #[test]
    fn point_multiple_without_its_feature_says_so() {
        let error = read(r#"{"algorithm":"consistent","point_multiple":40}"#).unwrap_err();
        assert!(
            error.contains("field `point_multiple` needs the Cargo feature `v2`"),
            "{error}"
        );
    }

    #[cfg(feature = "schemes")]
    #[test]
    fn schemes_are_read_and_written() {
        use selection::ketama::{KeyHash, PointNames, Scheme, SchemeConfig};
        let names = PointNames::Libmemcached;
        for (text, scheme) in [
            (
                r#"{"algorithm":"consistent","scheme":"libketama","key_hash":"md5","max_fails":1}"#,
                SchemeConfig::new(Scheme::LibKetama),
            ),
            (
                r#"{"algorithm":"consistent","scheme":{"brpc_murmurhash":{"replicas":100}},"key_hash":"murmur3","max_points":900,"max_fails":1}"#,
                SchemeConfig::new(Scheme::BrpcMurmurHash { replicas: 100 }).max_points(900),
            ),
            (
                r#"{"algorithm":"consistent","scheme":{"libmemcached_weighted":{"names":"libmemcached"}},"key_hash":"one_at_a_time","max_fails":1}"#,
                SchemeConfig::new(Scheme::LibmemcachedWeighted { names })
                    .key_hash(KeyHash::OneAtATime),
            ),
        ] {
            let algorithm = Algorithm::Consistent(KetamaConfig::default().scheme(scheme));
            assert_eq!(read(text), Ok(algorithm.clone()), "{text}");
            assert_eq!(serde_json::to_string(&algorithm).unwrap(), text);
        }
        let text = r#"{"algorithm":"consistent","scheme":{"twemproxy":{}}}"#;
        let twemproxy = SchemeConfig::new(Scheme::Twemproxy { hash_tag: None });
        let expected = Algorithm::Consistent(KetamaConfig::default().scheme(twemproxy));
        assert_eq!(read(text), Ok(expected), "the key hash is the scheme's own");
        let text = r#"{"algorithm":"consistent","scheme":{"brpc_md5":{"replica":1}}}"#;
        assert!(read(text).unwrap_err().contains("unknown field `replica`"));
    }

    #[cfg(not(feature = "schemes"))]
    #[test]
    fn a_scheme_without_its_feature_says_so() {
        let text = r#"{"algorithm":"consistent","scheme":{"brpc_md5":{"replicas":100}}}"#;
        let error = read(text).unwrap_err();
        assert!(
            error.contains("field `scheme` needs the Cargo feature `schemes`"),
            "{error}"
        );
    }
}
