//! A ring of another program places other keys.

use balancer::selection::ketama::{Scheme, SchemeConfig};
use balancer::selection::{Consistent, KetamaConfig};
use balancer::{Address, Backend, LoadBalancer, Static};

fn main() {
    let nginx = first(KetamaConfig::default());
    let libketama = SchemeConfig::new(Scheme::LibKetama);
    let libketama = first(KetamaConfig::default().scheme(libketama));
    assert!(nginx.iter().zip(libketama).filter(|(a, b)| *a != b).count() > 1_000);
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
