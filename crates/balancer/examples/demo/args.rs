//! The command line.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use lexopt::Arg::{Long, Short};
use lexopt::ValueExt;

/// What is to be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Args {
    pub(crate) backends: usize,
    /// Of load, all acts together.
    pub(crate) seconds: u64,
    /// One act each.
    pub(crate) algorithms: Vec<Algorithm>,
    pub(crate) output: Output,
    pub(crate) help: bool,
}

/// The algorithms that the demo can show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Algorithm {
    Consistent,
    Fnv,
    RoundRobin,
    Random,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Output {
    Text,
    Json,
}

impl Args {
    pub(crate) fn parse(mut arguments: lexopt::Parser) -> Result<Self, lexopt::Error> {
        let mut args = Self::default();
        while let Some(argument) = arguments.next()? {
            match argument {
                Long("backends") => args.backends = number(&mut arguments, "backends", BACKENDS)?,
                Long("seconds") => args.seconds = number(&mut arguments, "seconds", SECONDS)?,
                Long("algorithm") => {
                    let name = arguments.value()?.string()?;
                    args.algorithms = vec![Algorithm::parse(&name)?];
                }
                Long("json") => args.output = Output::Json,
                Long("help") | Short('h') => args.help = true,
                other => return Err(other.unexpected()),
            }
        }
        Ok(args)
    }
}

impl Default for Args {
    fn default() -> Self {
        Self {
            backends: 4,
            seconds: 12,
            algorithms: vec![Algorithm::Consistent, Algorithm::RoundRobin],
            output: Output::Text,
            help: false,
        }
    }
}

impl Algorithm {
    fn parse(text: &str) -> Result<Self, lexopt::Error> {
        ALGORITHMS
            .into_iter()
            .find(|algorithm| algorithm.name() == text)
            .ok_or_else(|| {
                let names = ALGORITHMS.map(Self::name).join(", ");
                format!("--algorithm {text}: there is no such algorithm; there are {names}").into()
            })
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Consistent => "consistent",
            Self::Fnv => "fnv",
            Self::RoundRobin => "round_robin",
            Self::Random => "random",
        }
    }

    pub(crate) fn about(self) -> &'static str {
        match self {
            Self::Consistent => "the ring; the key is the request path",
            Self::Fnv => "the weighted table by the hash of the request path",
            Self::RoundRobin => "the weighted table in turn",
            Self::Random => "the weighted table by chance",
        }
    }

    /// Whether a key has an owner at all.
    pub(crate) fn hashes(self) -> bool {
        matches!(self, Self::Consistent | Self::Fnv)
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

fn number<T>(
    arguments: &mut lexopt::Parser,
    flag: &str,
    range: RangeInclusive<T>,
) -> Result<T, lexopt::Error>
where
    T: FromStr + PartialOrd + fmt::Display,
{
    let text = arguments.value()?.string()?;
    text.parse()
        .ok()
        .filter(|number| range.contains(number))
        .ok_or_else(|| {
            let (from, to) = (range.start(), range.end());
            format!("--{flag} {text}: must be a whole number from {from} to {to}").into()
        })
}

pub(crate) const USAGE: &str = "\
usage: cargo xtask demo [--backends N] [--seconds S] [--algorithm NAME] [--json]

Real HTTP backends, a reverse proxy and a load of keep-alive clients on loopback. While it runs,
one backend dies and comes back, one answers 500 for a while, the list of backends is edited (with
a mistake, then without), one is added and one is drained.

  --backends N      backends at the start, 3 to 32 (default 4)
  --seconds S       of load, all acts together, 2 to 60 (default 12)
  --algorithm NAME  consistent, fnv, round_robin or random (default: consistent, then round_robin)
  --json            one JSON object a line: the events as they happen, then a report an act

The exit status is 0 if all held, 1 if a request failed, a backend that was out answered, a promise
about starting, draining or the list was broken, or (with `consistent`) a key moved between two
backends that stayed, and 2 for a wrong argument.";

const ALGORITHMS: [Algorithm; 4] = [
    Algorithm::Consistent,
    Algorithm::Fnv,
    Algorithm::RoundRobin,
    Algorithm::Random,
];

/// One fails for a while, one dies, and one is drained. Answers are noted as bits of a u64.
const BACKENDS: RangeInclusive<usize> = 3..=32;

const SECONDS: RangeInclusive<u64> = 2..=60;

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Args, lexopt::Error> {
        Args::parse(lexopt::Parser::from_args(line.split_whitespace()))
    }

    #[test]
    fn flags_and_defaults() {
        assert_eq!(parse("").unwrap(), Args::default());
        let expected = Args {
            backends: 32,
            seconds: 2,
            algorithms: vec![Algorithm::Fnv],
            output: Output::Json,
            help: false,
        };
        let line = "--backends 32 --seconds=2 --algorithm fnv --json";
        assert_eq!(parse(line).unwrap(), expected);
    }

    #[test]
    fn mistakes_name_the_value_and_the_range() {
        for (line, words) in [
            (
                "--backends 2",
                "--backends 2: must be a whole number from 3 to 32",
            ),
            (
                "--backends 33",
                "--backends 33: must be a whole number from 3 to 32",
            ),
            (
                "--seconds 1.5",
                "--seconds 1.5: must be a whole number from 2 to 60",
            ),
            (
                "--seconds -3",
                "--seconds -3: must be a whole number from 2 to 60",
            ),
            (
                "--algorithm Ring",
                "--algorithm Ring: there is no such algorithm; there are consi",
            ),
            ("--seconds", "missing argument for option '--seconds'"),
            ("--verbose", "invalid option '--verbose'"),
            ("5", "unexpected argument \"5\""),
            (
                "--json=no",
                "unexpected argument for option '--json': \"no\"",
            ),
        ] {
            let error = parse(line).unwrap_err().to_string();
            assert!(error.starts_with(words), "{line}: {error}");
        }
    }
}
