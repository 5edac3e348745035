//! Random upstreams and what is asked of them.

use balancer::Order;
use balancer::selection::Identity;

use crate::nginx::keys;
use crate::nginx::script::{Pool, Request, Step};
use crate::nginx::upstream::{Key, Method, Role, Server, Upstream};
use crate::random::Random;

/// Servers that never fail, some of which may be marked as down.
pub(crate) fn healthy(random: &mut Random, method: Method, server: Make) -> Pool {
    let count = random.between(1, 12);
    let mut pool = pool(random, method, count, server);
    pool.disable_some(random);
    pool.script = pool.asks(random, 400, &[]);
    pool
}

/// Names with several addresses, each of which is a server of its own to every method but the ring.
pub(crate) fn names(random: &mut Random) -> Pool {
    let method = random.one_of(METHODS);
    healthy(random, method, keys::name)
}

/// Lines that are sorted by address, as a balancer does unless it is told otherwise.
pub(crate) fn sorted(random: &mut Random) -> Pool {
    let method = random.one_of(METHODS);
    let mut pool = healthy(random, method, keys::ipv4);
    let identity = |server: &Server| server.addresses.first().map(|a| a.identity());
    pool.order = Order::Address;
    pool.upstream
        .servers
        .sort_by_cached_key(|server| -> Option<Identity> { identity(server) });
    pool
}

/// Some servers refuse, some answer with errors now and then, some do both by turns.
pub(crate) fn failing(random: &mut Random, method: Method) -> Pool {
    let count = random.between(1, 8);
    let mut pool = pool(random, method, count, keys::ipv4);
    pool.disable_some(random);
    pool.count_fails(random, &[0, 1, 1, 2, 3, 5]);
    if random.percent(20) {
        pool.upstream.max_tries = Some(random.between(1, 4) as usize);
    }
    let weak = pool.weak(random);
    pool.script = pool.troubles(random, 300, &weak);
    pool
}

/// All servers but two are down or refuse, so that nginx gives up now and then and takes turns. On a
/// ring ours does not; nothing may show then how far nginx's turns are, so all requests have keys.
pub(crate) fn sparse(random: &mut Random, method: Method) -> Pool {
    let count = random.between(6, 14);
    let mut pool = pool(random, method, count, keys::ipv4);
    pool.has_keys = method == Method::Consistent;
    pool.upstream.max_fails = 0;
    pool.script = pool.asks(random, 300, &[]);
    let mut lines: Vec<_> = (0..pool.upstream.servers.len()).collect();
    random.shuffle(&mut lines);
    for &line in &lines[2..] {
        if random.percent(70) {
            pool.upstream.servers[line].role = Role::Down;
        } else {
            pool.script.insert(0, Step::Refuse(line));
        }
    }
    pool
}

/// Primaries that fail, and backups that step in. Backups of a hash do not fail: who of them is
/// asked is not the same, and their failures would set all that follows apart.
pub(crate) fn backup(random: &mut Random, method: Method) -> Pool {
    let count = random.between(2, 6);
    let mut pool = pool(random, method, count, keys::ipv4);
    pool.add_backups(random);
    pool.count_fails(random, &[0, 1, 2, 3]);
    let lines = pool.upstream.servers.len();
    let mut weak: Vec<_> = (0..lines)
        .filter(|&line| pool.upstream.servers[line].role == Role::Primary)
        .collect();
    if method != Method::Hash {
        weak.extend(random.some_of(lines, 2));
    }
    weak.sort_unstable();
    weak.dedup();
    pool.script = pool.troubles(random, 200, &weak);
    pool
}

/// Servers go down and come back, and nginx lets them rest and tries them again.
pub(crate) fn recovery(random: &mut Random) -> Pool {
    let (method, count) = (random.one_of(RECOVERING), random.between(2, 6));
    let mut pool = pool(random, method, count, keys::ipv4);
    pool.count_fails(random, &[1, 2, 3]);
    pool.upstream.fail_timeout = random.one_of(TIMEOUTS);
    for server in &mut pool.upstream.servers {
        server.fail_timeout = random.percent(30).then(|| random.one_of(TIMEOUTS));
    }
    let weak = pool.weak(random);
    let mut refusing = vec![false; weak.len()];
    for beat in 0..BEATS {
        pool.script.push(Step::Beat);
        for (&line, refuses) in weak.iter().zip(&mut refusing) {
            if beat == 0 || random.percent(20) {
                *refuses = !*refuses;
                let step = if *refuses { Step::Refuse } else { Step::Accept };
                pool.script.push(step(line));
            }
        }
        let asks = pool.asks(random, 4, &weak);
        pool.script.extend(asks);
    }
    pool
}

/// Requests that stay, so that the number of them at each server differs.
pub(crate) fn held(random: &mut Random, method: Method) -> Pool {
    let count = random.between(2, 6);
    let mut pool = pool(random, method, count, keys::ipv4);
    if random.percent(40) && method != Method::Hash {
        pool.add_backups(random);
    }
    if random.percent(60) {
        for server in &mut pool.upstream.servers {
            server.max_conns = random.percent(70).then(|| random.between(1, 5));
        }
    }
    if random.percent(30) {
        let lines = pool.upstream.servers.len();
        let weak = random.some_of(lines, lines / 2);
        pool.count_fails(random, &[0, 1, 3]);
        pool.script.extend(weak.into_iter().map(Step::Refuse));
    }
    let mut waiting = Vec::new();
    for id in 0..300 {
        let many = waiting.len() == MOST_HELD;
        if waiting.is_empty() || (random.percent(60) && !many) {
            let request = pool.request(random, &[]);
            pool.script.push(Step::Hold(id, request));
            waiting.push(id);
        } else {
            let released = waiting.swap_remove(random.index(waiting.len()));
            pool.script.push(Step::Release(released));
        }
    }
    pool
}

/// Requests that are all alike, for a method that decides by chance.
///
/// No server is so heavy that drawing a second one takes more than 20 draws often enough to be
/// seen: then nginx takes turns, which are other shares.
pub(crate) fn chance(random: &mut Random, method: Method) -> Pool {
    let count = random.between(2, 6);
    let mut pool = pool(random, method, count, keys::ipv4);
    for server in &mut pool.upstream.servers {
        server.weight = random.between(3, 7);
    }
    pool.script = vec![Step::Ask(Request::default()); DRAWS];
    pool
}

/// How a server comes about.
pub(crate) type Make = fn(&mut Random) -> Server;

fn pool(random: &mut Random, method: Method, count: u32, server: Make) -> Pool {
    let most = random.one_of(&[1, 1, 3, 5, 5, 10, 30, 100]);
    let weighted = |random: &mut Random| Server {
        weight: random.between(1, most),
        ..server(random)
    };
    let key = random.one_of(&[Key::Header, Key::Header, Key::Uri]);
    let upstream = Upstream {
        name: String::new(),
        method,
        key,
        servers: (0..count).map(|_| weighted(random)).collect(),
        max_fails: 1,
        fail_timeout: AN_HOUR,
        max_tries: None,
        seed: random.next(),
    };
    Pool {
        upstream,
        script: Vec::new(),
        order: Order::Listed,
        has_keys: false,
    }
}

impl Pool {
    /// Sets `max_fails`, which every other time some servers have of their own.
    fn count_fails(&mut self, random: &mut Random, of: &[u32]) {
        self.upstream.max_fails = random.one_of(of);
        if random.percent(50) {
            for server in &mut self.upstream.servers {
                server.max_fails = random.percent(50).then(|| random.one_of(of));
            }
        }
    }

    /// Marks some servers as down. Two are left: nginx spares a server that is the only line, and
    /// ours one that is the only one which could be picked.
    fn disable_some(&mut self, random: &mut Random) {
        let lines = self.upstream.servers.len();
        if lines < 4 || random.percent(60) {
            return;
        }
        let down = random.some_of(lines, 2);
        if self.upstream.method != Method::Consistent || self.is_third(&down) {
            for line in down {
                self.upstream.servers[line].role = Role::Down;
            }
        }
    }

    /// Whether these lines have a third of the weight at most.
    fn is_third(&self, lines: &[usize]) -> bool {
        let servers = &self.upstream.servers;
        let weight: u32 = lines.iter().map(|&line| servers[line].weight).sum();
        weight * 3 <= servers.iter().map(|server| server.weight).sum()
    }

    /// Makes some servers, but not the first, backups.
    fn add_backups(&mut self, random: &mut Random) {
        let servers = &mut self.upstream.servers;
        let backups = random.between(1, 3) as usize;
        let lines = servers.len();
        for server in &mut servers[lines.saturating_sub(backups).max(1)..] {
            server.role = Role::Backup;
        }
    }

    /// The lines that may fail. On a ring they have a third of the weight at most: then no request
    /// passes 20 points, where nginx gives up, in a million years.
    fn weak(&self, random: &mut Random) -> Vec<usize> {
        let servers = &self.upstream.servers;
        let mut lines: Vec<_> = (0..servers.len()).collect();
        random.shuffle(&mut lines);
        if self.upstream.method != Method::Consistent {
            lines.truncate(1 + random.index(servers.len()));
            return lines;
        }
        let down = |line: &usize| servers[*line].role == Role::Down;
        let mut out: Vec<_> = lines.iter().copied().filter(down).collect();
        lines.retain(|&line| {
            out.push(line);
            let fits = self.is_third(&out);
            if !fits {
                out.pop();
            }
            fits
        });
        lines
    }

    fn asks(&self, random: &mut Random, count: usize, weak: &[usize]) -> Vec<Step> {
        let ask = |_| Step::Ask(self.request(random, weak));
        (0..count).map(ask).collect()
    }

    fn request(&self, random: &mut Random, weak: &[usize]) -> Request {
        let mut request = Request::default();
        match self.upstream.method {
            Method::IpHash if random.percent(95) => request.client = Some(keys::client(random)),
            Method::Hash | Method::Consistent if self.has_keys || random.percent(95) => {
                request.key = keys::key(random, self.upstream.key);
            }
            _ => {}
        }
        if !weak.is_empty() && random.percent(15) {
            request.errors = random.some_of(weak.len(), weak.len());
            for line in &mut request.errors {
                *line = weak[*line];
            }
        }
        request
    }

    /// Requests while those on the weak lines refuse, answer with errors, and come back.
    fn troubles(&self, random: &mut Random, count: usize, weak: &[usize]) -> Vec<Step> {
        let mut steps = Vec::new();
        let mut refusing = vec![false; weak.len()];
        for _ in 0..count / RUN {
            for (&line, refuses) in weak.iter().zip(&mut refusing) {
                if random.percent(15) {
                    *refuses = !*refuses;
                    let step = if *refuses { Step::Refuse } else { Step::Accept };
                    steps.push(step(line));
                }
            }
            steps.extend(self.asks(random, RUN, weak));
        }
        steps
    }
}

/// Those that do not decide by chance.
const METHODS: &[Method] = &[
    Method::RoundRobin,
    Method::Consistent,
    Method::Hash,
    Method::IpHash,
    Method::LeastConn,
];

const RECOVERING: &[Method] = &[
    Method::RoundRobin,
    Method::RoundRobin,
    Method::Consistent,
    Method::Hash,
    Method::IpHash,
    Method::LeastConn,
];

/// Longer than any run: nobody comes back by time alone.
const AN_HOUR: u64 = 3600;

/// Of those that come back, in seconds.
const TIMEOUTS: &[u64] = &[1, 1, 2, 3];

/// Requests between two changes.
const RUN: usize = 20;

/// Three a second.
const BEATS: usize = 27;

const MOST_HELD: usize = 24;

/// For the counts of one pool.
const DRAWS: usize = 1500;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_is_that_of_its_seed() {
        let text = |seed| {
            let pool = failing(&mut Random::new(seed, "x"), Method::Hash);
            format!("{pool:?}")
        };
        assert_eq!(text(1), text(1));
        assert_ne!(text(1), text(2));
    }

    #[test]
    fn lines_are_sorted_where_the_balancer_sorts_and_two_servers_are_up() {
        for seed in 0..50 {
            let pool = sorted(&mut Random::new(seed, "x"));
            let servers = &pool.upstream.servers;
            assert!(servers.is_sorted_by_key(|server| server.addresses[0].identity()));
            let up = servers.iter().filter(|s| s.role != Role::Down).count();
            assert!(up == servers.len() || up >= 2);
        }
    }

    #[test]
    fn what_may_fail_of_a_ring_is_a_third_at_most() {
        for seed in 0..200 {
            let pool = failing(&mut Random::new(seed, "x"), Method::Consistent);
            let weight_of = |lines: &[usize]| -> u32 {
                let servers = &pool.upstream.servers;
                lines.iter().map(|&line| servers[line].weight).sum()
            };
            let mut weak: Vec<_> = pool.script.iter().filter_map(refused).collect();
            weak.extend(pool.requests().flat_map(|request| request.errors.clone()));
            weak.sort_unstable();
            weak.dedup();
            let all: Vec<_> = (0..pool.upstream.servers.len()).collect();
            assert!(weight_of(&weak) * 3 <= weight_of(&all), "seed {seed}");
        }
    }

    fn refused(step: &Step) -> Option<usize> {
        match step {
            Step::Refuse(line) => Some(*line),
            _ => None,
        }
    }

    #[test]
    fn a_second_draw_is_rarely_far_off() {
        for seed in 0..200 {
            let pool = chance(&mut Random::new(seed, "x"), Method::RandomTwo);
            let weights = pool.upstream.servers.iter().map(|server| server.weight);
            let heaviest = weights.clone().max().unwrap();
            let share = f64::from(heaviest) / f64::from(weights.sum::<u32>());
            assert!(share.powi(20) < 0.001, "seed {seed}: {share}");
        }
    }

    #[test]
    fn whoever_is_released_is_held() {
        let pool = held(&mut Random::new(3, "x"), Method::LeastConn);
        let mut waiting = Vec::new();
        let mut released = 0;
        for step in &pool.script {
            match step {
                Step::Hold(id, _) => waiting.push(*id),
                Step::Release(id) => {
                    let place = waiting.iter().position(|held| held == id).unwrap();
                    waiting.remove(place);
                    released += 1;
                }
                _ => {}
            }
        }
        assert!(released > 50);
    }
}
