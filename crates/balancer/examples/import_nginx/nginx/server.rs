//! One `server` line of an upstream block.
//!
//! Source: nginx 1.31, `ngx_http_upstream.c`, `ngx_http_upstream_server`; `ngx_inet.c`,
//! `ngx_parse_url`; `ngx_parse.c`, `ngx_parse_time`.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use super::grammar::{Directive, Word};
use super::upstream::Kind;
use super::{Located, Place};

/// A server as its line says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Server {
    /// Of the line.
    pub(crate) at: Place,
    /// The address as it is written, which is what nginx hashes.
    pub(crate) text: String,
    pub(crate) target: Target,
    pub(crate) weight: u32,
    /// 0 = no limit.
    pub(crate) max_conns: u32,
    pub(crate) max_fails: At<u32>,
    /// In seconds.
    pub(crate) fail_timeout: At<u64>,
    /// In seconds.
    pub(crate) slow_start: At<u64>,
    pub(crate) role: Role,
    pub(crate) state: State,
    /// What is to be asked for in DNS, and when.
    pub(crate) resolve: Option<Place>,
}

/// A value, and where it stands; where the line stands if it does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct At<T> {
    pub(crate) value: T,
    pub(crate) at: Place,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Primary,
    /// And where it says so.
    Backup(Place),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Up,
    /// And where it says so.
    Down(Place),
    Drain,
}

/// Where a server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Inet(SocketAddr),
    /// A path.
    Unix(String),
    /// A name, whose addresses are not known here.
    Host {
        name: String,
        port: u16,
    },
    /// The SRV records of a name.
    Service {
        name: String,
    },
}

/// What of a line cannot be honoured, and what need not be.
pub(crate) struct Remarks<'a> {
    pub(crate) refusals: &'a mut Vec<Located>,
    pub(crate) notes: &'a mut Vec<Located>,
}

impl Server {
    /// What a line says; `None` if its address is refused.
    pub(crate) fn read(line: &Directive, kind: Kind, remarks: &mut Remarks<'_>) -> Option<Self> {
        let at = line.at();
        let Some((address, parameters)) = line.arguments().split_first() else {
            remarks.refuse(at, "`server` has no address");
            return None;
        };
        let target = match target(&address.text, kind) {
            Ok(target) => Some(target),
            Err(message) => {
                let message = format!("{:?}: {message}", address.text);
                remarks.refuse(address.at, message);
                None
            }
        };
        let mut server = Self {
            at,
            text: address.text.clone(),
            target: Target::Unix(String::new()),
            weight: 1,
            max_conns: 0,
            max_fails: At { value: 1, at },
            fail_timeout: At { value: 10, at },
            slow_start: At { value: 0, at },
            role: Role::Primary,
            state: State::Up,
            resolve: None,
        };
        let mut service = None;
        for word in parameters {
            match word.text.strip_prefix("service=") {
                Some(name) => service = Some((name, word.at)),
                None => server.set(word, remarks),
            }
        }
        server.target = target?;
        if let Some((name, at)) = service {
            server.ask_for_service(name, at, remarks);
        } else if let (Some(at), Target::Inet(_) | Target::Unix(_)) =
            (server.resolve, &server.target)
        {
            remarks.note(at, "`resolve` has nothing to resolve");
        }
        Some(server)
    }

    fn set(&mut self, word: &Word, remarks: &mut Remarks<'_>) {
        let done = match word.text.split_once('=') {
            Some(("route", _)) => {
                return remarks.note(word.at, "`route` is for `sticky`, which is not here");
            }
            Some((name, value)) => self.set_value(name, value, word.at),
            None => self.set_flag(word),
        };
        if let Err(message) = done {
            remarks.refuse(word.at, format!("`{}`: {message}", word.text));
        }
    }

    fn set_value(&mut self, name: &str, value: &str, at: Place) -> Result<(), String> {
        match name {
            "weight" => self.weight = number(value, 1)?,
            "max_conns" => self.max_conns = number(value, 0)?,
            "max_fails" => {
                let value = number(value, 0)?;
                self.max_fails = At { value, at };
            }
            "fail_timeout" => {
                let value = seconds(value)?;
                self.fail_timeout = At { value, at };
            }
            "slow_start" => {
                let value = seconds(value)?;
                self.slow_start = At { value, at };
            }
            _ => return Err(UNKNOWN.to_owned()),
        }
        Ok(())
    }

    fn set_flag(&mut self, word: &Word) -> Result<(), String> {
        match word.text.as_str() {
            "backup" => self.role = Role::Backup(word.at),
            "down" => self.state = State::Down(word.at),
            "drain" => self.state = State::Drain,
            "resolve" => self.resolve = Some(word.at),
            _ => return Err(UNKNOWN.to_owned()),
        }
        Ok(())
    }

    /// `service=http` of `example.com` is `_http._tcp.example.com`; with a dot in it the service is
    /// taken as it is.
    fn ask_for_service(&mut self, service: &str, at: Place, remarks: &mut Remarks<'_>) {
        let Target::Host { name, .. } = &self.target else {
            return remarks.refuse(at, "`service` needs a name for an address");
        };
        if self.resolve.is_none() {
            return remarks.refuse(at, "`service` needs `resolve` beside it, in nginx too");
        }
        if host_and_port(&self.text).is_ok_and(|(_, port)| port.is_some()) {
            return remarks.refuse(at, "`service` does not go with a port, in nginx neither");
        }
        if service.is_empty() {
            return remarks.refuse(at, "`service` is empty");
        }
        if self.weight != 1 || self.role != Role::Primary {
            let message = "beside `service`, weight and backup are what the records say";
            return remarks.refuse(at, message);
        }
        let name = if service.contains('.') {
            format!("{service}.{name}")
        } else {
            format!("_{service}._tcp.{name}")
        };
        self.target = Target::Service { name };
    }
}

impl Remarks<'_> {
    pub(crate) fn refuse(&mut self, at: Place, message: impl Into<String>) {
        self.refusals.push(Located::new(at, message));
    }

    pub(crate) fn note(&mut self, at: Place, message: impl Into<String>) {
        self.notes.push(Located::new(at, message));
    }
}

/// Where an address points to.
fn target(text: &str, kind: Kind) -> Result<Target, String> {
    let is_unix = text
        .get(..UNIX.len())
        .is_some_and(|start| start.eq_ignore_ascii_case(UNIX));
    if is_unix {
        return match text.get(UNIX.len()..) {
            None | Some("") => Err("no path".to_owned()),
            Some(path) => Ok(Target::Unix(path.to_owned())),
        };
    }
    let (host, port) = host_and_port(text)?;
    let port = match (port, kind) {
        (Some(port), _) => port,
        (None, Kind::Http) => HTTP,
        (None, Kind::Stream) => return Err("no port, which `stream` asks for".to_owned()),
    };
    if let Some(ip) = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'))
    {
        let ip: Ipv6Addr = ip.parse().map_err(|_| "not an IPv6 address".to_owned())?;
        return Ok(Target::Inet(SocketAddr::new(IpAddr::V6(ip), port)));
    }
    match host.parse() {
        Ok(ip) => Ok(Target::Inet(SocketAddr::new(IpAddr::V4(ip), port))),
        Err(_) => Ok(Target::Host {
            name: host.to_owned(),
            port,
        }),
    }
}

/// The parts of an address, the host with its brackets.
fn host_and_port(text: &str) -> Result<(&str, Option<u16>), String> {
    let end_of_host = match text.strip_prefix('[') {
        Some(rest) => rest.find(']').ok_or("no `]`")? + 2,
        None => text.find(':').unwrap_or(text.len()),
    };
    let (host, rest) = text.split_at(end_of_host);
    if rest.matches(':').count() > 1 {
        return Err("an IPv6 address stands in brackets".to_owned());
    }
    if host.is_empty() {
        return Err("no host".to_owned());
    }
    if host.contains(['/', '*', ' ', '$']) {
        return Err("not a host".to_owned());
    }
    let port = match rest.strip_prefix(':') {
        None if rest.is_empty() => return Ok((host, None)),
        None => return Err(format!("unexpected {rest:?} after the host")),
        Some(port) => port.parse().ok().filter(|&port| port > 0),
    };
    match port {
        // `+80` is a number for Rust.
        Some(port) if rest.bytes().skip(1).all(|b| b.is_ascii_digit()) => Ok((host, Some(port))),
        _ => Err(format!("{rest:?} is no port, 1 to 65535")),
    }
}

fn number(text: &str, min: u32) -> Result<u32, String> {
    let is_digits = text.bytes().all(|b| b.is_ascii_digit());
    let number = text
        .parse()
        .ok()
        .filter(|&number| is_digits && number >= min);
    number.ok_or_else(|| format!("the limits are {min} to {}", u32::MAX))
}

/// A time in whole seconds: numbers with units, largest first, the last one perhaps without.
pub(crate) fn seconds(text: &str) -> Result<u64, String> {
    let wrong = || "not a time in whole seconds, such as 30s or 1h30m".to_owned();
    let mut units = UNITS.iter();
    let mut rest = text;
    let mut total = 0u64;
    while !rest.is_empty() {
        let digits = rest
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(rest.len());
        let (number, after) = rest.split_at(digits);
        let number: u64 = number.parse().map_err(|_| wrong())?;
        let unit = after.chars().next();
        let length = match unit {
            None => 1,
            Some(unit) => units.find(|(name, _)| *name == unit).ok_or_else(wrong)?.1,
        };
        total = number
            .checked_mul(length)
            .and_then(|part| total.checked_add(part))
            .filter(|&total| total <= i32::MAX as u64)
            .ok_or_else(wrong)?;
        rest = after
            .get(unit.map_or(0, char::len_utf8)..)
            .unwrap_or_default();
    }
    if text.is_empty() {
        Err(wrong())
    } else {
        Ok(total)
    }
}

const UNKNOWN: &str = "not known here";

const UNIX: &str = "unix:";

/// The port of a server that says none.
const HTTP: u16 = 80;

const DAY: u64 = 24 * 3600;

const UNITS: [(char, u64); 7] = [
    ('y', 365 * DAY),
    ('M', 30 * DAY),
    ('w', 7 * DAY),
    ('d', DAY),
    ('h', 3600),
    ('m', 60),
    ('s', 1),
];
