//! The page that lists the events, against the events.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use selection::Identity;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Metadata, Subscriber};

use super::*;
use crate::{Cause, Condition, page};

/// What was logged: name, target, level and the fields with their values, the message apart.
#[derive(Clone, Debug)]
struct Logged {
    name: &'static str,
    target: String,
    level: String,
    fields: BTreeMap<&'static str, String>,
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<Logged>>>);

impl Subscriber for Log {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        fields.0.remove("message");
        self.0.lock().unwrap().push(Logged {
            name: event.metadata().name(),
            target: event.metadata().target().to_owned(),
            level: event.metadata().level().to_string().to_lowercase(),
            fields: fields.0,
        });
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[derive(Default)]
struct Fields(BTreeMap<&'static str, String>);

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.to_owned());
    }
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }
}

/// Every event there is, once.
fn all() -> Vec<Logged> {
    let log = Log::default();
    tracing::subscriber::with_default(log.clone(), || {
        let backend = Backend::new(std::net::SocketAddr::from(([10, 0, 0, 1], 80)));
        let event = Event {
            backend: backend.addr.identity(),
            from: Condition::Ready,
            to: Condition::Down,
            cause: Cause::Active,
            reason: "connection refused".to_owned(),
        };
        let failed = UpdateError::Discovery(crate::DiscoveryError::new("name server is away"));
        let mut update = Update::default();
        (update.generation, update.removed) = (7, vec![backend.addr.clone()]);
        backend_changed("images, pages", &event);
        panic_began("images");
        panic_ended("images");
        listener_panicked("images", &event, "fell over");
        check_panicked("images", &backend, "fell over");
        check_drop_panicked("images", &"fell over");
        forget_panicked("images", &backend, "fell over");
        follower_panicked("fell over");
        recorder_panicked("images", "fell over");
        members_changed("images", &update);
        members_unchanged("images", &update);
        update_failed("images", &failed, 3);
        changed_panicked("images", "fell over");
        valid_for_panicked("images", "fell over");
        #[cfg(feature = "dns")]
        {
            use crate::discovery::{Dns, Question};
            let error = Dns::new(Question::host("a..b", 80)).unwrap_err();
            target_absent(&"_http._tcp.test", &error);
        }
        #[cfg(feature = "file")]
        {
            let error = std::io::Error::other("too many watches");
            file_unwatched(std::path::Path::new("pool.toml"), &error);
        }
    });
    let logged = log.0.lock().unwrap();
    logged.clone()
}

#[test]
fn the_page_lists_every_event_with_its_fields() {
    let source = include_str!("../log.rs");
    let documented: BTreeSet<_> = page::rows("Logs").collect();
    assert_eq!(documented.len(), source.matches("name: \"").count());
    let all = all();
    let logged: BTreeSet<_> = all
        .iter()
        .map(|logged| {
            let fields: BTreeSet<_> = logged.fields.keys().copied().collect();
            let fields: Vec<_> = fields.into_iter().collect();
            let Logged {
                name,
                target,
                level,
                ..
            } = logged.clone();
            [name.to_owned(), target, level, fields.join(", ")]
        })
        .collect();
    assert_eq!(logged.len(), all.len(), "each of them once");
    let behind_features = |[name, ..]: &&[String; 4]| {
        (cfg!(feature = "dns") || name != "target_absent")
            && (cfg!(feature = "file") || name != "file_unwatched")
    };
    let documented = documented.iter().filter(behind_features).cloned();
    assert_eq!(logged, documented.collect());
}

#[test]
fn fields_hold_what_the_page_says() {
    let all = all();
    let fields = |name| {
        &all.iter()
            .find(|logged| logged.name == name)
            .unwrap()
            .fields
    };
    let flip = fields("backend_changed");
    let values = ["pool", "backend", "from", "to", "cause", "reason"].map(|name| &*flip[name]);
    let expected = [
        "images, pages",
        "10.0.0.1:80",
        "ready",
        "down",
        "active",
        "connection refused",
    ];
    assert_eq!(values, expected);
    assert_eq!(Identity::from(values[1]), Identity::from("10.0.0.1:80"));
    let failed = fields("update_failed");
    assert_eq!(
        failed["error"],
        "discovery has no answer: name server is away"
    );
    assert_eq!(failed["failures"], "3");
    let changed = fields("members_changed");
    let values = ["generation", "added", "removed", "changed"].map(|name| &*changed[name]);
    assert_eq!(values, ["7", "0", "1", "0"]);
}

/// All events come from the one place that names them.
#[test]
fn nobody_else_logs() {
    fn files(folder: &std::path::Path, found: &mut Vec<std::path::PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                files(&path, found);
            } else {
                found.push(path);
            }
        }
    }
    let source = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = Vec::new();
    files(&source, &mut found);
    found.retain(|path| {
        let text = std::fs::read_to_string(path).unwrap();
        text.contains("tracing::")
    });
    found.sort();
    assert_eq!(found, [source.join("log/tests.rs"), source.join("log.rs")]);
}
