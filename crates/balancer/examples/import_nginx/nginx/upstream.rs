//! An upstream block as a whole: its servers, its method, and what else may stand in it.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use super::grammar::{Directive, Word};
use super::server::{At, Remarks, Role, Server, State, Target, seconds};
use super::{Located, Place};

/// One upstream block.
#[derive(Clone, Debug)]
pub(crate) struct Upstream {
    pub(crate) name: String,
    pub(crate) at: Place,
    pub(crate) servers: Vec<Server>,
    pub(crate) method: Method,
    /// For the names that are to be resolved again and again.
    pub(crate) resolver: Option<Resolver>,
    /// What cannot be honoured. If there is anything, the rest is not the whole truth.
    pub(crate) refusals: Vec<Located>,
    /// What need not be honoured, and what is to be known.
    pub(crate) notes: Vec<Located>,
    pub(crate) kind: Kind,
}

/// Which module an upstream block is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Http,
    Stream,
}

/// The load balancing method.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    RoundRobin,
    /// By a key, which may hold variables.
    Hash(String),
    /// By a key, on a ring.
    Consistent(String),
    IpHash,
    LeastConn,
    Random,
    RandomTwo,
    LeastTime {
        last_byte: bool,
        inflight: bool,
    },
    /// The third-party module's.
    Fair,
}

/// A `resolver` line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Resolver {
    pub(crate) servers: Vec<SocketAddr>,
    /// In seconds.
    pub(crate) valid: Option<u64>,
    /// In seconds.
    pub(crate) timeout: Option<u64>,
    pub(crate) family: Family,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Family {
    #[default]
    Both,
    V4,
    V6,
}

/// The upstream blocks at the top, as in an included file, and those in `http` and `stream`.
pub(crate) fn all(tree: &[Directive]) -> Vec<Upstream> {
    let mut found = Vec::new();
    collect(tree, Kind::Http, None, &mut found);
    found
}

fn collect(tree: &[Directive], kind: Kind, outer: Option<&Resolver>, found: &mut Vec<Upstream>) {
    // A resolver counts for its whole block, wherever in it it stands.
    let mut lost = Vec::new();
    let resolver = resolver(
        tree,
        &mut Remarks {
            refusals: &mut lost,
            notes: &mut Vec::new(),
        },
    );
    let resolver = resolver.as_ref().or(outer);
    for directive in tree {
        let Some(block) = &directive.block else {
            continue;
        };
        match directive.name() {
            "upstream" => found.push(Upstream::read(directive, block, kind, resolver, &lost)),
            "http" => collect(block, Kind::Http, resolver, found),
            "stream" => collect(block, Kind::Stream, resolver, found),
            _ => {}
        }
    }
}

impl Upstream {
    /// `lost` is what of the resolver around it is refused.
    fn read(
        directive: &Directive,
        block: &[Directive],
        kind: Kind,
        outer: Option<&Resolver>,
        lost: &[Located],
    ) -> Self {
        let (mut refusals, mut notes) = (Vec::new(), Vec::new());
        let mut remarks = Remarks {
            refusals: &mut refusals,
            notes: &mut notes,
        };
        let name = directive.arguments().first();
        if directive.arguments().len() != 1 {
            remarks.refuse(directive.at(), "`upstream` has one name");
        }
        let servers = block.iter().filter(|line| line.name() == "server");
        let servers: Vec<_> = servers
            .filter_map(|line| Server::read(line, kind, &mut remarks))
            .collect();
        let method = method(block, kind, &mut remarks);
        let own = resolver(block, &mut remarks);
        for line in block {
            other(line, &mut remarks);
        }
        let mut upstream = Self {
            name: name.map_or_else(String::new, |name| name.text.clone()),
            at: directive.at(),
            servers,
            method: method
                .as_ref()
                .map_or(Method::RoundRobin, |found| found.value.clone()),
            resolver: None,
            refusals,
            notes,
            kind,
        };
        if upstream
            .servers
            .iter()
            .any(|server| server.resolve.is_some())
        {
            if own.is_none() {
                upstream.refusals.extend_from_slice(lost);
            }
            upstream.resolver = own.or_else(|| outer.cloned());
        }
        upstream.check(method.map(|found| found.at));
        upstream.refusals.sort_by_key(|refusal| refusal.at);
        upstream.notes.sort_by_key(|note| note.at);
        upstream
    }

    /// What only shows when the lines are seen together.
    fn check(&mut self, method: Option<Place>) {
        let (mut refusals, mut notes) = (Vec::new(), Vec::new());
        let mut remarks = Remarks {
            refusals: &mut refusals,
            notes: &mut notes,
        };
        let is_backup = |server: &Server| server.role != Role::Primary;
        // A line that is refused may have been one.
        if self.refusals.is_empty() && self.servers.iter().all(is_backup) {
            remarks.refuse(
                self.at,
                "no servers but backups, or none at all; nginx asks for one",
            );
        }
        let has_no_backups = matches!(
            self.method,
            Method::Hash(_)
                | Method::Consistent(_)
                | Method::IpHash
                | Method::Random
                | Method::RandomTwo
        );
        let mut backups = 0;
        for server in &self.servers {
            if let (Role::Backup(at), true) = (server.role, has_no_backups) {
                backups += 1;
                if method.is_some_and(|method| method < server.at) {
                    remarks.refuse(at, "nginx refuses `backup` after this method");
                } else if backups == 2 {
                    let message = "nginx takes turns among the backups of this method, and here \
                                   they are chosen by the method";
                    remarks.refuse(at, message);
                }
            }
            if server.slow_start.value > 0 && has_no_backups {
                remarks.refuse(
                    server.slow_start.at,
                    "nginx has no `slow_start` with this method",
                );
            }
        }
        self.check_rules(&mut remarks);
        self.check_targets(&mut remarks);
        self.refusals.extend(refusals);
        self.notes.extend(notes);
    }

    /// What is said of each server in nginx, and of a whole pool here.
    fn check_rules(&self, remarks: &mut Remarks<'_>) {
        let Some(first) = self.servers.first() else {
            return;
        };
        let line = first.at.line;
        let mut one = |name: &str, found: At<u64>, expected: u64| {
            if found.value != expected {
                let value = found.value;
                let message = format!(
                    "`{name}` is {value} here and {expected} in line {line}: a pool has one for \
                     all its backends"
                );
                remarks.refuse(found.at, message);
            }
        };
        for server in &self.servers {
            one("slow_start", server.slow_start, first.slow_start.value);
            if self.method.has_fail_timeout() {
                one(
                    "fail_timeout",
                    server.fail_timeout,
                    first.fail_timeout.value,
                );
            }
        }
    }

    /// The `max_fails` and `fail_timeout` that most servers have, the first of equals.
    pub(crate) fn rule(&self) -> (u32, u64) {
        let mut counts = BTreeMap::<_, usize>::new();
        for server in &self.servers {
            *counts.entry(server.rule()).or_default() += 1;
        }
        let rules = self.servers.iter().map(Server::rule).rev();
        let most = rules.max_by_key(|rule| counts.get(rule));
        most.unwrap_or((1, 10))
    }

    fn check_targets(&self, remarks: &mut Remarks<'_>) {
        for server in &self.servers {
            if let Target::Service { .. } = server.target
                && matches!(self.method, Method::Consistent(_))
            {
                let message = "where nginx puts the targets of a service on the ring is not known";
                remarks.refuse(server.at, message);
            }
        }
    }
}

impl Method {
    /// Whether `fail_timeout` means more than how long a server is out.
    pub(crate) fn has_fail_timeout(&self) -> bool {
        matches!(self, Self::LeastTime { .. } | Self::Fair)
    }
}

/// The last method of a block, which is the one that counts, and where it stands.
fn method(block: &[Directive], kind: Kind, remarks: &mut Remarks<'_>) -> Option<At<Method>> {
    let mut found: Option<At<Method>> = None;
    for line in block {
        let arguments: Vec<_> = line
            .arguments()
            .iter()
            .map(|word| word.text.as_str())
            .collect();
        let method = match (line.name(), arguments.as_slice()) {
            ("ip_hash", []) if kind == Kind::Http => Ok(Method::IpHash),
            ("least_conn", []) => Ok(Method::LeastConn),
            ("hash", [key]) => Ok(Method::Hash((*key).to_owned())),
            ("hash", [key, "consistent"]) => Ok(Method::Consistent((*key).to_owned())),
            ("random", []) => Ok(Method::Random),
            ("random", ["two"] | ["two", "least_conn"]) => Ok(Method::RandomTwo),
            ("random", ["two", "least_time=header" | "least_time=last_byte"]) => {
                Err("of two at random the one with fewer requests is taken here, not the faster")
            }
            ("least_time", [time, rest @ ..]) => least_time(time, rest, kind),
            ("fair", []) if kind == Kind::Http => Ok(Method::Fair),
            ("fair", _) => Err("only the default mode of this third-party module is here"),
            ("ip_hash" | "least_conn" | "hash" | "random" | "least_time", _) => {
                Err("nginx knows no such parameters here")
            }
            _ => continue,
        };
        let at = line.at();
        match method {
            Ok(value) => {
                if let Some(before) = found.replace(At { value, at }) {
                    remarks.note(before.at, "a later line says another method, which counts");
                }
            }
            Err(message) => remarks.refuse(at, format!("`{}`: {message}", line.name())),
        }
    }
    found
}

fn least_time(time: &str, rest: &[&str], kind: Kind) -> Result<Method, &'static str> {
    let last_byte = match (time, kind) {
        ("header", Kind::Http) | ("first_byte", Kind::Stream) => false,
        ("last_byte", _) => true,
        ("connect", Kind::Stream) => return Err("the time to connect is not measured here"),
        _ => return Err("nginx knows no such parameters here"),
    };
    match rest {
        [] => Ok(Method::LeastTime {
            last_byte,
            inflight: false,
        }),
        ["inflight"] => Ok(Method::LeastTime {
            last_byte,
            inflight: true,
        }),
        _ => Err("nginx knows no such parameters here"),
    }
}

/// A directive that is neither a server nor a method.
fn other(line: &Directive, remarks: &mut Remarks<'_>) {
    let at = line.at();
    let name = line.name();
    let note = match name {
        "server" | "ip_hash" | "least_conn" | "hash" | "random" | "least_time" | "fair"
        | "resolver" | "resolver_timeout" => return,
        "keepalive" | "keepalive_requests" | "keepalive_time" | "keepalive_timeout" => {
            "connections are the caller's; which server is chosen does not depend on them"
        }
        "ntlm" => "connections are the caller's, so keeping one for each client is too",
        "zone" => {
            "all threads of a process share one state without it; processes share none, so \
             `max_conns` counts for each"
        }
        "queue" => "`select` does not wait: it answers at once that no server can be had",
        "sticky" | "sticky_cookie_insert" => {
            let message = format!("`{name}` ties clients to servers, which is not here");
            return remarks.refuse(at, message);
        }
        "state" => {
            return remarks.refuse(
                at,
                "the servers are in that file: put it in place of this line",
            );
        }
        "include" => return remarks.refuse(at, "the file to include could not be read"),
        _ if name.starts_with("balancer_by_lua") => {
            return remarks.refuse(at, "a program chooses here, not nginx");
        }
        _ => return remarks.refuse(at, format!("`{name}` is not known here")),
    };
    remarks.note(at, format!("`{name}`: {note}"));
}

/// The `resolver` of a block.
fn resolver(block: &[Directive], remarks: &mut Remarks<'_>) -> Option<Resolver> {
    let line = block.iter().rfind(|line| line.name() == "resolver")?;
    let mut resolver = Resolver::default();
    for word in line.arguments() {
        if let Err(message) = resolver.set(word) {
            remarks.refuse(word.at, format!("`{}`: {message}", word.text));
        }
    }
    let timeout = block.iter().rfind(|line| line.name() == "resolver_timeout");
    if let Some(word) = timeout.and_then(|line| line.arguments().first()) {
        match seconds(&word.text) {
            Ok(timeout) => resolver.timeout = Some(timeout),
            Err(message) => remarks.refuse(word.at, format!("`{}`: {message}", word.text)),
        }
    }
    Some(resolver)
}

impl Resolver {
    fn set(&mut self, word: &Word) -> Result<(), String> {
        match word.text.split_once('=') {
            Some(("valid", time)) => self.valid = Some(seconds(time)?),
            Some(("ipv6", "off")) => self.family = Family::V4,
            Some(("ipv4", "off")) => self.family = Family::V6,
            Some(("ipv6" | "ipv4", "on") | ("status_zone", _)) => {}
            Some(_) => return Err("not known here".to_owned()),
            None => {
                let bare = word.text.trim_start_matches('[').trim_end_matches(']');
                let addr = word.text.parse().ok();
                let addr = addr.or_else(|| Some(SocketAddr::new(bare.parse().ok()?, DNS)));
                let message = "a name server is an address here, since names need one to be asked";
                self.servers.push(addr.ok_or(message)?);
            }
        }
        Ok(())
    }
}

impl Server {
    /// `max_fails` and `fail_timeout`.
    pub(crate) fn rule(&self) -> (u32, u64) {
        (self.max_fails.value, self.fail_timeout.value)
    }

    /// Whether it is marked down, and where.
    pub(crate) fn down(&self) -> Option<Place> {
        match self.state {
            State::Down(at) => Some(at),
            State::Up | State::Drain => None,
        }
    }
}

/// The port of a name server that says none.
const DNS: u16 = 53;
