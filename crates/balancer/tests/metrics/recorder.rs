//! A recorder that keeps everything.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata,
    SharedString, Unit,
};

#[derive(Default)]
pub(crate) struct Recorder {
    seen: Arc<Mutex<Seen>>,
    panics: AtomicBool,
}

#[derive(Default)]
struct Seen {
    /// By name and labels, the labels in the order of their names.
    values: BTreeMap<String, Value>,
    units: BTreeMap<String, &'static str>,
}

enum Value {
    Number(f64),
    Samples(Vec<f64>),
}

impl Recorder {
    /// Panics at everything, until it is told not to.
    pub(crate) fn panicking() -> Self {
        Self {
            panics: AtomicBool::new(true),
            ..Self::default()
        }
    }

    pub(crate) fn calm_down(&self) {
        self.panics.store(false, Ordering::Relaxed);
    }

    /// A line for each series.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        for (name, value) in &self.seen.lock().unwrap().values {
            match value {
                Value::Number(number) => writeln!(text, "{name} {number}").unwrap(),
                Value::Samples(samples) => {
                    let samples: Vec<_> = samples.iter().map(f64::to_string).collect();
                    writeln!(text, "{name} [{}]", samples.join(", ")).unwrap();
                }
            }
        }
        text
    }

    pub(crate) fn value(&self, name: &str) -> f64 {
        match self.seen.lock().unwrap().values.get(name) {
            Some(Value::Number(number)) => *number,
            _ => panic!("{name} is no counter or gauge"),
        }
    }

    /// The units, by name.
    pub(crate) fn described(&self) -> BTreeMap<String, &'static str> {
        self.seen.lock().unwrap().units.clone()
    }

    fn series(&self, key: &Key, value: Value) -> Arc<Series> {
        assert!(!self.panics.load(Ordering::Relaxed), "told to panic");
        let labels = key
            .labels()
            .map(|label| format!("{}={}", label.key(), label.value()));
        let mut labels: Vec<_> = labels.collect();
        labels.sort();
        let name = format!("{}{{{}}}", key.name(), labels.join(","));
        self.seen
            .lock()
            .unwrap()
            .values
            .entry(name.clone())
            .or_insert(value);
        let seen = Arc::clone(&self.seen);
        Arc::new(Series { name, seen })
    }

    fn describe(&self, name: &KeyName, unit: Option<Unit>) {
        assert!(!self.panics.load(Ordering::Relaxed), "told to panic");
        let units = &mut self.seen.lock().unwrap().units;
        units.insert(name.as_str().to_owned(), unit.unwrap().as_str());
    }
}

impl metrics::Recorder for Recorder {
    fn describe_counter(&self, name: KeyName, unit: Option<Unit>, _: SharedString) {
        self.describe(&name, unit);
    }
    fn describe_gauge(&self, name: KeyName, unit: Option<Unit>, _: SharedString) {
        self.describe(&name, unit);
    }
    fn describe_histogram(&self, name: KeyName, unit: Option<Unit>, _: SharedString) {
        self.describe(&name, unit);
    }
    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.series(key, Value::Number(0.0)))
    }
    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.series(key, Value::Number(0.0)))
    }
    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(self.series(key, Value::Samples(Vec::new())))
    }
}

struct Series {
    name: String,
    seen: Arc<Mutex<Seen>>,
}

impl Series {
    fn change(&self, change: impl FnOnce(&mut f64)) {
        match self.seen.lock().unwrap().values.get_mut(&self.name) {
            Some(Value::Number(number)) => change(number),
            _ => panic!("{} is no counter or gauge", self.name),
        }
    }
}

impl CounterFn for Series {
    fn increment(&self, more: u64) {
        self.change(|number| *number += more as f64);
    }
    fn absolute(&self, value: u64) {
        self.change(|number| *number = value as f64);
    }
}

impl GaugeFn for Series {
    fn increment(&self, more: f64) {
        self.change(|number| *number += more);
    }
    fn decrement(&self, less: f64) {
        self.change(|number| *number -= less);
    }
    fn set(&self, value: f64) {
        self.change(|number| *number = value);
    }
}

impl HistogramFn for Series {
    fn record(&self, sample: f64) {
        match self.seen.lock().unwrap().values.get_mut(&self.name) {
            Some(Value::Samples(samples)) => samples.push(sample),
            _ => panic!("{} is no histogram", self.name),
        }
    }
}
