//! An `upstream` block: as nginx reads it, and as a balancer of ours.

use std::sync::Arc;
use std::time::Duration;

use balancer::selection::{
    Algorithm, IpHashConfig, KetamaConfig, LeastConnConfig, ModuloHashConfig, RandomTwoConfig,
    SmoothConfig, WeightedConfig,
};
use balancer::{Address, Admin, Backend, MaxFails, Options, Passive};

/// One block.
#[derive(Clone, Debug)]
pub(crate) struct Upstream {
    /// The name of the block, and of the location that leads to it.
    pub(crate) name: String,
    pub(crate) method: Method,
    pub(crate) key: Key,
    /// In configuration order.
    pub(crate) servers: Vec<Server>,
    /// Of every server that has no other: the rule of a balancer of ours.
    pub(crate) max_fails: u32,
    /// As `max_fails`, in seconds.
    pub(crate) fail_timeout: u64,
    /// `proxy_next_upstream_tries`.
    pub(crate) max_tries: Option<usize>,
    /// Of our own random choices; nginx takes its from the process and the clock.
    pub(crate) seed: u64,
}

/// One `server` line.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    /// The address as written; what nginx hashes.
    pub(crate) text: String,
    /// What the text stands for, in the order in which the system's resolver answers.
    pub(crate) addresses: Vec<Address>,
    pub(crate) weight: u32,
    pub(crate) max_conns: Option<u32>,
    /// In place of the upstream's.
    pub(crate) max_fails: Option<u32>,
    /// In place of the upstream's, in seconds.
    pub(crate) fail_timeout: Option<u64>,
    pub(crate) role: Role,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Primary,
    Backup,
    Down,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    RoundRobin,
    Consistent,
    Hash,
    IpHash,
    LeastConn,
    Random,
    RandomTwo,
}

/// What a hash method hashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Key {
    /// The request header `X-Key`.
    Header,
    /// `$request_uri`, as the client sent it.
    Uri,
}

impl Upstream {
    /// The most tries that a request may take: one a peer that is not down.
    pub(crate) fn tries(&self) -> usize {
        let up = self.servers.iter().filter(|s| s.role != Role::Down);
        let peers = up.map(|server| server.addresses.len()).sum();
        self.max_tries.map_or(peers, |most| most.min(peers))
    }

    /// Whether requests are hashed by what they ask for, and not by a header.
    pub(crate) fn hashes_uri(&self) -> bool {
        self.key == Key::Uri
    }

    /// The block, with the method line last: only then nginx lets every method have backups.
    pub(crate) fn block(&self) -> String {
        let mut block = format!("upstream {} {{\n", self.name);
        for server in &self.servers {
            block += "    ";
            block += &self.line(server);
            block += "\n";
        }
        if let Some(method) = self.method.line(self.key) {
            block += "    ";
            block += &method;
            block += "\n";
        }
        block + "}\n"
    }

    /// The location whose requests go to this block, with what is to be known of each answer.
    pub(crate) fn location(&self) -> String {
        let name = &self.name;
        let tries = self.max_tries.unwrap_or(0);
        format!(
            "location /{name}/ {{\n\
             \x20   set $began $msec;\n\
             \x20   proxy_pass http://{name};\n\
             \x20   proxy_next_upstream error timeout http_500;\n\
             \x20   proxy_next_upstream_tries {tries};\n\
             \x20   add_header X-Tried $upstream_addr always;\n\
             \x20   add_header X-Statuses $upstream_status always;\n\
             \x20   add_header X-Began $began always;\n\
             \x20   add_header X-Ended $msec always;\n\
             }}\n"
        )
    }

    /// The same servers for a balancer of ours.
    pub(crate) fn backends(&self) -> Vec<Backend> {
        let backends = |server: &Server| {
            let backend = |address: &Address| server.backend(address);
            server.addresses.iter().map(backend).collect::<Vec<_>>()
        };
        self.servers.iter().flat_map(backends).collect()
    }

    /// The same rules for a balancer of ours.
    pub(crate) fn options(&self) -> Options {
        let rule = MaxFails::default()
            .max_fails(self.max_fails)
            .fail_timeout(Duration::from_secs(self.fail_timeout))
            .tick(Duration::from_secs(1));
        let options = Options::default().passive(Passive::MaxFails(rule));
        let down = self.servers.iter().filter(|s| s.role == Role::Down);
        down.flat_map(|server| &server.addresses)
            .fold(options, |options, address| {
                options.admin(address.clone(), Admin::Disabled)
            })
    }

    /// The same method of ours.
    pub(crate) fn algorithm(&self) -> Algorithm {
        let fails = self.max_fails;
        match self.method {
            Method::RoundRobin => {
                Algorithm::SmoothRoundRobin(SmoothConfig::default().max_fails(fails))
            }
            Method::Consistent => Algorithm::Consistent(KetamaConfig::default().max_fails(fails)),
            Method::Hash => Algorithm::Hash(ModuloHashConfig::default().max_fails(fails)),
            Method::IpHash => Algorithm::IpHash(IpHashConfig::default().max_fails(fails)),
            Method::LeastConn => Algorithm::LeastConn(LeastConnConfig::default().max_fails(fails)),
            Method::Random => Algorithm::Random(WeightedConfig::default().seed(self.seed)),
            Method::RandomTwo => {
                let config = RandomTwoConfig::default().max_fails(fails);
                Algorithm::RandomTwo(config.seed(self.seed))
            }
        }
    }

    fn line(&self, server: &Server) -> String {
        let fails = server.max_fails.unwrap_or(self.max_fails);
        let seconds = server.fail_timeout.unwrap_or(self.fail_timeout);
        let mut line = format!("server {}", server.text);
        if server.weight != 1 {
            line += &format!(" weight={}", server.weight);
        }
        line += &format!(" max_fails={fails} fail_timeout={seconds}s");
        if let Some(most) = server.max_conns {
            line += &format!(" max_conns={most}");
        }
        line += match server.role {
            Role::Primary => "",
            Role::Backup => " backup",
            Role::Down => " down",
        };
        line + ";"
    }
}

impl Server {
    /// A server of weight 1 at one address, written as the address is.
    pub(crate) fn new(address: Address) -> Self {
        Self {
            text: address.to_string(),
            addresses: vec![address],
            weight: 1,
            max_conns: None,
            max_fails: None,
            fail_timeout: None,
            role: Role::Primary,
        }
    }

    fn backend(&self, address: &Address) -> Backend {
        let mut backend = Backend::new(address.clone())
            .with_weight(self.weight)
            .with_tier(u8::from(self.role == Role::Backup))
            .with_ring_name(Arc::from(self.text.as_str()));
        backend.max_in_flight = self.max_conns;
        backend.max_fails = self.max_fails;
        backend.fail_timeout = self.fail_timeout.map(Duration::from_secs);
        backend
    }
}

impl Method {
    fn line(self, key: Key) -> Option<String> {
        let key = match key {
            Key::Header => "$http_x_key",
            Key::Uri => "$request_uri",
        };
        Some(match self {
            Self::RoundRobin => return None,
            Self::Consistent => format!("hash {key} consistent;"),
            Self::Hash => format!("hash {key};"),
            Self::IpHash => "ip_hash;".to_owned(),
            Self::LeastConn => "least_conn;".to_owned(),
            Self::Random => "random;".to_owned(),
            Self::RandomTwo => "random two least_conn;".to_owned(),
        })
    }
}

/// The whole configuration: one worker in one process, which listens on a Unix socket in its
/// working folder and keeps everything that it writes there.
pub(crate) fn configuration<'a>(upstreams: impl Iterator<Item = &'a Upstream> + Clone) -> String {
    let mut text = HEAD.to_owned();
    for folder in ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"] {
        text += &format!("{folder}_temp_path {folder};\n");
    }
    for upstream in upstreams.clone() {
        text += &upstream.block();
    }
    text += "server {\nlisten unix:";
    text += SOCKET;
    text += ";\n";
    for upstream in upstreams {
        text += &upstream.location();
    }
    text + "}\n}\n"
}

/// Where nginx listens.
pub(crate) const SOCKET: &str = "nginx.sock";

/// The client's address is what the request says, so that one connection can speak for many. The
/// user is the one we are, who in a namespace of users is the only one that there is.
const HEAD: &str = "\
user root root;
daemon off;
master_process off;
worker_processes 1;
pid nginx.pid;
error_log nginx.log;
events { worker_connections 4096; }
http {
access_log off;
keepalive_requests 10000000;
keepalive_timeout 600s;
proxy_read_timeout 600s;
large_client_header_buffers 16 16k;
set_real_ip_from unix:;
real_ip_header X-Client;
";

#[cfg(test)]
mod tests {
    use super::*;

    fn upstream() -> Upstream {
        let server = |text: &str| Server::new(text.parse().unwrap());
        Upstream {
            name: "p1".to_owned(),
            method: Method::Consistent,
            key: Key::Header,
            servers: vec![
                Server {
                    weight: 3,
                    max_conns: Some(2),
                    ..server("127.1.2.3:4000")
                },
                Server {
                    role: Role::Backup,
                    max_fails: Some(0),
                    fail_timeout: Some(5),
                    ..server("[fd00::1]:80")
                },
                Server {
                    role: Role::Down,
                    ..server("unix:s/a.sock")
                },
            ],
            max_fails: 2,
            fail_timeout: 1,
            max_tries: None,
            seed: 0,
        }
    }

    #[test]
    fn the_block_says_all_that_the_balancer_is_told() {
        let expected = "\
upstream p1 {
    server 127.1.2.3:4000 weight=3 max_fails=2 fail_timeout=1s max_conns=2;
    server [fd00::1]:80 max_fails=0 fail_timeout=5s backup;
    server unix:s/a.sock max_fails=2 fail_timeout=1s down;
    hash $http_x_key consistent;
}
";
        assert_eq!(upstream().block(), expected);
        let backends = upstream().backends();
        let told: Vec<_> = backends
            .iter()
            .map(|b| (b.addr.to_string(), b.weight, b.tier, b.max_in_flight))
            .collect();
        assert_eq!(told[0], ("127.1.2.3:4000".to_owned(), 3, 0, Some(2)));
        assert_eq!(told[1], ("[fd00::1]:80".to_owned(), 1, 1, None));
        let own = |n: usize| (backends[n].max_fails, backends[n].fail_timeout);
        assert_eq!(own(0), (None, None));
        assert_eq!(own(1), (Some(0), Some(Duration::from_secs(5))));
        let down = "unix:s/a.sock".parse().unwrap();
        let admin = upstream().options().admin;
        assert!(admin.into_iter().eq([(down, Admin::Disabled)]));
        assert_eq!(backends[2].ring_name.as_deref(), Some("unix:s/a.sock"));
    }

    #[test]
    fn round_robin_has_no_line_and_tries_are_those_of_servers_that_are_not_down() {
        let plain = Upstream {
            method: Method::RoundRobin,
            ..upstream()
        };
        assert_eq!(plain.block().lines().count(), 5);
        assert_eq!(plain.tries(), 2);
        let capped = Upstream {
            max_tries: Some(1),
            ..plain
        };
        assert_eq!(capped.tries(), 1);
        assert!(capped.location().contains("proxy_next_upstream_tries 1;"));
    }

    #[test]
    fn every_upstream_has_a_block_and_a_location() {
        let other = Upstream {
            name: "p2".to_owned(),
            ..upstream()
        };
        let all = [upstream(), other];
        let text = configuration(all.iter());
        for line in [
            "upstream p2 {",
            "location /p1/ {",
            "listen unix:nginx.sock;",
        ] {
            assert_eq!(text.matches(line).count(), 1, "{line}");
        }
        assert_eq!(text.matches('{').count(), text.matches('}').count());
    }
}
