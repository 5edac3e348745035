//! A reverse proxy: HTTP/1.1 in, a backend chosen by the request path, HTTP/1.1 out.
//!
//! ```text
//! cargo run -p balancer --example reverse_proxy -- 127.0.0.1:8080 10.0.0.1:80 10.0.0.2:80=3
//! ```
//!
//! listens on the first address and shares the paths 1 to 3 between the others.
//!
//! What is worth copying:
//!
//! - `attempts` gives the next backend when one fails, and never the same twice.
//! - A request that may have been carried out is sent again only if its method is idempotent, and
//!   only if its body was small enough to be kept.
//! - An answer of 500, 502, 503 or 504 is a failure too. It is passed on if no other backend may be
//!   asked.
//! - The pick lives in the response body, so the request counts as in flight until its last byte,
//!   and how it ended is told to the balancer: backends on which requests fail are put aside.
//! - Bodies stream in both directions; nothing but the small request bodies is held in memory.
//!
//! It speaks no HTTP/2 and passes on no `Upgrade`.
#![forbid(unsafe_code)]
#![expect(
    clippy::disallowed_methods,
    reason = "a program, not the library: it spawns its own background task"
)]

#[path = "reverse_proxy/proxy.rs"]
mod proxy;

use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;

use balancer::{Backend, Consecutive, LoadBalancer, Options, Passive, Static, TcpCheck};
use selection::Consistent;
use tokio::net::TcpListener;

use crate::proxy::Proxy;

fn main() -> Result<(), Box<dyn Error>> {
    let mut addrs = std::env::args().skip(1);
    let listen: SocketAddr = addrs.next().ok_or(USAGE)?.parse()?;
    let backends: Vec<_> = addrs.map(|text| backend(&text)).collect::<Result<_, _>>()?;
    if backends.is_empty() {
        return Err(USAGE.into());
    }
    tokio::runtime::Runtime::new()?.block_on(run(listen, backends))
}

/// `ADDRESS` or `ADDRESS=WEIGHT`.
fn backend(text: &str) -> Result<Backend, Box<dyn Error>> {
    let (addr, weight) = text.split_once('=').unwrap_or((text, "1"));
    let addr: SocketAddr = addr.parse()?;
    Ok(Backend::new(addr).with_weight(weight.parse()?))
}

async fn run(listen: SocketAddr, backends: Vec<Backend>) -> Result<(), Box<dyn Error>> {
    let passive = Passive::Consecutive(Consecutive::default());
    let balancer = LoadBalancer::<Consistent>::builder(Static::new(backends), Default::default())
        .options(Options::default().passive(passive))
        .health_check(TcpCheck::new())
        .build()?;
    let balancer = Arc::new(balancer);
    balancer.update().await?;
    let checks = tokio::spawn(Arc::clone(&balancer).run(std::future::pending()));
    let listener = TcpListener::bind(listen).await?;
    Proxy::new(balancer).serve(listener, interrupted()).await;
    checks.abort();
    Ok(())
}

/// Completes on Ctrl-C, or never where it cannot be caught.
async fn interrupted() {
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending().await
    }
}

const USAGE: &str = "usage: reverse_proxy LISTEN BACKEND[=WEIGHT]...";

#[cfg(test)]
#[path = "reverse_proxy/tests.rs"]
mod tests;
