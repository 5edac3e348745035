//! Ten points instead of 160 place other keys; 160 of them are the ring of V1.

use std::num::NonZeroU32;

use balancer::selection::{Consistent, KetamaConfig};
use balancer::{Address, Backend, LoadBalancer, Static};

fn main() {
    let v1 = first(KetamaConfig::default());
    let moved = |points| {
        let points = NonZeroU32::new(points).unwrap();
        let v2 = first(KetamaConfig::default().point_multiple(points));
        v1.iter().zip(v2).filter(|(v1, v2)| *v1 != v2).count()
    };
    assert!(moved(10) > 1_000, "only {} keys moved", moved(10));
    assert_eq!(moved(160), 0);
}

fn first(config: KetamaConfig) -> Vec<Address> {
    let addresses = [1, 2, 3, 4].map(|n| format!("10.0.0.{n}:80").parse::<Address>().unwrap());
    let backends = Static::new(addresses.map(Backend::new));
    let balancer = LoadBalancer::<Consistent>::with_config(backends, config).unwrap();
    block_on(balancer.update()).unwrap();
    let keys = (0..10_000).map(|n| format!("key-{n}"));
    keys.map(|key| balancer.select(key.as_bytes()).unwrap().addr.clone())
        .collect()
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.unwrap().block_on(future)
}
