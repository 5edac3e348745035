//! libmemcached: the library itself, through a small program in C that is compiled on the spot.

use std::fs;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Instant;

use balancer::selection::ketama::{Bucket, Continuum, KeyHash, PointNames, Scheme, SchemeConfig};

use crate::Error;
use crate::args::Args;
use crate::namespace::Namespace;
use crate::process::{Folder, said};
use crate::random::Random;
use crate::report::{Outcome, Place, Row, Tally};
use crate::weights::weights;

/// Asks libmemcached whatever `args` let through.
pub(crate) fn run(args: &Args, folder: &Folder, _: Namespace) -> Result<Vec<Row>, Error> {
    let row = |version: &str, scenario: &str, result| Row {
        system: SYSTEM,
        version: version.to_owned(),
        scenario: scenario.to_owned(),
        result,
    };
    if let Some(what) = missing(folder)? {
        return Ok(vec![row("-", "all", Outcome::Missing(what))]);
    }
    let mut rows = Vec::new();
    for &(name, make) in SCENARIOS
        .iter()
        .filter(|(name, _)| args.wants(SYSTEM, name))
    {
        let began = Instant::now();
        let mut tally = Tally::default();
        let mut version = String::new();
        for pool in (0..POOLS).filter(|&pool| args.wants_pool(pool)) {
            let place = Place {
                seed: args.seed,
                system: SYSTEM,
                scenario: name,
                pool,
            };
            let questions = make(&mut Random::new(args.seed, &place.stream()))?;
            version = compare(folder, &place, &questions, &mut tally)?;
        }
        let took = began.elapsed();
        if tally.decisions == 0 {
            continue;
        }
        rows.push(row(&version, name, Outcome::Asked { tally, took }));
    }
    Ok(rows)
}

/// What is asked, and what we say to it.
struct Questions {
    /// For the C program, before the questions.
    setup: String,
    /// One line and our answer each.
    lines: Vec<(String, Option<u32>)>,
}

/// Compiles the program; returns what is not installed, if it cannot be.
fn missing(folder: &Folder) -> Result<Option<&'static str>, Error> {
    if said("gcc", &["--version"]).is_none() {
        return Ok(Some("gcc"));
    }
    fs::write(folder.path().join("probe.c"), PROBE)?;
    let output = Command::new("gcc")
        .args([
            "-O1",
            "-Wall",
            "-Wextra",
            "probe.c",
            "-o",
            "probe",
            "-lmemcached",
        ])
        .current_dir(folder.path())
        .output()?;
    let told = String::from_utf8_lossy(&output.stderr);
    match output.status.success() {
        true => Ok(None),
        false if told.contains("memcached.h: No such file") => Ok(Some("libmemcached-dev")),
        false => Err(format!("gcc: {told}").into()),
    }
}

/// Asks the program and compares; returns the version of the library.
fn compare(
    folder: &Folder,
    place: &Place,
    questions: &Questions,
    tally: &mut Tally,
) -> Result<String, Error> {
    let lines = questions.lines.iter().map(|(line, _)| line.as_str());
    let text = questions.setup.clone() + &lines.collect::<String>();
    let said = ask(folder, text)?;
    let mut answers = said.lines();
    let version = answers.next().ok_or("no version")?.to_owned();
    let answers: Vec<_> = answers.collect();
    if answers.len() != questions.lines.len() {
        return Err(format!("{} answers to {}", answers.len(), questions.lines.len()).into());
    }
    for ((question, ours), theirs) in questions.lines.iter().zip(answers) {
        tally.decide(*ours == theirs.parse().ok(), || {
            let ours = format!("{ours:?}");
            place.difference(question.trim_end(), theirs, ours, &questions.setup)
        });
    }
    Ok(version)
}

/// The program's answers to `questions`.
fn ask(folder: &Folder, questions: String) -> Result<String, Error> {
    let mut probe = Command::new(folder.path().join("probe"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let input = probe.stdin.take();
    // It answers while it reads: neither side may wait for the other.
    let writer = thread::spawn(move || match input {
        Some(mut input) => input.write_all(questions.as_bytes()),
        None => Ok(()),
    });
    let output = probe.wait_with_output()?;
    writer
        .join()
        .map_err(|_| "the questions were not written")??;
    if !output.status.success() {
        return Err("the probe failed, see above".into());
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// Values of keys under every hash.
fn hashes(random: &mut Random) -> Result<Questions, Error> {
    let question = |random: &mut Random| {
        let (number, hash) = random.one_of(HASHES);
        let key = key(random);
        (
            format!("hash {number} {}\n", hex(&key)),
            Some(hash.hash(&key)),
        )
    };
    Ok(Questions {
        setup: String::new(),
        lines: (0..KEYS).map(|_| question(random)).collect(),
    })
}

fn consistent(random: &mut Random) -> Result<Questions, Error> {
    choices(random, "consistent", PointNames::Libmemcached)
}

fn ketama(random: &mut Random) -> Result<Questions, Error> {
    choices(random, "ketama", PointNames::Libmemcached)
}

fn spy(random: &mut Random) -> Result<Questions, Error> {
    choices(random, "spy", PointNames::Spy)
}

fn weighted(random: &mut Random) -> Result<Questions, Error> {
    choices(random, "weighted", PointNames::Libmemcached)
}

/// Servers of keys in one random pool.
fn choices(random: &mut Random, distribution: &str, names: PointNames) -> Result<Questions, Error> {
    let (number, hash) = random.one_of(HASHES);
    let mut setup = format!("pool {distribution} {number}\n");
    let mut buckets = Vec::new();
    let servers = random.between(1, 12);
    for weight in weights(random, servers) {
        let host = host(random);
        let port = if random.percent(40) {
            11211
        } else {
            random.port()
        };
        setup += &format!("server {host} {port} {weight}\n");
        buckets.push(Bucket::from_text(format!("{host}:{port}"), weight));
    }
    // A server of more than weight 1 turns the weighted ring on.
    let is_weighted = distribution == "weighted" || buckets.iter().any(|b| b.weight() > 1);
    let scheme = if is_weighted {
        Scheme::LibmemcachedWeighted { names }
    } else {
        Scheme::LibmemcachedPlain {
            names,
            point_hash: hash,
        }
    };
    let config = SchemeConfig::new(scheme).key_hash(hash);
    let ring = Continuum::with_scheme(&buckets, &config)?;
    let question = |random: &mut Random| {
        let key = key(random);
        let ours = ring
            .node_idx(&key)
            .and_then(|index| u32::try_from(index).ok());
        (format!("key {}\n", hex(&key)), ours)
    };
    Ok(Questions {
        lines: (0..KEYS).map(|_| question(random)).collect(),
        setup,
    })
}

fn host(random: &mut Random) -> String {
    let [a, b, c] = [(); 3].map(|()| random.octet(0, 255));
    match random.below(3) {
        0 => format!("cache-{a:x}{b:02x}.example"),
        1 => format!("c{a}"),
        _ => format!("10.{a}.{b}.{c}"),
    }
}

/// Any bytes at all, at most 250, as memcached's limit is.
fn key(random: &mut Random) -> Vec<u8> {
    let length = match random.below(4) {
        0 => random.between(1, 4),
        1 => random.between(100, 250),
        _ => random.between(5, 40),
    };
    let low = if random.percent(50) { b' ' } else { 0 };
    let high = if random.percent(50) { b'~' } else { 0xff };
    (0..length).map(|_| random.octet(low, high)).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) const SYSTEM: &str = "libmemcached";

const PROBE: &str = include_str!("probe.c");

const POOLS: usize = 16;
const KEYS: usize = 150;

type Make = fn(&mut Random) -> Result<Questions, Error>;

const SCENARIOS: &[(&str, Make)] = &[
    ("hashes", hashes),
    ("consistent", consistent),
    ("ketama", ketama),
    ("spy", spy),
    ("weighted", weighted),
];

/// By the numbers of `memcached_hash_t`; Debian's build is without 7, Hsieh's.
const HASHES: &[(u32, KeyHash)] = &[
    (0, KeyHash::OneAtATime),
    (1, KeyHash::Md5),
    (2, KeyHash::Crc15),
    (3, KeyHash::Fnv1_64),
    (4, KeyHash::Fnv1a64),
    (5, KeyHash::Fnv1_32),
    (6, KeyHash::Fnv1a32),
    (8, KeyHash::Murmur2),
    (9, KeyHash::Jenkins),
    (10, KeyHash::Murmur3Length),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_those_of_their_seed() {
        let text = |seed| {
            let questions = spy(&mut Random::new(seed, "x")).unwrap();
            (questions.setup, questions.lines)
        };
        assert_eq!(text(1), text(1));
        assert_ne!(text(1), text(2));
        let (setup, lines) = text(1);
        assert!(setup.starts_with("pool spy ") && setup.contains("\nserver "));
        assert_eq!(lines.len(), KEYS);
        assert!(
            lines
                .iter()
                .all(|(line, ours)| line.starts_with("key ") && ours.is_some())
        );
    }

    #[test]
    fn keys_are_written_in_hex() {
        assert_eq!(hex(b"\x00a\xff"), "0061ff");
        let lengths = (0..300).map(|n| key(&mut Random::new(n, "k")).len());
        assert!(
            lengths
                .into_iter()
                .all(|length| (1..=250).contains(&length))
        );
    }
}
