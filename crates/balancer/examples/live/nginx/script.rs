//! What is asked of one upstream, step by step; nginx and ours go through the same.

use std::net::IpAddr;

use balancer::Order;

use crate::nginx::upstream::{Method, Upstream};

/// One upstream and the steps.
#[derive(Clone, Debug)]
pub(crate) struct Pool {
    pub(crate) upstream: Upstream,
    pub(crate) script: Vec<Step>,
    /// How a balancer of ours numbers the servers; if by address, the lines are sorted.
    pub(crate) order: Order,
    /// Whether every request has a key.
    pub(crate) has_keys: bool,
}

#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// A request, with its answer.
    Ask(Request),
    /// A request that the server which gets it does not answer until it is released.
    Hold(u32, Request),
    /// Its answer.
    Release(u32),
    /// The server on this line refuses connections from now on.
    Refuse(usize),
    /// It accepts them again.
    Accept(usize),
    /// The time goes on, by a part of a second.
    Beat,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Request {
    /// Empty: no header, or just the location.
    pub(crate) key: Vec<u8>,
    /// Where it comes from, as nginx is told; from a Unix socket, if it is not.
    pub(crate) client: Option<IpAddr>,
    /// The lines whose servers answer this one with status 500.
    pub(crate) errors: Vec<usize>,
}

impl Pool {
    pub(crate) fn is_timed(&self) -> bool {
        self.script.iter().any(|step| matches!(step, Step::Beat))
    }

    /// The requests among the steps, in the order in which they are sent.
    pub(crate) fn requests(&self) -> impl Iterator<Item = &Request> {
        self.script.iter().filter_map(|step| match step {
            Step::Ask(request) | Step::Hold(_, request) => Some(request),
            _ => None,
        })
    }

    /// The bytes that are hashed for a request.
    pub(crate) fn key(&self, request: &Request) -> Vec<u8> {
        match request.client {
            Some(IpAddr::V4(ip)) => ip.octets().to_vec(),
            Some(IpAddr::V6(ip)) => ip.octets().to_vec(),
            // What nginx takes for a client on a Unix socket.
            None if self.upstream.method == Method::IpHash => vec![0; 3],
            None if self.upstream.hashes_uri() => self.uri(request),
            None => request.key.clone(),
        }
    }

    /// The request as it is sent. `hold` is the name under which a backend is to hold it.
    pub(crate) fn wire(&self, request: &Request, hold: Option<&str>) -> Vec<u8> {
        let mut wire = b"GET ".to_vec();
        wire.extend(self.uri(request));
        wire.extend(b" HTTP/1.1\r\nHost: live\r\n");
        let mut field = |name: &str, value: &[u8]| {
            wire.extend(format!("{name}: ").bytes());
            wire.extend(value);
            wire.extend(b"\r\n");
        };
        if !self.upstream.hashes_uri() && !request.key.is_empty() {
            field("X-Key", &request.key);
        }
        if let Some(client) = request.client {
            field("X-Client", client.to_string().as_bytes());
        }
        if let Some(hold) = hold {
            field("X-Hold", hold.as_bytes());
        }
        if !request.errors.is_empty() {
            field("X-Fail", self.failing(request).join(" ").as_bytes());
        }
        wire.extend(b"\r\n");
        wire
    }

    /// The addresses that answer `request` with status 500.
    pub(crate) fn failing(&self, request: &Request) -> Vec<String> {
        let servers = request
            .errors
            .iter()
            .map(|&line| &self.upstream.servers[line]);
        let addresses = servers.flat_map(|server| &server.addresses);
        addresses.map(ToString::to_string).collect()
    }

    fn uri(&self, request: &Request) -> Vec<u8> {
        let mut uri = format!("/{}/", self.upstream.name).into_bytes();
        if self.upstream.hashes_uri() {
            uri.extend(&request.key);
        }
        uri
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nginx::upstream::{Key, Server};

    fn pool(key: Key) -> Pool {
        let upstream = Upstream {
            name: "p".to_owned(),
            method: Method::Hash,
            key,
            servers: vec![Server::new("127.0.0.1:81".parse().unwrap())],
            max_fails: 1,
            fail_timeout: 1,
            max_tries: None,
            seed: 0,
        };
        Pool {
            upstream,
            script: Vec::new(),
            order: Order::Listed,
            has_keys: false,
        }
    }

    #[test]
    fn what_is_sent_is_what_is_hashed() {
        let request = Request {
            key: b"a\xffb".to_vec(),
            ..Request::default()
        };
        let by_header = pool(Key::Header);
        assert_eq!(by_header.key(&request), b"a\xffb");
        assert_eq!(
            by_header.wire(&request, None),
            b"GET /p/ HTTP/1.1\r\nHost: live\r\nX-Key: a\xffb\r\n\r\n"
        );
        let by_uri = pool(Key::Uri);
        assert_eq!(by_uri.key(&request), b"/p/a\xffb");
        assert_eq!(
            by_uri.wire(&request, Some("h")),
            b"GET /p/a\xffb HTTP/1.1\r\nHost: live\r\nX-Hold: h\r\n\r\n"
        );
    }

    #[test]
    fn clients_and_failing_servers_are_told() {
        let request = Request {
            client: Some([10, 1, 2, 3].into()),
            errors: vec![0],
            ..Request::default()
        };
        let mut pool = pool(Key::Header);
        assert_eq!(pool.key(&request), [10, 1, 2, 3]);
        pool.upstream.method = Method::IpHash;
        assert_eq!(pool.key(&request), [10, 1, 2, 3]);
        assert_eq!(pool.key(&Request::default()), [0; 3]);
        let wire = String::from_utf8(pool.wire(&request, None)).unwrap();
        assert!(wire.contains("X-Client: 10.1.2.3\r\nX-Fail: 127.0.0.1:81\r\n\r\n"));
    }
}
