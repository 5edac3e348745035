//! What is logged, and how often.

use std::fmt::{Debug, Write};
use std::sync::{Arc, Mutex};

use balancer::selection::{FailureKind, Outcome};
use balancer::{Consecutive, LoadBalancer, Options, Passive, SharedHealth, Static};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::support::{Answer, Script, Turns, TurnsConfig, addr, backends};

/// The names of the events, with all their fields but the message.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("balancer")
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &Event<'_>) {
        let mut line = Line(event.metadata().name().to_owned());
        event.record(&mut line);
        self.0.lock().unwrap().push(line.0);
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if !["message", "build_seconds", "discovery_seconds"].contains(&field.name()) {
            write!(self.0, " {}={value:?}", field.name()).unwrap();
        }
    }
}

fn options() -> Options {
    let rule = Consecutive::default().failures(1).max_ejection_percent(100);
    Options::default().passive(Passive::Consecutive(rule))
}

#[tokio::test(start_paused = true)]
async fn a_flip_is_logged_once_for_all_who_share_it_and_requests_are_not() {
    let log = Log::default();
    let _guard = tracing::subscriber::set_default(log.clone());
    let health = SharedHealth::new(&options());
    let balancer = |name: &str, threshold| {
        LoadBalancer::<Turns>::builder(Static::new(backends([1, 2])), TurnsConfig::default())
            .name(name)
            .options(options().panic_threshold(threshold))
            .shared_health(&health)
            .build()
            .unwrap()
    };
    let (images, pages) = (balancer("images", 60), balancer("pages", 0));
    images.update().await.unwrap();
    pages.update().await.unwrap();
    for _ in 0..10 {
        let pick = images.select(b"").unwrap();
        pick.complete(Outcome::success(std::time::Duration::ZERO));
    }
    assert_eq!(log.take(), [""; 0]);
    let pick = pages.select_where(b"", |backend| backend.addr == addr(1));
    pick.unwrap()
        .complete(Outcome::Failure(FailureKind::Timeout));
    images.set_enabled(&addr(1), false);
    let expected = [
        "backend_changed pool=\"images, pages\" backend=10.0.0.1:80 from=ready to=ejected \
         cause=passive reason=a request timed out",
        "panic_began pool=\"images\"",
        "backend_changed pool=\"images, pages\" backend=10.0.0.1:80 from=ejected to=disabled \
         cause=admin reason=operator",
        "panic_ended pool=\"images\"",
    ];
    assert_eq!(log.take(), expected);
}

#[tokio::test(start_paused = true)]
async fn the_service_logs_its_updates() {
    let log = Log::default();
    let _guard = tracing::subscriber::set_default(log.clone());
    let script = Script::new([Answer::Found(backends([1])), Answer::Fails, Answer::Panics]);
    let balancer = LoadBalancer::<Turns>::builder(script, TurnsConfig::default())
        .name("images")
        .build()
        .unwrap();
    let balancer = Arc::new(balancer);
    let failed = async {
        while balancer.status().failed_updates < 2 {
            tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        }
    };
    Arc::clone(&balancer).run(failed).await;
    let expected = [
        "members_changed pool=\"images\" generation=1 added=1 removed=0 changed=0",
        "update_failed pool=\"images\" error=discovery has no answer: name server is away failures=1",
        "update_failed pool=\"images\" error=discovery panicked: discovery fell over failures=2",
    ];
    assert_eq!(log.take(), expected);
}
