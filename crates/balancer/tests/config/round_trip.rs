//! What is written is read back as it was.

use std::time::Duration;

use balancer::config::{ActiveConfig, HealthConfig, Source};
use balancer::selection::{Algorithm, KetamaConfig};
use balancer::{
    Address, Admin, Backend, Consecutive, InitialHealth, MaxFails, Order, Passive, PoolConfig,
    SlowStart,
};
use proptest::prelude::*;

use crate::support::both;

#[test]
fn both_notations_hold_the_same_pool() {
    let config = both(
        r#"
        algorithm = {algorithm = "ip_hash", address = "full", max_fails = 3}
        order = "listed"
        update_interval = "1m"
        min_backends = 2
        panic_threshold = 40
        backends = [
            {addr = "10.0.0.1:80", weight = 3, max_in_flight = 50, ring_name = "a"},
            {addr = "[2001:db8::1]:80", tier = 1},
        ]
        admin = {"10.0.0.1:80" = "disabled"}
        slow_start = {window = "30s"}
        [health.active]
        interval = "1s"
        jitter = 20
        parallel = 4
        timeout = "250ms"
        rise = 1
        fall = 5
        [health.passive.consecutive]
        failures = 3
        base = "5s"
        max = "1m"
        max_ejection_percent = 25
        "#,
        r#"{
        "algorithm": {"max_fails": 3, "address": "full", "algorithm": "ip_hash"},
        "order": "listed", "update_interval": "60s", "min_backends": 2, "panic_threshold": 40,
        "backends": [
            {"addr": "10.0.0.1:80", "weight": 3, "max_in_flight": 50, "ring_name": "a"},
            {"addr": "[2001:db8::1]:80", "tier": 1}
        ],
        "admin": {"10.0.0.1:80": "disabled"},
        "slow_start": {"window": "30s", "start_percent": 10},
        "health": {
            "initial": "healthy",
            "active": {"interval": "1s", "jitter": 20, "parallel": 4, "timeout": "250ms", "rise": 1, "fall": 5},
            "passive": {"consecutive": {"failures": 3, "base": "5s", "max": "60s", "max_ejection_percent": 25}}
        }}"#,
    );
    assert_eq!(config.update_interval, Duration::from_secs(60));
    assert_eq!(config.admin.values().next(), Some(&Admin::Disabled));
    assert_eq!(config.backends[0].ring_name.as_deref(), Some("a"));
    let active = config.health.active.unwrap();
    assert_eq!((active.jitter, active.fall), (20, 5));
    let Passive::Consecutive(rule) = config.health.passive else {
        panic!("not what was written");
    };
    assert_eq!(rule.max, Duration::from_secs(60));
    assert_eq!(
        config.slow_start,
        Some(SlowStart::new(Duration::from_secs(30)))
    );
}

#[test]
fn what_is_left_out_has_its_default() {
    let config = PoolConfig::from_toml("backends = [{addr = '10.0.0.1:80'}]").unwrap();
    let mut expected = PoolConfig::default();
    expected.backends = vec![Backend::new("10.0.0.1:80".parse::<Address>().unwrap())];
    assert_eq!(config, expected);
    assert_eq!(config.algorithm.name(), "smooth_round_robin");
}

fn algorithm() -> impl Strategy<Value = Algorithm> {
    let names = proptest::sample::select(Algorithm::NAMES.to_vec());
    let plain = names.prop_map(|name| name.parse().unwrap());
    let bounded = (101u32..1000, any::<u32>()).prop_map(|(factor, max_fails)| {
        let config = KetamaConfig::default();
        Algorithm::Consistent(config.balance_factor(factor).max_fails(max_fails))
    });
    prop_oneof![plain, bounded]
}

fn backend() -> impl Strategy<Value = Backend> {
    let addr = prop_oneof![
        any::<std::net::SocketAddrV4>().prop_map(|addr| Address::Inet(addr.into())),
        (any::<std::net::Ipv6Addr>(), any::<u16>())
            .prop_map(|(ip, port)| Address::Inet((ip, port).into())),
        "/[a-z:=\"\\\\ ]{1,12}".prop_map(|path| Address::Unix(path.into())),
    ];
    let rest = (
        any::<u32>(),
        any::<u8>(),
        any::<Option<u32>>(),
        any::<Option<String>>(),
    );
    let fails = (any::<Option<u32>>(), any::<Option<Duration>>());
    (addr, rest, fails).prop_map(|(addr, (weight, tier, max, name), fails)| {
        let mut backend = Backend::new(addr).with_weight(weight).with_tier(tier);
        backend.max_in_flight = max;
        (backend.max_fails, backend.fail_timeout) = fails;
        backend.ring_name = name.map(Into::into);
        backend
    })
}

fn time() -> impl Strategy<Value = Duration> {
    prop_oneof![
        any::<Duration>(),
        (1u64..10_000).prop_map(Duration::from_millis)
    ]
    .prop_filter("positive", |time| !time.is_zero())
}

fn passive() -> impl Strategy<Value = Passive> {
    let max_fails = (any::<u32>(), any::<Duration>(), any::<Duration>());
    let consecutive = (any::<u32>(), time(), any::<Duration>(), 0u8..=100);
    prop_oneof![
        Just(Passive::Off),
        max_fails.prop_map(|(fails, timeout, tick)| Passive::MaxFails(
            MaxFails::default()
                .max_fails(fails)
                .fail_timeout(timeout)
                .tick(tick)
        )),
        consecutive.prop_map(|(failures, base, max, percent)| Passive::Consecutive(
            Consecutive::default()
                .failures(failures)
                .base(base)
                .max(max)
                .max_ejection_percent(percent)
        )),
    ]
}

fn active() -> impl Strategy<Value = ActiveConfig> {
    let counts = (0u8..=100, 1usize..1000, any::<u32>(), any::<u32>());
    (time(), time(), counts).prop_map(|(interval, timeout, (jitter, parallel, rise, fall))| {
        let mut active = ActiveConfig::default();
        active.interval = interval;
        active.timeout = timeout;
        active.jitter = jitter;
        active.parallel = parallel;
        active.rise = rise;
        active.fall = fall;
        active
    })
}

fn source() -> impl Strategy<Value = Source> {
    proptest::collection::vec(backend(), 0..3).prop_map(Source::Static)
}

prop_compose! {
    fn health()(active in proptest::option::of(active()), passive in passive()) -> HealthConfig {
        let mut health = HealthConfig::default();
        if active.is_some() {
            health.initial = InitialHealth::Unhealthy;
        }
        health.active = active;
        health.passive = passive;
        health
    }
}

prop_compose! {
    fn pool()(
        name in any::<Option<String>>(),
        algorithm in algorithm(),
        listed in any::<bool>(),
        update_interval in time(),
        panic_threshold in 0u8..=100,
        backends in proptest::collection::vec(backend(), 1..5),
        discovery in proptest::collection::vec(source(), 0..3),
        slow_start in proptest::option::of((time(), 1u8..=100)),
        health in health(),
    ) -> PoolConfig {
        let mut config = PoolConfig::default();
        config.name = name;
        config.algorithm = algorithm;
        if listed {
            config.order = Order::Listed;
        }
        config.update_interval = update_interval;
        config.min_backends = backends.len();
        config.panic_threshold = panic_threshold;
        config.admin = backends.iter().map(|b| (b.addr.clone(), Admin::Drain)).collect();
        config.backends = backends;
        config.discovery = discovery;
        config.slow_start =
            slow_start.map(|(window, percent)| SlowStart::new(window).start_percent(percent));
        config.health = health;
        config
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn pools_are_written_and_read_back(config in pool()) {
        let toml = config.to_toml().unwrap();
        prop_assert_eq!(&PoolConfig::from_toml(&toml).unwrap(), &config, "{}", toml);
        let json = config.to_json().unwrap();
        prop_assert_eq!(&PoolConfig::from_json(&json).unwrap(), &config, "{}", json);
    }
}

#[cfg(all(feature = "http", feature = "file", feature = "dns", feature = "etcd"))]
#[test]
fn sources_and_checks_are_written_and_read_back() {
    let text = r#"
        [[discovery]]
        file = {path = "/etc/backends", format = "json"}
        [[discovery]]
        dns = {host = "a.test.", port = 8080, weight = 3, tier = 1, ring_name = "a.test:8080", max_in_flight = 9, max_fails = 2, fail_timeout = "5s"}
        [[discovery]]
        dns = {service = "_http._tcp.b.test", servers = ["10.0.0.53:53"], family = "v4", timeout = "1s", retries = 0, min_ttl = "2s", max_ttl = "10s", jitter = 0, absent = "empty"}
        [[discovery]]
        etcd = {endpoints = ["http://127.0.0.1:2379"], prefix = "/pool/"}
        [health.active.http]
        path = "/healthz?full=1"
        method = "HEAD"
        host = "a.test"
        statuses = [204, "301-302"]
        contains = "fine"
        max_body = 100
        port = 9000
        reuse_connections = true
    "#;
    let config = PoolConfig::from_toml(text).unwrap();
    let toml = config.to_toml().unwrap();
    assert_eq!(PoolConfig::from_toml(&toml).unwrap(), config, "{toml}");
    let json = config.to_json().unwrap();
    assert_eq!(PoolConfig::from_json(&json).unwrap(), config, "{json}");
    let Source::Dns(dns) = &config.discovery[1] else {
        panic!("not what was written");
    };
    assert_eq!((dns.weight, dns.tier, dns.max_in_flight), (3, 1, Some(9)));
    assert_eq!(
        (dns.max_fails, dns.fail_timeout),
        (Some(2), Some(Duration::from_secs(5)))
    );
    let http = config.health.active.unwrap().http.unwrap();
    assert_eq!(http.statuses[1].0, 301..=302);
    assert!(http.reuse_connections);
}
