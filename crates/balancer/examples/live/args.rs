//! The command line.

use std::time::SystemTime;

use lexopt::Arg::{Long, Short};
use lexopt::ValueExt;

use crate::{libmemcached, nginx, twemproxy};

/// What is to be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Args {
    pub(crate) seed: u64,
    /// Of `SYSTEM/SCENARIO/POOL`, as much as was given.
    only: Only,
    pub(crate) help: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Only {
    system: Option<String>,
    scenario: Option<String>,
    pool: Option<usize>,
}

impl Args {
    pub(crate) fn parse(mut arguments: lexopt::Parser) -> Result<Self, lexopt::Error> {
        let mut args = Self {
            seed: a_seed(),
            only: Only::default(),
            help: false,
        };
        while let Some(argument) = arguments.next()? {
            match argument {
                Long("seed") => args.seed = arguments.value()?.parse()?,
                Long("only") => args.only = Only::parse(&arguments.value()?.string()?)?,
                Long("help") | Short('h') => args.help = true,
                other => return Err(other.unexpected()),
            }
        }
        Ok(args)
    }

    pub(crate) fn wants_system(&self, system: &str) -> bool {
        self.only
            .system
            .as_deref()
            .is_none_or(|only| only == system)
    }

    pub(crate) fn wants(&self, system: &str, scenario: &str) -> bool {
        let only = self.only.scenario.as_deref();
        self.wants_system(system) && only.is_none_or(|only| only == scenario)
    }

    pub(crate) fn wants_pool(&self, pool: usize) -> bool {
        self.only.pool.is_none_or(|only| only == pool)
    }
}

impl Only {
    fn parse(text: &str) -> Result<Self, lexopt::Error> {
        let mut words = text.splitn(3, '/').map(str::to_owned);
        let only = Self {
            system: words.next(),
            scenario: words.next(),
            pool: words
                .next()
                .map(|pool| pool.parse())
                .transpose()
                .map_err(|error| format!("--only {text}: the number of the pool: {error}"))?,
        };
        let systems = [nginx::SYSTEM, libmemcached::SYSTEM, twemproxy::SYSTEM];
        if systems
            .iter()
            .any(|system| only.system.as_deref() == Some(system))
        {
            return Ok(only);
        }
        Err(format!("--only {text}: not one of {}", systems.join(", ")).into())
    }
}

/// Another one each time, short enough to be typed.
fn a_seed() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| {
        u64::from(since.subsec_nanos()) ^ since.as_secs() << 16
    }) % 1_000_000_000
}

pub(crate) const USAGE: &str = "\
usage: cargo xtask compat --live [--install] [--seed N] [--only SYSTEM[/SCENARIO[/POOL]]]

Starts nginx, libmemcached and twemproxy, makes up random pools, weights and keys, and compares
each decision of theirs with ours.

  --install   gets what is missing with apt-get, as root
  --seed N    the pools and keys of this seed, instead of new ones
  --only ...  one system, one scenario of it, or one pool of that

A server that is missing is skipped, unless REQUIRE_SERVERS is set. The exit status is 0 if all
decisions agree, 1 if one differs, and 2 if something cannot be asked.";

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Args, lexopt::Error> {
        Args::parse(lexopt::Parser::from_args(line.split_whitespace()))
    }

    #[test]
    fn only_what_is_named_is_wanted() {
        let all = parse("").unwrap();
        assert!(all.wants("nginx", "hash") && all.wants_pool(7));
        let one = parse("--seed 5 --only nginx/hash/3").unwrap();
        assert_eq!(one.seed, 5);
        assert!(one.wants("nginx", "hash") && one.wants_pool(3));
        assert!(!one.wants("nginx", "random") && !one.wants("twemproxy", "hash"));
        assert!(!one.wants_pool(2));
        let system = parse("--only twemproxy").unwrap();
        assert!(system.wants_system("twemproxy") && !system.wants_system("nginx"));
    }

    #[test]
    fn mistakes_are_named() {
        for (line, words) in [
            (
                "--only apache",
                "--only apache: not one of nginx, libmemcached",
            ),
            (
                "--only nginx/hash/x",
                "--only nginx/hash/x: the number of the pool",
            ),
            ("--sed 1", "invalid option '--sed'"),
        ] {
            let error = parse(line).unwrap_err().to_string();
            assert!(error.starts_with(words), "{line}: {error}");
        }
    }
}
