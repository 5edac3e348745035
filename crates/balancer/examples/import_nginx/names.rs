//! Names of servers, looked up now: what nginx does when it starts.

use std::net::ToSocketAddrs;

use crate::nginx::server::Target;
use crate::nginx::{Located, Upstream};

/// Puts in place of each server with a name one for each of its addresses, in their order. Names
/// that nginx resolves again and again stay as they are.
pub(crate) fn resolve(upstream: &mut Upstream) {
    let mut servers = Vec::with_capacity(upstream.servers.len());
    for server in std::mem::take(&mut upstream.servers) {
        let Target::Host { name, port } = &server.target else {
            servers.push(server);
            continue;
        };
        if server.resolve.is_some() {
            servers.push(server);
            continue;
        }
        match (name.as_str(), *port).to_socket_addrs() {
            Ok(found) => {
                let mut seen = Vec::new();
                for addr in found {
                    if !seen.contains(&addr) {
                        seen.push(addr);
                    }
                }
                servers.extend(seen.into_iter().map(|addr| {
                    let mut server = server.clone();
                    server.target = Target::Inet(addr);
                    server
                }));
            }
            Err(error) => {
                let message = format!("{}: {error}", server.text);
                upstream.refusals.push(Located::new(server.at, message));
            }
        }
    }
    upstream.servers = servers;
}
