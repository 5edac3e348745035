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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nginx;

    /// A literal is a name that needs nobody to be asked, and a zero byte is in none.
    #[test]
    fn names_become_addresses_and_keep_their_text() {
        let text = "upstream u { server a:81 weight=3; server b:82; server c:83 resolve; }";
        let mut upstream = nginx::parse(text).expect("nginx's grammar").remove(0);
        for (server, literal) in upstream.servers.iter_mut().zip(["127.0.0.1", "\0", "c"]) {
            if let Target::Host { name, .. } = &mut server.target {
                literal.clone_into(name);
            }
        }
        resolve(&mut upstream);
        let [resolved, later] = upstream.servers.as_slice() else {
            panic!("{:?}", upstream.servers);
        };
        let expected = Target::Inet(([127, 0, 0, 1], 81).into());
        assert_eq!(resolved.target, expected);
        assert_eq!((resolved.text.as_str(), resolved.weight), ("a:81", 3));
        assert!(later.resolve.is_some());
        assert_eq!(upstream.refusals.len(), 1);
        assert!(upstream.refusals[0].to_string().starts_with("1:36: b:82: "));
    }
}
