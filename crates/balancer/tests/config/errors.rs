//! What is refused, with the path to the key, the value and the limit.

use balancer::selection::Selector;
#[cfg(unix)]
use balancer::{Address, Backend};
use balancer::{ConfigError, LoadBalancer, PoolConfig};

use crate::support::fault;

/// Every row: TOML, the same in JSON, the key, and what the message says.
const REFUSED: &[(&str, &str, &str, &[&str])] = &[
    (
        "update_intervall = '1s'",
        r#""update_intervall": "1s""#,
        "update_intervall",
        &["unknown field `update_intervall`", "`update_interval`"],
    ),
    (
        "update_interval = 10",
        r#""update_interval": 10"#,
        "update_interval",
        &["invalid type: integer `10`, expected a string"],
    ),
    (
        "update_interval = '10'",
        r#""update_interval": "10""#,
        "update_interval",
        &["\"10\", expected whole numbers with units (d, h, m, s, ms, us, ns)"],
    ),
    (
        "update_interval = '0ms'",
        r#""update_interval": "0ms""#,
        "update_interval",
        &["\"0s\", expected a time longer than zero"],
    ),
    (
        "panic_threshold = 101",
        r#""panic_threshold": 101"#,
        "panic_threshold",
        &["integer `101`, expected a percentage, 0 to 100"],
    ),
    (
        "panic_threshold = 300",
        r#""panic_threshold": 300"#,
        "panic_threshold",
        &["integer `300`, expected a percentage, 0 to 100"],
    ),
    (
        "min_backends = -1",
        r#""min_backends": -1"#,
        "min_backends",
        &["integer `-1`"],
    ),
    (
        "min_backends = 3",
        r#""min_backends": 3"#,
        "min_backends",
        &["is 3, and there are 2 backends and no others to find"],
    ),
    (
        "order = 'random'",
        r#""order": "random""#,
        "order",
        &["`random`", "`address` or `listed`"],
    ),
    (
        "admin = {'10.0.0.9:80' = 'drain'}",
        r#""admin": {"10.0.0.9:80": "drain"}"#,
        "admin.10.0.0.9:80",
        &["is none of the backends"],
    ),
    (
        "admin = {'10.0.0.1:80' = 'off'}",
        r#""admin": {"10.0.0.1:80": "off"}"#,
        "admin.10.0.0.1:80",
        &["`off`", "`enabled`, `drain`, `disabled`"],
    ),
    (
        "slow_start = {start_percent = 5}",
        r#""slow_start": {"start_percent": 5}"#,
        "slow_start",
        &["missing field `window`"],
    ),
    (
        "slow_start = {window = '10s', start_percent = 0}",
        r#""slow_start": {"window": "10s", "start_percent": 0}"#,
        "slow_start.start_percent",
        &["integer `0`, expected a percentage, 1 to 100"],
    ),
    (
        "health.active = {parallel = 0}",
        r#""health": {"active": {"parallel": 0}}"#,
        "health.active.parallel",
        &["integer `0`, expected 1 and more"],
    ),
    (
        "health.active = {jitter = 101}",
        r#""health": {"active": {"jitter": 101}}"#,
        "health.active.jitter",
        &["integer `101`, expected a percentage, 0 to 100"],
    ),
    (
        "health.active = {rise = 4294967296}",
        r#""health": {"active": {"rise": 4294967296}}"#,
        "health.active.rise",
        &["integer `4294967296`, expected u32"],
    ),
    (
        "health.active.tcp = {}",
        r#""health": {"active": {"tcp": {}}}"#,
        "health.active.tcp",
        &["unknown field `tcp`", "`http`"],
    ),
    (
        "health.passive = {max_fails = {max_fails = 1, window = '1s'}}",
        r#""health": {"passive": {"max_fails": {"max_fails": 1, "window": "1s"}}}"#,
        "health.passive.max_fails.window",
        &["unknown field `window`", "`fail_timeout`"],
    ),
    (
        "health.passive = {consecutive = {max_ejection_percent = 200}}",
        r#""health": {"passive": {"consecutive": {"max_ejection_percent": 200}}}"#,
        "health.passive.consecutive.max_ejection_percent",
        &["integer `200`, expected a percentage, 0 to 100"],
    ),
    (
        "health.passive = 'nginx'",
        r#""health": {"passive": "nginx"}"#,
        "health.passive",
        &["`nginx`", "`off`, `max_fails`, `consecutive`"],
    ),
    (
        "health.initial = 'unhealthy'",
        r#""health": {"initial": "unhealthy"}"#,
        "health.initial",
        &["applies only with `health.active`"],
    ),
    (
        "algorithm = 'swrr'",
        r#""algorithm": "swrr""#,
        "algorithm",
        &["`swrr`", "`smooth_round_robin`"],
    ),
    (
        "algorithm = {algorithm = 'least_conn', balance_factor = 150}",
        r#""algorithm": {"algorithm": "least_conn", "balance_factor": 150}"#,
        "algorithm.balance_factor",
        &["unknown field `balance_factor`"],
    ),
    (
        "algorithm = {algorithm = 'consistent', balance_factor = 'big'}",
        r#""algorithm": {"algorithm": "consistent", "balance_factor": "big"}"#,
        "algorithm.balance_factor",
        &["string \"big\", expected u32"],
    ),
    (
        "algorithm = {algorithm = 'consistent', balance_factor = 100}",
        r#""algorithm": {"algorithm": "consistent", "balance_factor": 100}"#,
        "algorithm",
        &["100"],
    ),
    (
        "algorithm = {algorithm = 'round_robin', seed = 1}",
        r#""algorithm": {"algorithm": "round_robin", "seed": 1}"#,
        "algorithm",
        &["field `seed` applies only with `start` = `random`"],
    ),
    (
        "discovery = [{consul = {}}]",
        r#""discovery": [{"consul": {}}]"#,
        "discovery[0]",
        &[
            "unknown variant `consul`",
            "`static`, `file`, `dns`, `etcd`",
        ],
    ),
    (
        "discovery = [{static = [{addr = '10.0.0.1'}]}]",
        r#""discovery": [{"static": [{"addr": "10.0.0.1"}]}]"#,
        "discovery[0].static[0].addr",
        &["\"10.0.0.1\" is neither an IP address with a port nor `unix:` and a path"],
    ),
];

const BACKENDS: [&str; 2] = [
    "\nbackends = [{addr = '10.0.0.1:80'}, {addr = '10.0.0.2:80'}]",
    r#", "backends": [{"addr": "10.0.0.1:80"}, {"addr": "10.0.0.2:80"}]"#,
];

#[test]
fn what_is_wrong_is_named_with_its_path() {
    check(REFUSED);
}

fn check(rows: &[(&str, &str, &str, &[&str])]) {
    for (toml, json, key, expected) in rows {
        let toml = PoolConfig::from_toml(&format!("{toml}{}", BACKENDS[0]));
        let json = PoolConfig::from_json(&format!("{{{json}{}}}", BACKENDS[1]));
        for error in [toml, json].map(Result::unwrap_err) {
            let text = error.to_string();
            assert_eq!(error.key, *key, "{text}");
            for part in *expected {
                assert!(error.message.contains(part), "{text}\nhas no {part:?}");
            }
        }
    }
}

#[test]
fn lines_are_counted() {
    let toml = "algorithm = 'random'\n\n[[backends]]\naddr = '10.0.0.1:80'\nweight = -2\n";
    let error = PoolConfig::from_toml(toml).unwrap_err();
    assert_eq!((error.line, error.column), (Some(5), Some(10)));
    assert!(error.to_string().starts_with("5:10: backends[0].weight: "));

    let json = "{\n  \"backends\": [\n    {\"addr\": \"10.0.0.1:80\", \"weigth\": 2}\n  ]\n}";
    let error = PoolConfig::from_json(json).unwrap_err();
    assert_eq!(
        (error.line, error.key.as_str()),
        (Some(3), "backends[0].weigth")
    );

    for (error, line) in [
        (
            PoolConfig::from_toml("order = 'address'\nbackends = [").unwrap_err(),
            2,
        ),
        (PoolConfig::from_json("{\n\"backends\": [").unwrap_err(), 2),
    ] {
        assert_eq!((error.line, error.key.as_str()), (Some(line), ""));
    }
}

#[test]
fn a_pool_of_nobody_is_refused() {
    for error in [PoolConfig::from_toml(""), PoolConfig::from_json("{}")] {
        let error = error.unwrap_err();
        assert_eq!(
            fault(&error),
            "backends: there are none, and no `discovery`: such a pool stays empty"
        );
    }
    let error = LoadBalancer::<dyn Selector>::from_config(PoolConfig::default()).unwrap_err();
    assert!(matches!(error, ConfigError::Invalid { key, .. } if key == "backends"));
}

/// What was set in code is checked as what was read.
#[test]
fn a_config_made_in_code_is_checked() {
    let mut config = PoolConfig::from_toml(BACKENDS[0]).unwrap();
    config.panic_threshold = 101;
    let error = LoadBalancer::<dyn Selector>::from_config(config).unwrap_err();
    assert_eq!(
        error.to_string(),
        "panic_threshold is 101, the limits are 0 to 100"
    );
}

#[cfg(not(feature = "http"))]
#[test]
fn http_checks_ask_for_their_feature() {
    check(&[(
        "health.active.http = {path = '/'}",
        r#""health": {"active": {"http": {"path": "/"}}}"#,
        "health.active.http",
        &["needs the Cargo feature `http` of the crate `balancer`"],
    )]);
}

#[cfg(feature = "http")]
#[test]
fn http_checks_are_checked() {
    check(&[
        (
            "health.active.http = {path = 'healthz'}",
            r#""health": {"active": {"http": {"path": "healthz"}}}"#,
            "health.active.http.path",
            &["\"healthz\""],
        ),
        (
            "health.active.http = {statuses = [200, '300-200']}",
            r#""health": {"active": {"http": {"statuses": [200, "300-200"]}}}"#,
            "health.active.http.statuses[1]",
            &["\"300-200\", expected a status from 100 to 999, or a range"],
        ),
        (
            "health.active.http = {statuses = [99]}",
            r#""health": {"active": {"http": {"statuses": [99]}}}"#,
            "health.active.http.statuses[0]",
            &["integer `99`, expected a status from 100 to 999"],
        ),
        (
            "health.active.http = {host = \"a\\nb\"}",
            r#""health": {"active": {"http": {"host": "a\nb"}}}"#,
            "health.active.http.host",
            &["\"a\\nb\""],
        ),
        (
            "health.active.http = {port = 70000}",
            r#""health": {"active": {"http": {"port": 70000}}}"#,
            "health.active.http.port",
            &["integer `70000`, expected u16"],
        ),
    ]);
}

#[cfg(not(feature = "file"))]
#[test]
fn files_ask_for_their_feature() {
    check(&[(
        "discovery = [{file = {path = 'a.toml'}}]",
        r#""discovery": [{"file": {"path": "a.toml"}}]"#,
        "discovery[0].file",
        &["needs the Cargo feature `file` of the crate `balancer`"],
    )]);
}

#[cfg(feature = "file")]
#[test]
fn files_are_checked() {
    check(&[
        (
            "discovery = [{file = {path = 'backends'}}]",
            r#""discovery": [{"file": {"path": "backends"}}]"#,
            "discovery[0]",
            &["the name backends ends neither in .toml nor in .json"],
        ),
        (
            "discovery = [{file = {path = 'a.toml', format = 'yaml'}}]",
            r#""discovery": [{"file": {"path": "a.toml", "format": "yaml"}}]"#,
            "discovery[0].file.format",
            &["`yaml`", "`toml` or `json`"],
        ),
    ]);
}

#[cfg(not(feature = "dns"))]
#[test]
fn dns_asks_for_its_feature() {
    check(&[(
        "discovery = [{dns = {host = 'a', port = 80}}]",
        r#""discovery": [{"dns": {"host": "a", "port": 80}}]"#,
        "discovery[0].dns",
        &["needs the Cargo feature `dns` of the crate `balancer`"],
    )]);
}

#[cfg(feature = "dns")]
#[test]
fn dns_is_checked() {
    check(&[
        (
            "discovery = [{dns = {host = 'a'}}]",
            r#""discovery": [{"dns": {"host": "a"}}]"#,
            "discovery[0].dns",
            &["`host` needs `port` beside it"],
        ),
        (
            "discovery = [{dns = {service = '_http._tcp.a', weight = 2}}]",
            r#""discovery": [{"dns": {"service": "_http._tcp.a", "weight": 2}}]"#,
            "discovery[0].dns",
            &["`weight` applies only with `host`"],
        ),
        (
            "discovery = [{dns = {service = '_http._tcp.a', host = 'b'}}]",
            r#""discovery": [{"dns": {"service": "_http._tcp.a", "host": "b"}}]"#,
            "discovery[0].dns",
            &["`service` does not apply beside `host`"],
        ),
        (
            "discovery = [{dns = {port = 80}}]",
            r#""discovery": [{"dns": {"port": 80}}]"#,
            "discovery[0].dns",
            &["neither `host` nor `service` is given"],
        ),
        (
            "discovery = [{dns = {host = 'a', port = 80, servers = ['10.0.0.1']}}]",
            r#""discovery": [{"dns": {"host": "a", "port": 80, "servers": ["10.0.0.1"]}}]"#,
            "discovery[0].dns.servers[0]",
            &["socket address"],
        ),
        (
            "discovery = [{dns = {host = 'a', port = 80, min_ttl = '9m'}}]",
            r#""discovery": [{"dns": {"host": "a", "port": 80, "min_ttl": "9m"}}]"#,
            "discovery[0]",
            &["max_ttl is 300s, less than min_ttl, 540s"],
        ),
    ]);
}

#[cfg(not(feature = "etcd"))]
#[test]
fn etcd_asks_for_its_feature() {
    check(&[(
        "discovery = [{etcd = {prefix = '/a'}}]",
        r#""discovery": [{"etcd": {"prefix": "/a"}}]"#,
        "discovery[0].etcd",
        &["needs the Cargo feature `etcd` of the crate `balancer`"],
    )]);
}

#[cfg(feature = "etcd")]
#[test]
fn etcd_is_checked() {
    check(&[
        (
            "discovery = [{etcd = {prefix = '/a', endpoints = []}}]",
            r#""discovery": [{"etcd": {"prefix": "/a", "endpoints": []}}]"#,
            "discovery[0]",
            &["`endpoints` is empty"],
        ),
        (
            "discovery = [{etcd = {prefix = '/a', endpoints = ['127.0.0.1:2379']}}]",
            r#""discovery": [{"etcd": {"prefix": "/a", "endpoints": ["127.0.0.1:2379"]}}]"#,
            "discovery[0]",
            &["the endpoint \"127.0.0.1:2379\" has no `http://`"],
        ),
        (
            "discovery = [{etcd = {prefix = '', endpoints = ['http://a:2379']}}]",
            r#""discovery": [{"etcd": {"prefix": "", "endpoints": ["http://a:2379"]}}]"#,
            "discovery[0]",
            &["the prefix is empty"],
        ),
    ]);
}

#[cfg(not(feature = "v2"))]
#[test]
fn a_point_multiple_asks_for_its_feature() {
    check(&[(
        "algorithm = {algorithm = 'consistent', point_multiple = 10}",
        r#""algorithm": {"algorithm": "consistent", "point_multiple": 10}"#,
        "algorithm.point_multiple",
        &["needs the Cargo feature `v2`"],
    )]);
}

#[cfg(unix)]
#[test]
fn what_cannot_be_written_is_said() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    let path = OsStr::from_bytes(b"/run/\xfe").to_owned();
    let mut config = PoolConfig::default();
    config.backends = vec![Backend::new(Address::Unix(path.into()))];
    for error in [config.to_toml(), config.to_json()] {
        let error = error.unwrap_err().to_string();
        assert!(error.contains(r#""/run/\xFE" is not UTF-8"#), "{error}");
    }
}
