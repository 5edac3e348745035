//! nginx's balancers in their own terms: peers in a list, and the state of a request over its tries.
//! Also what the fuzz target `selectors` compares with.

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Peer {
    pub(crate) weight: i64,
    pub(crate) effective: i64,
    pub(crate) current: i64,
    pub(crate) conns: i64,
    /// For least_time: the average in ms, and the second of the pick it is idle since.
    pub(crate) average: i64,
    pub(crate) checked: i64,
    /// Its requests in flight: the sum of their ages when it changed, and the average mean age.
    pub(crate) ages: i64,
    pub(crate) changed: i64,
    pub(crate) age: i64,
    pub(crate) up: bool,
    pub(crate) tried: bool,
}

impl Peer {
    pub(crate) fn may(&self) -> bool {
        self.up && !self.tried && self.weight > 0
    }

    /// For least_time with fail_timeout 2.
    pub(crate) fn estimate(&self, second: i64, inflight: bool) -> i64 {
        let idle = second - self.checked;
        let time = match idle {
            0..=2 => self.average,
            _ => self.average >> (idle / 3).min(63),
        };
        let time = match inflight && self.conns > 0 {
            true => time.max(self.age),
            false => time,
        };
        let class = if time > 5000 {
            5000
        } else {
            (time / 20 + 1) * 20
        };
        class * (1 + self.conns)
    }

    pub(crate) fn pass_to(&mut self, millis: i64) {
        self.ages += (millis - self.changed) * self.conns;
        self.changed = millis;
    }
}

pub(crate) struct Model {
    pub(crate) peers: Vec<Peer>,
    pub(crate) max_fails: i64,
}

/// What nginx keeps of a request besides the marks of the peers it tried.
#[derive(Default)]
pub(crate) struct Request {
    pub(crate) attempts: u32,
    pub(crate) sum: u64,
    pub(crate) misses: u32,
}

impl Model {
    pub(crate) fn new(weights: &[u32], up: &[bool], max_fails: u32) -> Self {
        let peers = weights.iter().zip(up).map(|(&weight, &up)| Peer {
            weight: weight.into(),
            effective: weight.into(),
            up,
            ..Peer::default()
        });
        Self {
            peers: peers.collect(),
            max_fails: max_fails.into(),
        }
    }

    pub(crate) fn round(&mut self, joins: impl Fn(&Peer) -> bool) -> Option<usize> {
        let (mut best, mut total) = (None::<usize>, 0);
        for i in 0..self.peers.len() {
            let peer = &mut self.peers[i];
            if peer.may() && joins(peer) {
                peer.current += peer.effective;
                total += peer.effective;
                peer.effective = peer.weight.min(peer.effective + 1);
                if best.is_none_or(|best| self.peers[i].current > self.peers[best].current) {
                    best = Some(i);
                }
            }
        }
        self.peers[best?].current -= total;
        best
    }

    pub(crate) fn failed(&mut self, peer: usize) {
        let peer = &mut self.peers[peer];
        if let Some(loss) = peer.weight.checked_div(self.max_fails) {
            peer.effective = (peer.effective - loss).max(0);
        }
    }

    /// The owner of place `sum` modulo the total weight, down ones included.
    pub(crate) fn place(&self, sum: u64) -> Option<usize> {
        let total: i64 = self.peers.iter().map(|peer| peer.weight).sum();
        let mut left = i64::try_from(sum.checked_rem(total.try_into().unwrap())?).unwrap();
        let mut peers = self.peers.iter();
        peers.position(|peer| {
            left -= peer.weight;
            left < 0
        })
    }

    /// `hash` and `ip_hash`: `next` is one more attempt.
    pub(crate) fn hash(
        &mut self,
        request: &mut Request,
        next: impl Fn(&mut Request),
    ) -> Option<usize> {
        while request.misses <= 20 {
            next(request);
            let peer = self.place(request.sum)?;
            if self.peers[peer].may() {
                return Some(peer);
            }
            request.misses += 1;
        }
        self.round(|_| true)
    }

    pub(crate) fn least_conn(&mut self) -> Option<usize> {
        let may = || self.peers.iter().filter(|peer| peer.may());
        let mut best = *may().next()?;
        for peer in may() {
            if peer.conns * best.weight < best.conns * peer.weight {
                best = *peer;
            }
        }
        let tied = |peer: &Peer| peer.conns * best.weight == best.conns * peer.weight;
        match may().filter(|peer| tied(peer)).count() {
            1 => self.peers.iter().position(|peer| peer.may() && tied(peer)),
            _ => self.round(tied),
        }
    }
}

impl Model {
    /// `least_time` with fail_timeout 2 at the given millisecond.
    pub(crate) fn least_time(&mut self, millis: i64, inflight: bool) -> Option<usize> {
        let now = millis / 1000;
        for peer in self.peers.iter_mut().filter(|peer| peer.may() && inflight) {
            if let Some(mean) = peer.ages.checked_div(peer.conns) {
                peer.age = averaged(peer.age, mean + millis - peer.changed);
            }
        }
        let estimate = |peer: &Peer| peer.estimate(now, inflight);
        let may = || self.peers.iter().enumerate().filter(|(_, peer)| peer.may());
        let (mut first, mut best) = may().next()?;
        for (i, peer) in may() {
            if estimate(peer) * best.weight < estimate(best) * peer.weight {
                (first, best) = (i, peer);
            }
        }
        let least = estimate(best);
        let tied = may().filter(|(_, peer)| estimate(peer) * best.weight == least * peer.weight);
        let chosen = if tied.count() == 1 {
            first
        } else {
            let (mut total, mut best) = (0, first);
            for i in first..self.peers.len() {
                let (peer, weight) = (self.peers[i], self.peers[best].weight);
                if peer.may() && estimate(&peer) * weight == least * peer.weight {
                    self.peers[i].current += peer.effective;
                    total += peer.effective;
                    self.peers[i].effective = peer.weight.min(peer.effective + 1);
                    if self.peers[i].current > self.peers[best].current {
                        best = i;
                    }
                }
            }
            self.peers[best].current -= total;
            best
        };
        let peer = &mut self.peers[chosen];
        if now - peer.checked > 2 {
            peer.checked = now;
        }
        peer.pass_to(millis);
        peer.conns += 1;
        Some(chosen)
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the cut is the rule")]
pub(crate) fn averaged(old: i64, value: i64) -> i64 {
    match old {
        0 => value,
        _ => (0.5 + 0.05 * value as f64 + 0.95 * old as f64) as i64,
    }
}

fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| {
            (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg())
        })
    })
}

pub(crate) fn modulo_attempt(request: &mut Request, key: &[u8]) {
    let text = match request.attempts {
        0 => key.to_owned(),
        attempt => [attempt.to_string().as_bytes(), key].concat(),
    };
    request.attempts += 1;
    request.sum += u64::from((crc32(&text) >> 16) & 0x7fff);
}

pub(crate) fn ip_attempt(request: &mut Request, octets: &[u8]) {
    if request.attempts == 0 {
        request.sum = 89;
    }
    request.attempts += 1;
    for &octet in octets {
        request.sum = (request.sum * 113 + u64::from(octet)) % 6271;
    }
}
