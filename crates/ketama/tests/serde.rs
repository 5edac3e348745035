//! Buckets and configurations in files.
#![cfg(feature = "serde")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use ketama::{Bucket, RingConfig, Version};

fn error<T: serde::de::DeserializeOwned + std::fmt::Debug>(json: &str) -> String {
    serde_json::from_str::<T>(json).unwrap_err().to_string()
}

#[test]
fn buckets_come_back_as_they_were() {
    let v6 = Bucket::new("[2001:db8::1]:80".parse().unwrap(), 3);
    let pool = [
        v6.clone(),
        v6.with_text("2001:db8::1:80"),
        Bucket::from_text("unix:/run/a.sock", 0),
    ];
    let json = serde_json::to_string(&pool).unwrap();
    assert_eq!(
        json,
        r#"[{"addr":"[2001:db8::1]:80","weight":3},{"addr":"[2001:db8::1]:80","text":"2001:db8::1:80","weight":3},{"text":"unix:/run/a.sock","weight":0}]"#
    );
    assert_eq!(serde_json::from_str::<Vec<Bucket>>(&json).unwrap(), pool);
}

#[test]
fn a_weight_is_one_unless_given() {
    let bucket: Bucket = serde_json::from_str(r#"{"text":"shard-1"}"#).unwrap();
    assert_eq!(bucket, Bucket::from_text("shard-1", 1));
}

#[test]
fn what_means_nothing_is_refused() {
    let nameless = error::<Bucket>(r#"{"weight":2}"#);
    assert!(
        nameless.contains("a bucket needs an `addr`, a `text` or both"),
        "{nameless}"
    );
    let unknown = error::<Bucket>(r#"{"text":"a","wieght":2}"#);
    assert!(unknown.contains("unknown field `wieght`"), "{unknown}");
    let unknown = error::<RingConfig>(r#"{"max_point":1}"#);
    assert!(unknown.contains("unknown field `max_point`"), "{unknown}");
    let unknown = error::<Version>(r#""v3""#);
    assert!(unknown.contains("unknown variant `v3`"), "{unknown}");
    for negative in [
        r#"{"text":"a","weight":-1}"#,
        r#"{"text":"a","weight":4294967296}"#,
    ] {
        let text = error::<Bucket>(negative);
        assert!(text.contains("invalid value"), "{text}");
    }
}

#[test]
fn a_configuration_has_defaults() {
    let config: RingConfig = serde_json::from_str("{}").unwrap();
    assert_eq!(config, RingConfig::new());
    let json = r#"{"version":"v1","max_points":1000}"#;
    let config: RingConfig = serde_json::from_str(json).unwrap();
    assert_eq!(config, RingConfig::new().max_points(1000));
    assert_eq!(serde_json::to_string(&config).unwrap(), json);
}

#[cfg(feature = "v2")]
#[test]
fn v2_is_written_with_its_points() {
    let json = r#"{"version":{"v2":{"point_multiple":10}},"max_points":1000}"#;
    let config: RingConfig = serde_json::from_str(json).unwrap();
    let point_multiple = 10.try_into().unwrap();
    assert_eq!(config.version, Version::V2 { point_multiple });
    assert_eq!(serde_json::to_string(&config).unwrap(), json);
    let zero = error::<Version>(r#"{"v2":{"point_multiple":0}}"#);
    assert!(zero.contains("expected a nonzero u32"), "{zero}");
    let more = error::<Version>(r#"{"v2":{"point_multiple":1,"points":2}}"#);
    assert!(more.contains("unknown field `points`"), "{more}");
}

#[cfg(not(feature = "v2"))]
#[test]
fn v2_without_its_feature_is_an_error_that_names_it() {
    let text = error::<RingConfig>(r#"{"version":{"v2":{"point_multiple":10}}}"#);
    assert!(text.contains("needs the Cargo feature `v2`"), "{text}");
}
