//! The pool that an upstream block is here, as TOML with what is to be known of it.

use std::fmt::Write as _;

use crate::nginx::Located;
use crate::nginx::server::{Role, Server, State, Target};
use crate::nginx::upstream::{Family, Kind, Method, Resolver, Upstream};

/// The pool as TOML.
///
/// # Errors
///
/// What cannot be honoured, of the block and of its servers together.
pub(crate) fn toml(upstream: &Upstream) -> Result<String, Vec<Located>> {
    let mut refusals = upstream.refusals.clone();
    refusals.extend(
        upstream
            .servers
            .iter()
            .filter_map(|server| lost(upstream, server)),
    );
    refusals.extend(twins(&upstream.servers));
    if !upstream.servers.is_empty() && upstream.servers.iter().all(is_left_out) {
        let message = "all its servers are names that are down: there is nobody to be listed";
        refusals.push(Located::new(upstream.at, message));
    }
    if !refusals.is_empty() {
        refusals.sort_by_key(|refusal| refusal.at);
        return Err(refusals);
    }
    let servers = upstream
        .servers
        .iter()
        .filter(|server| !is_left_out(server));
    let servers: Vec<_> = servers.collect();
    let mut text = header(upstream);
    let _ = writeln!(text, "name = {}", quoted(&upstream.name));
    let _ = writeln!(text, "algorithm = {}", algorithm(upstream));
    text.push_str("order = \"listed\"\n");
    members(&mut text, upstream, &servers);
    admin(&mut text, &servers);
    rules(&mut text, upstream);
    Ok(text)
}

/// A server that is down, whose name no address is known of, cannot be listed, and where places in
/// a hash space count it cannot be left out either.
fn lost(upstream: &Upstream, server: &Server) -> Option<Located> {
    if !is_left_out(server) && !is_draining_name(server) {
        return None;
    }
    let counts = match upstream.method {
        Method::Hash(_) | Method::IpHash | Method::Random | Method::RandomTwo => true,
        _ => is_draining_name(server),
    };
    let message = "a name that does not serve keeps its place, and has no address to be listed by: \
                   import it with `--resolve`";
    let at = server.down().unwrap_or(server.at);
    counts.then(|| Located::new(at, message))
}

/// One address on two lines, or of two names.
fn twins(servers: &[Server]) -> impl Iterator<Item = Located> {
    servers.iter().enumerate().filter_map(|(index, server)| {
        let before = servers.get(..index)?;
        let twin = before.iter().find(|other| other.target == server.target)?;
        let message = format!(
            "{} is in line {} already: two peers in nginx, and one backend here",
            server.text, twin.at.line
        );
        Some(Located::new(server.at, message))
    })
}

fn is_name(server: &Server) -> bool {
    matches!(server.target, Target::Host { .. } | Target::Service { .. })
}

fn is_left_out(server: &Server) -> bool {
    is_name(server) && server.down().is_some()
}

fn is_draining_name(server: &Server) -> bool {
    is_name(server) && server.state == State::Drain
}

/// Comments: whose pool it is, what key to pass, and the notes.
fn header(upstream: &Upstream) -> String {
    let mut text = String::new();
    // nginx's words may hold any character, and TOML's comments no line break and no control.
    let mut say = |line: &str| {
        text.push_str("# ");
        for c in line.chars() {
            match c.is_control() {
                true => text.extend(c.escape_default()),
                false => text.push(c),
            }
        }
        text.push('\n');
    };
    say(&match upstream.kind {
        Kind::Stream => format!("upstream {} of stream", upstream.name),
        Kind::Http => format!("upstream {}", upstream.name),
    });
    let (key, what_it_is) = key(&upstream.method);
    say(&key);
    if let Some(what_it_is) = what_it_is {
        say(what_it_is);
    }
    for Located { at, message } in &upstream.notes {
        say(&format!("line {}: {message}", at.line));
    }
    for server in &upstream.servers {
        let line = server.at.line;
        match &server.target {
            _ if is_left_out(server) => {
                say(&format!(
                    "line {line}: {} is down and left out",
                    server.text
                ));
            }
            Target::Host { .. } if server.resolve.is_none() => say(&format!(
                "line {line}: {} is asked for again and again; nginx asks once, when it starts",
                server.text
            )),
            _ => {}
        }
    }
    if let Some(first) = upstream.servers.first()
        && first.slow_start.value > 0
    {
        say("slow_start: nginx begins at nothing, and here it is 1 percent");
    }
    text
}

/// What to pass to `select` so that it is the choice of nginx, and more to be said of that.
fn key(method: &Method) -> (String, Option<&'static str>) {
    let key = match method {
        Method::Hash(key) | Method::Consistent(key) => key,
        Method::IpHash => {
            let key = "key to pass to `select`: the octets of the client's address, 4 or 16, and \
                       three zero bytes for a client on a unix socket";
            return (key.to_owned(), None);
        }
        _ => {
            let key = "key to pass to `select`: none, it is not looked at";
            return (key.to_owned(), None);
        }
    };
    let is_variable = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let only = key
        .strip_prefix('$')
        .map(|name| name.trim_matches(['{', '}']));
    let only = only.filter(|name| name.chars().all(is_variable));
    let what_it_is = match only {
        Some("binary_remote_addr") => {
            Some("that is the octets of the client's address, 4 or 16, and not its text")
        }
        _ if !key.contains('$') => Some("it holds no variable: all requests go to one server"),
        _ => None,
    };
    let value = match only {
        Some(_) => format!("the value of {key}"),
        None => format!("{key}, with its variables filled in"),
    };
    (format!("key to pass to `select`: {value}"), what_it_is)
}

fn algorithm(upstream: &Upstream) -> String {
    let (max_fails, fail_timeout) = upstream.rule();
    let name = match upstream.method {
        Method::RoundRobin => "smooth_round_robin",
        Method::Hash(_) => "hash",
        Method::Consistent(_) => "consistent",
        Method::IpHash => "ip_hash",
        Method::LeastConn => "least_conn",
        Method::Random => "random",
        Method::RandomTwo => "random_two",
        Method::LeastTime { .. } => "least_time",
        Method::Fair => "fair",
    };
    let mut fields = Vec::new();
    if let Method::LeastTime {
        last_byte,
        inflight,
    } = upstream.method
    {
        if last_byte {
            fields.push("time = \"last_byte\"".to_owned());
        }
        if inflight {
            fields.push("inflight = true".to_owned());
        }
    }
    if max_fails != 1 && upstream.method != Method::Random {
        fields.push(format!("max_fails = {max_fails}"));
    }
    if fail_timeout != 10 && upstream.method.has_fail_timeout() {
        fields.push(format!("fail_timeout_ms = {}", fail_timeout * 1000));
    }
    if fields.is_empty() {
        return quoted(name);
    }
    format!("{{ algorithm = {}, {} }}", quoted(name), fields.join(", "))
}

/// The servers in their order: as one list, or as sources if there are names among them.
fn members(text: &mut String, upstream: &Upstream, servers: &[&Server]) {
    if !servers.iter().any(|server| is_name(server)) {
        for server in servers {
            text.push_str("\n[[backends]]\n");
            for (key, value) in backend(upstream, server) {
                let _ = writeln!(text, "{key} = {value}");
            }
        }
        return;
    }
    for run in servers.chunk_by(|a, b| !is_name(a) && !is_name(b)) {
        text.push_str("\n[[discovery]]\n");
        if let [server] = run
            && is_name(server)
        {
            text.push_str("[discovery.dns]\n");
            for (key, value) in source(upstream, server) {
                let _ = writeln!(text, "{key} = {value}");
            }
            continue;
        }
        text.push_str("static = [\n");
        for server in run {
            let fields = backend(upstream, server);
            let fields = fields.iter().map(|(key, value)| format!("{key} = {value}"));
            let _ = writeln!(text, "    {{ {} }},", fields.collect::<Vec<_>>().join(", "));
        }
        text.push_str("]\n");
    }
}

/// A server whose address is known.
fn backend(upstream: &Upstream, server: &Server) -> Vec<(&'static str, String)> {
    let address = address(server);
    let mut fields = vec![("addr", quoted(&address))];
    fields.extend(attributes(upstream, server));
    // nginx hashes the text of the line; what is left out is that of the address.
    if is_ring(upstream) && server.text != address {
        fields.push(("ring_name", quoted(&server.text)));
    }
    fields
}

fn is_ring(upstream: &Upstream) -> bool {
    matches!(upstream.method, Method::Consistent(_))
}

fn address(server: &Server) -> String {
    match &server.target {
        Target::Inet(addr) => addr.to_string(),
        Target::Unix(path) => format!("unix:{path}"),
        Target::Host { .. } | Target::Service { .. } => String::new(),
    }
}

/// A server whose addresses are to be found.
fn source(upstream: &Upstream, server: &Server) -> Vec<(&'static str, String)> {
    let mut fields = Vec::new();
    match &server.target {
        Target::Host { name, port } => {
            fields.push(("host", quoted(name)));
            fields.push(("port", port.to_string()));
        }
        Target::Service { name } => fields.push(("service", quoted(name))),
        Target::Inet(_) | Target::Unix(_) => {}
    }
    fields.extend(attributes(upstream, server));
    if is_ring(upstream) {
        fields.push(("ring_name", quoted(&server.text)));
    }
    if let (Some(resolver), Some(_)) = (&upstream.resolver, server.resolve) {
        fields.extend(asked(resolver));
    }
    fields
}

/// How names are asked for.
fn asked(resolver: &Resolver) -> Vec<(&'static str, String)> {
    let mut fields = Vec::new();
    if !resolver.servers.is_empty() {
        let servers = resolver
            .servers
            .iter()
            .map(|addr| quoted(&addr.to_string()));
        let servers = servers.collect::<Vec<_>>().join(", ");
        fields.push(("servers", format!("[{servers}]")));
    }
    match resolver.family {
        Family::Both => {}
        Family::V4 => fields.push(("family", quoted("v4"))),
        Family::V6 => fields.push(("family", quoted("v6"))),
    }
    if let Some(timeout) = resolver.timeout {
        fields.push(("timeout", time(timeout)));
    }
    if let Some(valid) = resolver.valid {
        // A second is the least.
        fields.push(("min_ttl", time(valid.max(1))));
        fields.push(("max_ttl", time(valid.max(1))));
    }
    fields
}

fn attributes(upstream: &Upstream, server: &Server) -> Vec<(&'static str, String)> {
    let mut fields = Vec::new();
    if server.weight != 1 {
        fields.push(("weight", server.weight.to_string()));
    }
    if server.role != Role::Primary {
        fields.push(("tier", "1".to_owned()));
    }
    if server.max_conns != 0 {
        fields.push(("max_in_flight", server.max_conns.to_string()));
    }
    let (max_fails, fail_timeout) = upstream.rule();
    if server.max_fails.value != max_fails {
        fields.push(("max_fails", server.max_fails.value.to_string()));
    }
    // Of a server that is never out it does not matter for how long.
    if server.fail_timeout.value != fail_timeout && server.max_fails.value != 0 {
        fields.push(("fail_timeout", time(server.fail_timeout.value)));
    }
    fields
}

/// Servers that are down are members all the same: they keep their place in a hash space.
fn admin(text: &mut String, servers: &[&Server]) {
    let state = |server: &&Server| match server.state {
        State::Up => None,
        State::Down(_) => Some("disabled"),
        State::Drain => Some("drain"),
    };
    if !servers.iter().any(|server| state(server).is_some()) {
        return;
    }
    text.push_str("\n[admin]\n");
    for server in servers {
        if let Some(state) = state(server) {
            let _ = writeln!(text, "{} = {}", quoted(&address(server)), quoted(state));
        }
    }
}

/// `slow_start`, and what counts failures.
fn rules(text: &mut String, upstream: &Upstream) {
    let Some(first) = upstream.servers.first() else {
        return;
    };
    if first.slow_start.value > 0 {
        let window = time(first.slow_start.value);
        let _ = writeln!(text, "\n[slow_start]\nwindow = {window}\nstart_percent = 1");
    }
    if upstream
        .servers
        .iter()
        .any(|server| server.max_fails.value > 0)
    {
        let (max_fails, fail_timeout) = upstream.rule();
        let _ = writeln!(
            text,
            "\n[health.passive.max_fails]\nmax_fails = {max_fails}\nfail_timeout = {}\n\
             tick = \"1s\" # nginx counts in whole seconds",
            time(fail_timeout)
        );
    }
}

fn time(seconds: u64) -> String {
    format!("\"{seconds}s\"")
}

/// A basic string of TOML.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => {
                let _ = write!(quoted, "\\u{:04X}", u32::from(c));
            }
            c => quoted.push(c),
        }
    }
    quoted + "\""
}
