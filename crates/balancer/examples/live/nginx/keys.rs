//! Random keys and addresses, in as many spellings as nginx accepts.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;

use balancer::Address;

use crate::nginx::upstream::{Key, Server};
use crate::random::Random;

/// A server on 127.0.0.0/8.
pub(crate) fn ipv4(random: &mut Random) -> Server {
    let port = random.port();
    Server::new(SocketAddr::from((loopback(random), port)).into())
}

/// An IPv6 server, with or without a port, written in one of the ways that name this address.
pub(crate) fn ipv6(random: &mut Random) -> Server {
    let mut segments = [0; 8];
    segments[0] = PREFIX;
    for segment in &mut segments[1..] {
        // Zeros make the spellings differ.
        if random.percent(50) {
            *segment = random.port();
        }
    }
    let ip = Ipv6Addr::from(segments);
    let host = match random.below(4) {
        0 => ip.to_string().to_uppercase(),
        1 => segments.map(|segment| format!("{segment:x}")).join(":"),
        2 => segments.map(|segment| format!("{segment:04x}")).join(":"),
        _ => ip.to_string(),
    };
    if random.percent(25) {
        return spelt(format!("[{host}]"), (ip, DEFAULT_PORT).into());
    }
    let port = random.port();
    spelt(format!("[{host}]:{port}"), (ip, port).into())
}

/// A server without a port.
pub(crate) fn without_port(random: &mut Random) -> Server {
    let ip = loopback(random);
    spelt(ip.to_string(), (ip, DEFAULT_PORT).into())
}

/// A socket below the working folder; nginx cuts off the prefix and hashes the rest, whatever it
/// looks like.
pub(crate) fn unix(random: &mut Random) -> Server {
    let number = random.next() >> 40;
    let path = match random.below(4) {
        0 => format!("{SOCKETS}/{number:x}:81"),
        1 => format!("{SOCKETS}/{number:x}.sock"),
        _ => format!("{SOCKETS}/{number:x}"),
    };
    let prefix = random.one_of(&["unix:", "unix:", "UNIX:", "Unix:"]);
    Server {
        text: format!("{prefix}{path}"),
        ..Server::new(Address::Unix(PathBuf::from(path)))
    }
}

/// A name with one to four addresses, in the order in which the resolver shall give them.
pub(crate) fn name(random: &mut Random) -> Server {
    let name = format!("s{:x}.live.test", random.next() >> 36);
    let (text, port) = if random.percent(25) {
        (name, DEFAULT_PORT)
    } else {
        let port = random.port();
        (format!("{name}:{port}"), port)
    };
    let mut ips: Vec<_> = (0..random.between(1, 4))
        .map(|_| loopback(random))
        .collect();
    ips.sort_unstable();
    let address = |ip| Address::from(SocketAddr::from((ip, port)));
    Server {
        addresses: ips.into_iter().map(address).collect(),
        text,
        ..Server::new(address(Ipv4Addr::LOCALHOST))
    }
}

/// A client of any address.
pub(crate) fn client(random: &mut Random) -> IpAddr {
    let bits = u128::from(random.next()) << 64 | u128::from(random.next());
    let ip = Ipv6Addr::from(bits);
    let [.., a, b, c, d] = ip.octets();
    match random.below(8) {
        // Neighbours, who share their first three octets.
        0..=2 => Ipv4Addr::new(10, 0, c, d).into(),
        3..=4 => Ipv4Addr::new(a, b, c, d).into(),
        5 => Ipv4Addr::new(a, b, c, d).to_ipv6_mapped().into(),
        _ => ip.into(),
    }
}

/// A key that a header or a request target can carry.
pub(crate) fn key(random: &mut Random, of: Key) -> Vec<u8> {
    let length = match random.below(4) {
        0 => random.between(1, 4),
        1 => random.between(60, 120),
        _ => random.between(5, 30),
    };
    let byte = |random: &mut Random| match of {
        Key::Header if random.percent(20) => random.octet(0x80, 0xff),
        Key::Header => random.octet(0x21, 0x7e),
        Key::Uri => random.one_of(IN_TARGETS),
    };
    (0..length).map(|_| byte(random)).collect()
}

fn spelt(text: String, address: SocketAddr) -> Server {
    Server {
        text,
        ..Server::new(address.into())
    }
}

fn loopback(random: &mut Random) -> Ipv4Addr {
    let [b, c] = [(); 2].map(|()| random.octet(0, 255));
    Ipv4Addr::new(127, b, c, random.octet(1, 254))
}

/// Where the sockets are, below the working folder: what is hashed must not depend on that.
pub(crate) const SOCKETS: &str = "s";

/// The first segment of every IPv6 address, of those for private use.
const PREFIX: u16 = 0xfd12;

/// nginx's.
const DEFAULT_PORT: u16 = 80;

/// Neither escapes nor dots, which nginx would have an opinion on; the target is hashed raw.
const IN_TARGETS: &[u8] =
    b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_~!$&'()*+,;=:@/?";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_is_of_the_address_behind_it() {
        let mut random = Random::new(1, "");
        for _ in 0..200 {
            let server = ipv6(&mut random);
            let address = server.addresses[0].as_inet().unwrap();
            match server.text.parse::<SocketAddr>() {
                Ok(written) => assert_eq!(written, address),
                Err(_) => assert_eq!(server.text.parse(), Ok(bracketed(&server.text, address))),
            }
            let server = unix(&mut random);
            let (prefix, path) = server.text.split_at(5);
            assert_eq!(prefix.to_lowercase(), "unix:");
            assert_eq!(server.addresses[0].to_string(), format!("unix:{path}"));
        }
    }

    /// The text without its brackets must be the address, and the port nginx's default.
    fn bracketed(text: &str, address: SocketAddr) -> String {
        let bare = text.trim_matches(['[', ']']);
        assert_eq!(bare.parse::<IpAddr>().unwrap(), address.ip());
        assert_eq!(address.port(), 80);
        text.to_owned()
    }

    #[test]
    fn keys_survive_the_way_through_http() {
        let mut random = Random::new(2, "");
        for _ in 0..500 {
            let header = key(&mut random, Key::Header);
            assert!(!header.is_empty() && header.iter().all(|&byte| byte > b' ' && byte != 0x7f));
            let target = key(&mut random, Key::Uri);
            assert!(target.iter().all(u8::is_ascii_graphic));
            assert!(!target.iter().any(|byte| b"#%.".contains(byte)));
        }
    }
}
