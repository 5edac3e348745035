//! Many picks through balancers with default configs, as digests: equal whatever features are on.

use balancer::selection::{Build, Consistent, FNVHash, RoundRobin};
use balancer::{Address, Backend, LoadBalancer, Static};

fn main() {
    picks::<Consistent>("consistent");
    picks::<FNVHash>("fnv");
    picks::<RoundRobin>("round_robin");
}

fn picks<S: Build>(name: &str) {
    let backends = (0..50u32).map(|n| {
        let address: Address = format!("10.0.0.{n}:80").parse().unwrap();
        Backend::new(address).with_weight(n % 6)
    });
    let balancer = LoadBalancer::<S>::new(Static::new(backends)).unwrap();
    block_on(balancer.update()).unwrap();
    let mut digest = Digest::new();
    for n in 0..20_000 {
        let key = format!("key-{n}").repeat(n % 5);
        let pick = balancer.select(key.as_bytes()).unwrap();
        digest.add(pick.addr.to_string().as_bytes());
    }
    println!("{name} {:x}", digest.0);
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.unwrap().block_on(future)
}
