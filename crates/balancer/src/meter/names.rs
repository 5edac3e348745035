//! Every metric there is, by name; `docs/observability.md` lists them, and a test compares.

use metrics::{Key, KeyName, Label, Level, Metadata, Unit};

/// One metric.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Metric {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) unit: Unit,
    /// The labels it has besides `pool`.
    pub(crate) labels: &'static [&'static str],
    pub(crate) help: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Counter,
    Gauge,
    Histogram,
}

impl Metric {
    /// With these values of its labels.
    pub(crate) fn key(&self, labels: Vec<Label>) -> Key {
        Key::from_parts(self.name, labels)
    }

    pub(crate) fn describe(&self) {
        let name = KeyName::from_const_str(self.name);
        let (unit, help) = (Some(self.unit), self.help.into());
        metrics::with_recorder(|recorder| match self.kind {
            Kind::Counter => recorder.describe_counter(name, unit, help),
            Kind::Gauge => recorder.describe_gauge(name, unit, help),
            Kind::Histogram => recorder.describe_histogram(name, unit, help),
        });
    }
}

pub(crate) fn count(key: &Key, more: u64) {
    let counter = metrics::with_recorder(|recorder| recorder.register_counter(key, &METADATA));
    counter.increment(more);
}

pub(crate) fn set(key: &Key, value: f64) {
    let gauge = metrics::with_recorder(|recorder| recorder.register_gauge(key, &METADATA));
    gauge.set(value);
}

pub(crate) fn record(key: &Key, value: f64) {
    let histogram = metrics::with_recorder(|recorder| recorder.register_histogram(key, &METADATA));
    histogram.record(value);
}

const METADATA: Metadata<'static> = Metadata::new("balancer", Level::INFO, Some("balancer"));

pub(crate) const PICKS: Metric = Metric {
    name: "balancer_picks_total",
    kind: Kind::Counter,
    unit: Unit::Count,
    labels: &["backend"],
    help: "Requests that a backend was picked for.",
};

pub(crate) const FAILURES: Metric = Metric {
    name: "balancer_failures_total",
    kind: Kind::Counter,
    unit: Unit::Count,
    labels: &["backend"],
    help: "Requests that ended in a failure of the backend.",
};

pub(crate) const IN_FLIGHT: Metric = Metric {
    name: "balancer_in_flight",
    kind: Kind::Gauge,
    unit: Unit::Count,
    labels: &["backend"],
    help: "Requests in flight.",
};

pub(crate) const STATE: Metric = Metric {
    name: "balancer_backend_state",
    kind: Kind::Gauge,
    unit: Unit::Count,
    labels: &["backend"],
    help: "0 gone, 1 ready, 2 trial, 3 ejected, 4 down, 5 unchecked, 6 draining, 7 disabled.",
};

pub(crate) const LATENCY: Metric = Metric {
    name: "balancer_backend_latency_seconds",
    kind: Kind::Gauge,
    unit: Unit::Seconds,
    labels: &["backend"],
    help: "The average latency of a backend's answers, where the selector keeps one.",
};

pub(crate) const BACKENDS: Metric = Metric {
    name: "balancer_backends",
    kind: Kind::Gauge,
    unit: Unit::Count,
    labels: &["state"],
    help: "Backends by their state.",
};

pub(crate) const READY: Metric = Metric {
    name: "balancer_ready_backends",
    kind: Kind::Gauge,
    unit: Unit::Count,
    labels: &[],
    help: "Backends that may be picked.",
};

pub(crate) const PANICKING: Metric = Metric {
    name: "balancer_panicking",
    kind: Kind::Gauge,
    unit: Unit::Count,
    labels: &[],
    help: "1 while too little is ready and health is ignored, else 0.",
};

pub(crate) const FLIPS: Metric = Metric {
    name: "balancer_flips_total",
    kind: Kind::Counter,
    unit: Unit::Count,
    labels: &["cause"],
    help: "Changes of a backend's state, by what made them.",
};

pub(crate) const UPDATES: Metric = Metric {
    name: "balancer_updates_total",
    kind: Kind::Counter,
    unit: Unit::Count,
    labels: &["result"],
    help: "Updates of the set of backends, by what became of them.",
};

pub(crate) const UPDATE_DURATION: Metric = Metric {
    name: "balancer_update_duration_seconds",
    kind: Kind::Histogram,
    unit: Unit::Seconds,
    labels: &["phase"],
    help: "How long the parts of an update took.",
};

pub(crate) const MOVED: Metric = Metric {
    name: "balancer_ring_moved_ratio",
    kind: Kind::Histogram,
    unit: Unit::Count,
    labels: &[],
    help: "The share of all keys that an update moved on the ring, 0 to 1.",
};

pub(crate) const GENERATION: Metric = Metric {
    name: "balancer_generation",
    kind: Kind::Gauge,
    unit: Unit::Count,
    labels: &[],
    help: "The generation that serves.",
};

pub(crate) const AGE: Metric = Metric {
    name: "balancer_age_seconds",
    kind: Kind::Gauge,
    unit: Unit::Seconds,
    labels: &[],
    help: "The time since the last update that succeeded.",
};

pub(crate) const ALL: [Metric; 14] = [
    PICKS,
    FAILURES,
    IN_FLIGHT,
    STATE,
    LATENCY,
    BACKENDS,
    READY,
    PANICKING,
    FLIPS,
    UPDATES,
    UPDATE_DURATION,
    MOVED,
    GENERATION,
    AGE,
];
