//! Real backends, a real proxy and real load, while the pool changes under them.
//!
//! `cargo xtask demo --help` tells what it does. An act per algorithm, each with its own backends:
//! the `story` lets one backend die and come back, one fail and be mended, adds one and drains one,
//! under the balancer of `pool` and behind the reverse proxy that is the example of that name; the
//! clients of `load` write down in `record` who answered them; `moves` judges whether any key went
//! where it must not, `shown` whether the other promises held; `report` prints it all.
#![forbid(unsafe_code)]
#![expect(
    clippy::disallowed_methods,
    reason = "a program, not the library: it spawns its servers and clients, and reads the clock"
)]

mod args;
mod backend;
mod list;
mod load;
mod moves;
mod pool;
#[path = "../reverse_proxy/proxy.rs"]
mod proxy;
mod record;
mod report;
mod shown;
mod story;
mod tell;

use std::error::Error;
use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;

use crate::args::{Algorithm, Args, USAGE};
use crate::report::Report;
use crate::story::Plan;
use crate::tell::Teller;

/// Why the demo cannot go on.
type Failure = Box<dyn Error + Send + Sync>;

fn main() -> ExitCode {
    let args = match Args::parse(lexopt::Parser::from_env()) {
        Ok(args) => args,
        Err(mistake) => return complain(&mistake, WRONG_ARGUMENT),
    };
    match run(&args) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(failure) => complain(&failure, 1),
    }
}

/// Runs what is asked for; returns whether all held.
fn run(args: &Args) -> Result<bool, Failure> {
    if args.help {
        writeln!(io::stdout(), "{USAGE}")?;
        return Ok(true);
    }
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?
        .block_on(acts(args))
}

async fn acts(args: &Args) -> Result<bool, Failure> {
    let mut teller = Teller::new(args.output, io::stdout());
    let mut good = true;
    for &algorithm in &args.algorithms {
        let plan = Plan::new(args, algorithm);
        let report = act(&plan, &mut teller).await?;
        good &= report.is_good();
        teller.report(&report)?;
    }
    teller.verdict(good)?;
    Ok(good)
}

async fn act(plan: &Plan, teller: &mut Teller) -> Result<Report, Failure> {
    match plan.algorithm {
        Algorithm::Consistent => story::act::<selection::Consistent>(plan, teller).await,
        Algorithm::Fnv => story::act::<selection::FNVHash>(plan, teller).await,
        Algorithm::RoundRobin => story::act::<selection::RoundRobin>(plan, teller).await,
        Algorithm::Random => story::act::<selection::Random>(plan, teller).await,
    }
}

fn complain(what: &dyn fmt::Display, status: u8) -> ExitCode {
    // Where standard error is closed there is nobody to tell.
    writeln!(io::stderr(), "demo: {what}").ok();
    ExitCode::from(status)
}

const WRONG_ARGUMENT: u8 = 2;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::args::Output;
    use crate::moves::Violation;

    fn plan(algorithm: Algorithm) -> Plan {
        Plan {
            algorithm,
            backends: 3,
            keys: 300,
            phase: Duration::from_millis(100),
        }
    }

    fn silent() -> Teller {
        Teller::new(Output::Text, io::sink())
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn no_request_fails_and_the_ring_keeps_its_keys() {
        let report = act(&plan(Algorithm::Consistent), &mut silent())
            .await
            .unwrap();
        assert!(report.is_good(), "{report}");
        assert_eq!(report.failed, 0, "{report}");
        assert_eq!(report.connections, report.clients, "kept alive");

        let shown = &report.shown;
        assert!(shown.failed_at_backend >= 3, "three failures eject");
        assert!(shown.starting.0 >= 3, "checks came while it started");
        assert_eq!(shown.starting.1, 0, "requests did not");
        let eased: Vec<_> = shown.slow_starts.iter().map(|it| it.backend).collect();
        assert_eq!(eased, [1, 0, 3], "back, mended, added");
        let (list, key) = ("backends.toml:7:1: ", "weigth");
        assert!(shown.refused_list.contains(list), "{}", shown.refused_list);
        assert!(shown.refused_list.contains(key), "{}", shown.refused_list);
        assert_eq!(shown.members, (3, 3), "the broken list changed nothing");
        assert!(shown.draining[0] >= 3, "{:?}", shown.draining);
        assert_eq!(shown.draining.last(), Some(&0));
        assert!(shown.draining.is_sorted_by(|before, after| before > after));
        assert!(shown.late <= shown.draining[0].into(), "nothing new");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn no_request_fails_by_turns() {
        let report = act(&plan(Algorithm::RoundRobin), &mut silent())
            .await
            .unwrap();
        assert!(report.is_good(), "{report}");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_table_that_passes_for_a_ring_is_caught() {
        let plan = plan(Algorithm::Consistent);
        let report = story::act::<selection::FNVHash>(&plan, &mut silent())
            .await
            .unwrap();
        assert_eq!(report.failed, 0, "{report}");
        assert!(report.violations.iter().any(Violation::is_move), "{report}");
        assert!(!report.is_good());
    }
}
