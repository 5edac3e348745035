//! A server goes down and comes back; only its own keys move, and they come home.
//!
//! ```text
//! cargo run -p ketama --example failover
//! ```
#![expect(clippy::print_stdout, reason = "what the example is for")]

use std::error::Error;

use ketama::{Bucket, Continuum};

fn main() -> Result<(), Box<dyn Error>> {
    let ring = Continuum::new(&[
        Bucket::new("192.0.2.1:80".parse()?, 1),
        Bucket::new("192.0.2.2:80".parse()?, 1),
        Bucket::new("192.0.2.3:80".parse()?, 2),
    ])?;
    println!("{ring}");

    let keys: Vec<String> = (0..10).map(|user| format!("user-{user}")).collect();
    let calm = owners(&ring, &keys, None);
    let down = "192.0.2.3:80";
    let failing = owners(&ring, &keys, Some(down));
    let back = owners(&ring, &keys, None);

    println!("{:<8} {:<14} {:<14} then", "key", "all up", "no .3");
    for (((key, calm), failing), back) in keys.iter().zip(&calm).zip(&failing).zip(&back) {
        let moved = if calm == failing { "" } else { "moved" };
        println!("{key:<8} {calm:<14} {failing:<14} {back} {moved}");
        // Membership makes the ring; health is a filter on the way along it.
        assert!(calm == down || calm == failing);
        assert_eq!(calm, back);
    }
    Ok(())
}

/// For each key the first server in its failover order that is up.
fn owners(ring: &Continuum, keys: &[String], down: Option<&str>) -> Vec<String> {
    keys.iter()
        .filter_map(|key| {
            ring.nodes(key.as_bytes())
                .map(Bucket::text)
                .find(|&text| Some(text) != down)
        })
        .map(str::to_owned)
        .collect()
}
