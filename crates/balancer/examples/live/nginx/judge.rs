//! What nginx answered against what ours did.

use balancer::selection::ketama::{Bucket, Continuum};

use crate::Error;
use crate::nginx::client::Answer;
use crate::nginx::script::{Pool, Request, Step};
use crate::nginx::upstream::{Method, Role, Upstream};
use crate::report::{Place, Tally};

/// How answers are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Judge {
    /// One by one: all servers tried, in order, with how each try ended.
    Same,
    /// One by one, but where nginx gives up its walk of the ring after 20 points ours walks on.
    Walk,
    /// One by one, but where a hash has run out of primaries nginx takes turns among the backups
    /// and ours hashes over them.
    Primaries,
    /// By their number for each server, which chance decides.
    Chance,
}

impl Judge {
    pub(crate) fn tally(
        self,
        place: &Place,
        pool: &Pool,
        theirs: &[Answer],
        ours: &[Answer],
    ) -> Result<Tally, Error> {
        if theirs.len() != ours.len() {
            return Err(
                format!("{} answers of nginx, {} of ours", theirs.len(), ours.len()).into(),
            );
        }
        let mut tally = Tally::default();
        if self == Self::Chance {
            by_chance(place, pool, theirs, ours, &mut tally);
            return Ok(tally);
        }
        let ring = ring(&pool.upstream)?;
        let refusing = refusing(pool);
        let answers = theirs.iter().zip(ours);
        for (n, (request, (theirs, ours))) in pool.requests().zip(answers).enumerate() {
            let agree = (&theirs.tried, &theirs.statuses) == (&ours.tried, &ours.statuses);
            let may_deviate = match self {
                Self::Walk => points_passed(&ring, pool, request, &refusing) > MOST_POINTS,
                Self::Primaries => differ_in_backups(&pool.upstream, theirs, ours),
                Self::Same | Self::Chance => false,
            };
            if may_deviate {
                tally.deviate(agree);
                continue;
            }
            tally.decide(agree, || {
                let what = format!("request {n}, {}", asked(pool, request));
                place.difference(what, told(theirs), told(ours), &pool.upstream.block())
            });
        }
        Ok(tally)
    }
}

fn asked(pool: &Pool, request: &Request) -> String {
    let mut text = match request.client {
        Some(client) => format!("client {client}"),
        None => format!("key \"{}\"", pool.key(request).escape_ascii()),
    };
    if !request.errors.is_empty() {
        text += &format!(", status 500 of {}", pool.failing(request).join(", "));
    }
    text
}

fn told(answer: &Answer) -> String {
    let tries = answer.tried.iter().zip(&answer.statuses);
    let tries: Vec<_> = tries.map(|(at, status)| format!("{at} {status}")).collect();
    tries.join(", ")
}

// ===== backups =====

/// Whether the answers are alike but for which backup it was.
fn differ_in_backups(upstream: &Upstream, theirs: &Answer, ours: &Answer) -> bool {
    let backups = upstream.servers.iter().filter(|s| s.role == Role::Backup);
    let backups: Vec<_> = backups.map(|server| server.text.as_str()).collect();
    let masked = |answer: &Answer| -> Vec<_> {
        let tries = answer.tried.iter().zip(&answer.statuses);
        let mask = |at: &String| (!backups.contains(&at.as_str())).then(|| at.clone());
        tries.map(|(at, &status)| (mask(at), status)).collect()
    };
    theirs.tried != ours.tried && masked(theirs) == masked(ours)
}

// ===== the walk =====

/// The ring that nginx walks. It only says where nginx gives up; what it answers elsewhere is
/// compared with the answers of nginx.
fn ring(upstream: &Upstream) -> Result<Continuum, Error> {
    let buckets = upstream.servers.iter();
    let buckets = buckets.map(|server| Bucket::from_text(server.text.as_str(), server.weight));
    Ok(Continuum::new(&buckets.collect::<Vec<_>>())?)
}

/// The lines that refuse all along.
fn refusing(pool: &Pool) -> Vec<usize> {
    let refused = pool.script.iter().filter_map(|step| match step {
        Step::Refuse(line) => Some(*line),
        _ => None,
    });
    refused.collect()
}

/// How many points of no use lie between a key and the first server that answers.
fn points_passed(ring: &Continuum, pool: &Pool, request: &Request, refusing: &[usize]) -> usize {
    let useless =
        |line: &usize| refusing.contains(line) || pool.upstream.servers[*line].role == Role::Down;
    let hash = ring.hash(&pool.key(request));
    let walk = ring.walk(hash).take(ring.len());
    walk.take_while(useless).count()
}

/// nginx takes turns after this many, 1.22 and 1.31 alike.
const MOST_POINTS: usize = 20;

// ===== chance =====

/// A decision for each server: that it got its share of nginx's requests and of ours.
///
/// A count is binomial. Each may be off by [`DEVIATIONS`] standard deviations, and by one more
/// since it is a whole number; of 10^8 fair counts fewer than one is.
fn by_chance(place: &Place, pool: &Pool, theirs: &[Answer], ours: &[Answer], tally: &mut Tally) {
    let requests = f64::from(u32::try_from(theirs.len()).unwrap_or(u32::MAX));
    for (server, share) in pool.upstream.servers.iter().zip(shares(&pool.upstream)) {
        let text = &server.text;
        let count = |answers: &[Answer]| {
            let here = answers
                .iter()
                .filter(|answer| answer.tried == [text.as_str()]);
            f64::from(u32::try_from(here.count()).unwrap_or(u32::MAX))
        };
        let most = DEVIATIONS * (requests * share * (1.0 - share)).sqrt() + 1.0;
        let is_fair = |count: f64| (count - requests * share).abs() <= most;
        let (theirs, ours) = (count(theirs), count(ours));
        tally.decide(is_fair(theirs) && is_fair(ours), || {
            let what = format!(
                "{text}: share {share:.4} of {requests} requests, {:.1} or {most:.1} more or less",
                requests * share
            );
            place.difference(what, theirs, ours, &pool.upstream.block())
        });
    }
}

/// The share of each server while nothing is in flight.
///
/// `random` draws by weight. `random two` draws two different ones by weight and, as they are
/// equally idle, takes the second: W being the sum of the weights w, server j has
/// Σ w_i / W · w_j / (W - w_i) over the others.
fn shares(upstream: &Upstream) -> Vec<f64> {
    let weights = upstream
        .servers
        .iter()
        .map(|server| f64::from(server.weight));
    let weights: Vec<_> = weights.collect();
    let total: f64 = weights.iter().sum();
    let share = |(j, weight): (usize, &f64)| {
        if upstream.method != Method::RandomTwo || weights.len() == 1 {
            return weight / total;
        }
        let others = weights.iter().enumerate().filter(|(i, _)| *i != j);
        others
            .map(|(_, first)| first / total * weight / (total - first))
            .sum()
    };
    weights.iter().enumerate().map(share).collect()
}

const DEVIATIONS: f64 = 6.0;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nginx::pools;
    use crate::nginx::upstream::Server;
    use crate::random::Random;

    fn place() -> Place {
        Place {
            seed: 1,
            system: "nginx",
            scenario: "x",
            pool: 0,
        }
    }

    fn answer(tried: &str) -> Answer {
        Answer {
            tried: vec![tried.to_owned()],
            statuses: vec![200],
            second: None,
        }
    }

    #[test]
    fn shares_of_two_draws_are_those_of_the_rule() {
        let mut pool = pools::chance(&mut Random::new(1, ""), Method::RandomTwo);
        let server = pool.upstream.servers[0].clone();
        let with = |weight| {
            let mut server = server.clone();
            server.weight = weight;
            server
        };
        pool.upstream.servers = vec![with(1), with(2), with(3), with(4)];
        let expected = [0.135, 0.241, 0.308, 0.316];
        for (share, expected) in shares(&pool.upstream).iter().zip(expected) {
            assert!((share - expected).abs() < 0.001, "{share} {expected}");
        }
        pool.upstream.method = Method::Random;
        assert_eq!(shares(&pool.upstream), [0.1, 0.2, 0.3, 0.4]);
    }

    #[test]
    fn a_count_beyond_the_bound_differs() {
        let mut pool = pools::chance(&mut Random::new(1, ""), Method::Random);
        pool.upstream.servers.truncate(2);
        let [a, b] = &mut pool.upstream.servers[..] else {
            panic!("two servers");
        };
        (a.weight, b.weight) = (1, 1);
        let (a, b) = (a.text.clone(), b.text.clone());
        // Of 10,000 the bound is 5,000 plus 6 times 50 plus 1.
        let answers = |first: usize| -> Vec<_> {
            let texts = (0..10_000).map(|n| if n < first { &a } else { &b });
            texts.map(|text| answer(text)).collect()
        };
        let differ = |theirs, ours| {
            let judge = Judge::Chance;
            let tally = judge.tally(&place(), &pool, &answers(theirs), &answers(ours));
            tally.unwrap().differ
        };
        assert_eq!(differ(5301, 4699), 0);
        assert_eq!(differ(5302, 5000), 2);
        assert_eq!(differ(5000, 4698), 2);
    }

    #[test]
    fn which_backup_it_was_is_a_deviation_and_which_primary_a_difference() {
        let mut pool = pools::backup(&mut Random::new(1, ""), Method::Hash);
        pool.script = vec![Step::Ask(Request::default())];
        let text = |role| {
            let mut of = pool.upstream.servers.iter().filter(|s| s.role == role);
            of.next().unwrap().text.clone()
        };
        let (primary, backup) = (text(Role::Primary), text(Role::Backup));
        pool.upstream.servers.push(Server {
            role: Role::Backup,
            ..Server::new("127.0.0.1:1".parse().unwrap())
        });
        let judge = |theirs: &str, ours: &str| {
            let (theirs, ours) = ([answer(theirs)], [answer(ours)]);
            let tally = Judge::Primaries.tally(&place(), &pool, &theirs, &ours);
            let tally = tally.unwrap();
            (tally.differ, tally.deviate)
        };
        assert_eq!(judge(&backup, "127.0.0.1:1"), (0, 1));
        assert_eq!(judge(&backup, &backup), (0, 0));
        assert_eq!(judge(&primary, "127.0.0.1:1"), (1, 0));
    }

    #[test]
    fn answers_differ_by_server_or_by_how_a_try_ended() {
        let mut pool = pools::chance(&mut Random::new(1, ""), Method::RoundRobin);
        pool.script.truncate(3);
        let theirs = ["a", "b", "c"].map(answer);
        let mut ours = theirs.clone();
        ours[0].tried[0] = "z".to_owned();
        ours[2].statuses[0] = 500;
        let tally = Judge::Same.tally(&place(), &pool, &theirs, &ours).unwrap();
        assert_eq!((tally.decisions, tally.differ), (3, 2));
        assert!(tally.differences[0].contains("theirs a 200\n    ours   z 200"));
        assert!(
            Judge::Same
                .tally(&place(), &pool, &theirs, &ours[..2])
                .is_err()
        );
    }
}
