//! What the example `import_nginx` makes of nginx configurations, and whether it is the same pool.
#![cfg_attr(
    feature = "serde",
    expect(
        clippy::unwrap_used,
        reason = "a test that cannot set itself up should stop"
    )
)]

mod corpus;
#[cfg(feature = "serde")]
mod decisions;
mod lines;
#[path = "../../examples/import_nginx/nginx/mod.rs"]
mod nginx;
mod page;
#[path = "../../examples/import_nginx/pool.rs"]
mod pool;

/// All pools of a text, or what is refused, as the example prints it.
fn import(text: &str) -> String {
    let upstreams = match nginx::parse(text) {
        Ok(upstreams) => upstreams,
        Err(error) => return format!("{error}\n"),
    };
    let pools = upstreams.iter().map(|upstream| match pool::toml(upstream) {
        Ok(toml) => format!("{toml}\n"),
        Err(refusals) => refusals
            .iter()
            .map(|refusal| format!("{refusal}\n"))
            .collect(),
    });
    pools.collect()
}
