//! What the balancer is expected to know.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use balancer::{
    Active, Address, Admin, Backend, Condition, Event, InitialHealth, Options, Status, Tier,
};

use super::Member;
use super::source::backends;

pub(crate) struct Model {
    members: BTreeMap<u8, Known>,
    /// Also of backends that have left.
    in_flight: BTreeMap<u8, u32>,
    initial: InitialHealth,
    min_backends: usize,
    panic_threshold: u64,
}

struct Known {
    backend: Backend,
    admin: Admin,
    /// As the events have told.
    condition: Condition,
}

impl Model {
    pub(crate) fn new(options: &Options) -> Self {
        Self {
            members: BTreeMap::new(),
            in_flight: BTreeMap::new(),
            initial: options.initial_health,
            min_backends: options.min_backends,
            panic_threshold: options.panic_threshold.into(),
        }
    }

    /// The same address twice is one backend, the weights added. Returns whether anything changed.
    pub(crate) fn update(&mut self, members: &[Member]) -> bool {
        let mut found = BTreeMap::<u8, Backend>::new();
        for backend in backends(members) {
            found
                .entry(number_of(&backend.addr))
                .and_modify(|first| first.weight += backend.weight)
                .or_insert(backend);
        }
        let attributes = |backend: &Backend| (backend.weight, backend.tier, backend.max_in_flight);
        let before = self
            .members
            .iter()
            .map(|(number, known)| (*number, attributes(&known.backend)));
        let after = found
            .iter()
            .map(|(number, backend)| (*number, attributes(backend)));
        let changes = !before.eq(after);
        let mut known = std::mem::take(&mut self.members);
        let initial = match self.initial {
            InitialHealth::Unhealthy => Condition::Unchecked,
            _ => Condition::Ready,
        };
        self.members
            .extend(found.into_iter().map(|(number, backend)| {
                let known = match known.remove(&number) {
                    Some(known) => Known { backend, ..known },
                    None => Known {
                        backend,
                        admin: Admin::Enabled,
                        condition: initial,
                    },
                };
                (number, known)
            }));
        changes
    }

    pub(crate) fn is_too_few(&self, members: &[Member]) -> bool {
        let numbers = members.iter().map(|member| member.number % 8);
        numbers.collect::<BTreeSet<_>>().len() < self.min_backends
    }

    /// Returns whether it is a member.
    pub(crate) fn set_admin(&mut self, number: u8, admin: Admin) -> bool {
        match self.members.get_mut(&(number % 8)) {
            Some(known) => {
                known.admin = admin;
                true
            }
            None => false,
        }
    }

    pub(crate) fn count(&mut self, number: u8) {
        *self.in_flight.entry(number).or_default() += 1;
    }

    pub(crate) fn ended(&mut self, number: u8) {
        *self.in_flight.get_mut(&number).unwrap() -= 1;
    }

    pub(crate) fn in_flight(&self, number: u8) -> u32 {
        self.in_flight.get(&number).copied().unwrap_or(0)
    }

    /// Each event begins where the last one ended.
    pub(crate) fn told(&mut self, events: &[Event]) {
        for event in events {
            let number = number_of(&event.backend.to_string().parse().unwrap());
            let Some(known) = self.members.get_mut(&number) else {
                continue; // It has left since.
            };
            assert_eq!(event.from, known.condition, "{number}");
            assert_ne!(event.from, event.to, "{number}");
            known.condition = event.to;
        }
    }

    /// After every backend was checked once more.
    pub(crate) fn checked(&self, status: &Status, failing: u8) {
        for backend in &status.backends {
            let number = number_of(&backend.addr);
            let expected = match failing >> number & 1 {
                0 => Active::Up,
                _ => Active::Down,
            };
            if self.members[&number].admin != Admin::Disabled {
                assert_eq!(backend.active, expected, "{number}");
            }
        }
    }

    /// Whether a request may go to this backend at all.
    pub(crate) fn serves(&self, number: u8, status: &Status) -> bool {
        let is_ready = status
            .backends
            .iter()
            .any(|backend| number_of(&backend.addr) == number && backend.ready);
        let known = self.members.get(&number);
        is_ready && known.is_some_and(|known| known.admin == Admin::Enabled)
    }

    /// Those that may be picked, of the lowest tier that has any.
    pub(crate) fn candidates(&self, status: &Status, fits: impl Fn(&u8) -> bool) -> BTreeSet<u8> {
        let may = |number: &u8| {
            let backend = &self.members[number].backend;
            let has_room = backend
                .max_in_flight
                .is_none_or(|max| self.in_flight(*number) < max);
            backend.weight > 0 && has_room && fits(number) && self.serves(*number, status)
        };
        let may: Vec<u8> = self.members.keys().copied().filter(may).collect();
        let tier = |number: &u8| self.members[number].backend.tier;
        let lowest = may.iter().map(tier).min();
        may.into_iter()
            .filter(|number| Some(tier(number)) == lowest)
            .collect()
    }

    /// The status against what is known, and against itself.
    pub(crate) fn check(&self, status: &Status) {
        let shown: BTreeSet<_> = status.backends.iter().map(|b| number_of(&b.addr)).collect();
        assert_eq!(shown.len(), status.backends.len(), "a backend twice");
        assert!(shown.iter().eq(self.members.keys()), "{shown:?}");
        for backend in &status.backends {
            let number = number_of(&backend.addr);
            let known = &self.members[&number];
            assert_eq!(backend.in_flight, self.in_flight(number), "{number}");
            assert_eq!(backend.weight, known.backend.weight, "{number}");
            assert_eq!(backend.tier, known.backend.tier, "{number}");
            assert_eq!(backend.admin, known.admin, "{number}");
            assert_eq!(backend.condition, known.condition, "{number}: the events");
            let serves = match (known.admin, backend.condition) {
                (Admin::Drain, condition) => {
                    assert_eq!(condition, Condition::Draining);
                    false
                }
                (Admin::Disabled, condition) => {
                    assert_eq!(condition, Condition::Disabled);
                    false
                }
                (_, Condition::Ready | Condition::Trial) => true,
                _ => status.panicking,
            };
            assert_eq!(backend.ready, serves, "{number}");
        }
        assert_eq!(status.panicking, self.is_panic(status));
    }

    /// What the selectors were built over.
    pub(crate) fn check_selectors<S: ?Sized>(&self, tiers: &[Tier<S>]) {
        let mut nodes = BTreeMap::new();
        for tier in tiers {
            for node in &tier.nodes {
                let number = number_of(&node.identity().to_string().parse().unwrap());
                nodes.insert(number, (tier.number, node.weight()));
            }
        }
        let members = self.members.iter();
        let expected = members.map(|(number, known)| {
            let Backend { tier, weight, .. } = known.backend;
            (*number, (tier, weight))
        });
        assert!(
            nodes.iter().map(|(n, w)| (*n, *w)).eq(expected),
            "{nodes:?}"
        );
    }

    /// In every tier with weight enabled, less than the threshold of it is ready.
    fn is_panic(&self, status: &Status) -> bool {
        let mut tiers = BTreeMap::<u8, (u64, u64)>::new();
        for backend in &status.backends {
            let (enabled, ready) = tiers.entry(backend.tier).or_default();
            if backend.admin == Admin::Enabled {
                *enabled += u64::from(backend.weight);
            }
            if backend.condition == Condition::Ready {
                *ready += u64::from(backend.weight);
            }
        }
        tiers.retain(|_, (enabled, _)| *enabled > 0);
        let scarce = |&(enabled, ready): &(u64, u64)| ready * 100 < enabled * self.panic_threshold;
        !tiers.is_empty() && tiers.values().all(scarce)
    }
}

/// Of 10.0.0.n:80, n.
pub(crate) fn number_of(addr: &Address) -> u8 {
    match addr.as_inet().map(|addr| addr.ip()) {
        Some(IpAddr::V4(ip)) => ip.octets()[3],
        _ => panic!("{addr} is none of ours"),
    }
}
