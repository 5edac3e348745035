//! What a change of a pool will move, exactly, before it is made.
//!
//! ```text
//! cargo run -p ketama --example plan_change -- \
//!     10.0.0.1:80 10.0.0.2:80=2 10.0.0.3:80 --add 10.0.0.4:80 --weight 10.0.0.1:80=3
//! ```
//!
//! Servers are written as in nginx, with `=WEIGHT` behind them unless the weight is 1. The changes
//! `--add SERVER[=WEIGHT]`, `--remove SERVER` and `--weight SERVER=WEIGHT` are made in their order.
#![expect(clippy::print_stdout, reason = "what the example is for")]

use std::error::Error;

use ketama::{Bucket, Change, Continuum};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (mut pool, mut changes) = (Vec::new(), Vec::new());
    while let Some(argument) = arguments.next() {
        let mut operand = || {
            arguments
                .next()
                .ok_or_else(|| format!("{argument} needs a server"))
        };
        match argument.as_str() {
            "--add" => changes.push(Change::Add(bucket(&operand()?)?)),
            "--remove" => changes.push(Change::Remove(operand()?.into())),
            "--weight" => {
                let bucket = bucket(&operand()?)?;
                changes.push(Change::SetWeight(bucket.text().into(), bucket.weight()));
            }
            _ if argument.starts_with("--") => return Err(format!("no option {argument}").into()),
            server => pool.push(bucket(server)?),
        }
    }
    let before = Continuum::new(&pool)?;
    let after = before.applied(&changes)?;
    print_shares(&before, &after);
    print_moves(&before, &after);
    Ok(())
}

/// `SERVER` or `SERVER=WEIGHT`.
fn bucket(argument: &str) -> Result<Bucket, Box<dyn Error>> {
    let (text, weight) = match argument.rsplit_once('=') {
        Some((text, weight)) => {
            let number = weight.parse();
            (
                text,
                number.map_err(|error| format!("weight {weight:?}: {error}"))?,
            )
        }
        None => (argument, 1),
    };
    Ok(Bucket::from_text(text, weight))
}

fn print_shares(before: &Continuum, after: &Continuum) {
    println!("before: {before}");
    println!("after:  {after}");
    println!("\n{:<24} {:>17} {:>17}", "server", "before", "after");
    let mut texts: Vec<&str> = Vec::new();
    for bucket in before.buckets().iter().chain(after.buckets()) {
        if !texts.contains(&bucket.text()) {
            texts.push(bucket.text());
        }
    }
    let [old, new] = [before, after].map(|ring| (ring.buckets(), ring.shares()));
    for text in texts {
        println!(
            "{text:<24} {:>17} {:>17}",
            cell(&old, text),
            cell(&new, text)
        );
    }
}

/// The weight and the share of all buckets of this text.
fn cell((buckets, shares): &(&[Bucket], Vec<u64>), text: &str) -> String {
    let there = || {
        buckets
            .iter()
            .zip(shares)
            .filter(|(bucket, _)| bucket.text() == text)
    };
    if there().next().is_none() {
        return "-".to_owned();
    }
    let weight: u64 = there().map(|(bucket, _)| u64::from(bucket.weight())).sum();
    let share = there().map(|(_, share)| share).sum();
    format!("w {weight} {:>10}", percent(share))
}

fn print_moves(before: &Continuum, after: &Continuum) {
    let moves = before.diff(after);
    let moved = moves.iter().map(|step| step.length).sum();
    println!(
        "\nmoved: {} of all keys ({moved} of 2^32 places)",
        percent(moved)
    );
    for step in &moves {
        let [from, to] = [step.from, step.to].map(|text| text.unwrap_or("(nobody)"));
        println!("{from:<24} -> {to:<24} {:>10}", percent(step.length));
    }
}

/// Of the circle, to four decimals, rounded down.
fn percent(places: u64) -> String {
    let millionths = u128::from(places) * 1_000_000 / u128::from(Continuum::CIRCLE);
    format!("{}.{:04} %", millionths / 10_000, millionths % 10_000)
}
