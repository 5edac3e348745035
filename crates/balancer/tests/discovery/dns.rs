//! Records of a real name server, dnsmasq.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::process::Command;
use std::time::Duration;

use balancer::discovery::{
    Absent, Dns, DnsConfig, DnsError, DnsErrorKind, Family, HostName, Question,
};
use balancer::selection::RoundRobin;
use balancer::{Backend, Discovery, LoadBalancer};

use crate::folder::Folder;
use crate::observed::{Observed, members};
use crate::server::{Server, free_port, is_installed, started};
use crate::support::text;

/// dnsmasq over a hosts file and options for SRV records, authoritative for `test.`.
pub(crate) struct NameServer {
    /// Before the folder, which goes after it.
    server: Option<Server>,
    folder: Folder,
    pub(crate) addr: SocketAddr,
}

impl NameServer {
    /// `None` if there is no dnsmasq.
    pub(crate) fn start(test: &str, hosts: &str, services: &[&str]) -> Option<Self> {
        if !is_installed("dnsmasq", "dnsmasq-base") {
            return None;
        }
        Some(started(|| {
            let mut name_server = Self {
                folder: Folder::new(test),
                addr: free_port(),
                server: None,
            };
            fs::write(name_server.folder.file("hosts"), hosts).unwrap();
            name_server.run(services)?;
            Ok(name_server)
        }))
    }

    fn run(&mut self, services: &[&str]) -> Result<(), String> {
        let mut command = Command::new("dnsmasq");
        command
            .args([
                "--no-daemon",
                "--conf-file=/dev/null",
                "--no-resolv",
                "--no-hosts",
            ])
            .args([
                "--listen-address=127.0.0.1",
                "--bind-interfaces",
                "--local=/test/",
            ])
            .arg("--local-ttl=1")
            .arg(format!("--port={}", self.addr.port()))
            .arg(format!(
                "--addn-hosts={}",
                self.folder.file("hosts").display()
            ))
            .args(
                services
                    .iter()
                    .map(|service| format!("--srv-host={service}")),
            );
        self.server = Some(Server::start(&mut command, "hosts - ")?);
        Ok(())
    }

    fn stop(&mut self) {
        self.server = None;
    }

    /// Replaces the addresses.
    fn set_hosts(&self, hosts: &str) {
        fs::write(self.folder.file("hosts"), hosts).unwrap();
        let server = self.server.as_ref().unwrap();
        server.hang_up();
        server.wait_for("hosts - ").unwrap();
    }

    fn config(&self) -> DnsConfig {
        config(self.addr)
    }

    fn dns(&self, question: Question) -> Dns {
        Dns::with_config(question, self.config()).unwrap()
    }

    async fn answer(&self, question: Question) -> String {
        text(&self.dns(question).discover().await)
    }
}

fn config(server: SocketAddr) -> DnsConfig {
    DnsConfig::default().servers([server])
}

#[tokio::test]
async fn a_and_aaaa_records_are_backends_with_the_port_that_was_given() {
    let hosts = "127.0.0.2 pool.test\n127.0.0.3 pool.test\n::2 pool.test\n127.0.0.9 other.test\n";
    let Some(server) = NameServer::start("dns-a", hosts, &[]) else {
        return;
    };
    let question = Question::host("pool.test.", 80);
    for (family, expected) in [
        (
            Family::Both,
            "127.0.0.2:80 1 0, 127.0.0.3:80 1 0, [::2]:80 1 0",
        ),
        (Family::V4, "127.0.0.2:80 1 0, 127.0.0.3:80 1 0"),
        (Family::V6, "[::2]:80 1 0"),
    ] {
        let config = server.config().family(family);
        let dns = Dns::with_config(question.clone(), config).unwrap();
        let answer = dns.discover().await;
        assert_eq!(text(&answer), expected);
        for backend in answer.unwrap() {
            let host: &HostName = backend.ext.get().unwrap();
            assert_eq!(host.as_str(), "pool.test");
        }
    }
    // One family is enough.
    let answer = server.answer(Question::host("other.test", 1)).await;
    assert_eq!(answer, "127.0.0.9:1 1 0");
}

#[tokio::test]
async fn srv_records_are_weights_and_tiers() {
    let hosts = "127.0.0.2 a.test\n127.0.0.3 b.test\n127.0.0.4 c.test\n127.0.0.5 c.test\n";
    let services = [
        "_http._tcp.test,a.test,8001,10,60",
        "_http._tcp.test,b.test,8002,10,0",
        "_http._tcp.test,c.test,8003,20,5",
        "_http._tcp.test,away.test,8004,15,5",
        "_away._tcp.test,away.test,8004,1,5",
        "_none._tcp.test",
    ];
    let Some(server) = NameServer::start("dns-srv", hosts, &services) else {
        return;
    };
    let dns = server.dns(Question::service("_http._tcp.test"));
    let found = dns.discover().await;
    // Priority 15 is a tier too, whose only target has no address. Weight 0 is 1.
    assert_eq!(
        text(&found),
        "127.0.0.2:8001 60 0, 127.0.0.3:8002 1 0, 127.0.0.4:8003 5 2, 127.0.0.5:8003 5 2"
    );
    let name = |b: &Backend| b.ext.get::<HostName>().unwrap().as_str().to_owned();
    let mut names: Vec<_> = found.unwrap().iter().map(name).collect();
    names.sort();
    assert_eq!(names, ["a.test", "b.test", "c.test", "c.test"]);

    assert_eq!(
        server.answer(Question::service("_away._tcp.test")).await,
        "error: away.test.: the name does not exist (NXDOMAIN)"
    );
    assert_eq!(
        server.answer(Question::service("_none._tcp.test")).await,
        "error: _none._tcp.test: the name has no SRV records"
    );
}

#[tokio::test]
async fn errors_are_told_apart() {
    let hosts = "127.0.0.2 four.test\n";
    let Some(server) = NameServer::start("dns-errors", hosts, &[]) else {
        return;
    };
    let silent = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let hasty = config(silent.local_addr().unwrap())
        .timeout(Duration::from_millis(100))
        .retries(0);
    let here = server.config();
    let rows = [
        ("away.test.", here.clone(), DnsErrorKind::NoSuchName),
        (
            "four.test.",
            here.clone().family(Family::V6),
            DnsErrorKind::NoRecords("AAAA".into()),
        ),
        // Not its zone, and nobody to ask.
        (
            "example.com.",
            here,
            DnsErrorKind::ServerFailed("Query Refused".into()),
        ),
        ("four.test.", hasty, DnsErrorKind::TimedOut),
    ];
    for (name, config, expected) in rows {
        let question = Question::host(name, 80);
        let dns = Dns::with_config(question.clone(), config.clone()).unwrap();
        let error = dns.discover().await.unwrap_err();
        let cause: &DnsError = error.cause().downcast_ref().unwrap();
        assert_eq!((cause.name(), cause.kind()), (name, &expected));

        // That there is nothing may be meant; that nobody knows is never an empty pool.
        let empty = Dns::with_config(question, config.absent(Absent::Empty)).unwrap();
        assert_eq!(
            empty.discover().await.is_ok(),
            cause.is_absence(),
            "{cause}"
        );
    }
}

#[tokio::test]
async fn a_question_that_is_answered_in_part_has_no_answer() {
    let socket = tokio::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))
        .await
        .unwrap();
    let hasty = config(socket.local_addr().unwrap())
        .timeout(Duration::from_millis(200))
        .retries(0);
    let ask = async |family| {
        let config = hasty.clone().family(family);
        let dns = Dns::with_config(Question::host("pool.test.", 80), config).unwrap();
        let answer = dns.discover().await;
        (text(&answer), dns.valid_for())
    };
    let asking = async {
        let (answer, holds) = ask(Family::V4).await;
        assert_eq!(answer, "127.0.0.7:80 1 0");
        assert!(
            (30.0..=33.0).contains(&holds.unwrap().as_secs_f64()),
            "{holds:?}"
        );
        let (answer, holds) = ask(Family::Both).await;
        assert_eq!(answer, "error: pool.test.: no name server answered in time");
        assert_eq!(holds, None);
    };
    tokio::select! {
        () = asking => {}
        () = answer_a_only(&socket) => {}
    }
}

/// A name server that knows 127.0.0.7, for 30 s, and is silent about everything but A records.
async fn answer_a_only(socket: &tokio::net::UdpSocket) {
    let mut buffer = [0; 512];
    loop {
        let (length, client) = socket.recv_from(&mut buffer).await.unwrap();
        let query = &buffer[..length];
        let name_end = 12 + query[12..].iter().position(|&byte| byte == 0).unwrap();
        let question = &query[12..name_end + 5];
        if !question.ends_with(&[0, 1, 0, 1]) {
            continue;
        }
        // The same number; an answer without error; one question and one answer, RFC 1035, 4.1.
        let header = [&query[..2], &[0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0]].concat();
        let record = [0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 30, 0, 4, 127, 0, 0, 7];
        let answer = [&header, question, &record].concat();
        socket.send_to(&answer, client).await.unwrap();
    }
}

/// A name server that hears every question and answers none.
#[tokio::test]
async fn nothing_is_asked_before_an_update_and_nobody_waits_for_the_answer() {
    let socket = tokio::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))
        .await
        .unwrap();
    let config = config(socket.local_addr().unwrap()).family(Family::V4);
    let dns = Dns::with_config(Question::host("pool.test.", 80), config).unwrap();
    let balancer = LoadBalancer::<RoundRobin>::new(dns).unwrap();
    let mut buffer = [0; 512];
    let heard = socket.try_recv(&mut buffer).unwrap_err();
    assert_eq!(heard.kind(), std::io::ErrorKind::WouldBlock);
    // There is one thread: if the update held on to it, the question would be heard by nobody.
    tokio::select! {
        answer = balancer.update() => panic!("nobody answered: {answer:?}"),
        question = socket.recv(&mut buffer) => assert!(question.unwrap() > 12),
    }
    assert!(balancer.select(b"").is_none());
}

#[test]
fn what_is_no_name_is_refused_at_once() {
    let error = Dns::new(Question::host("a..b", 80)).unwrap_err();
    assert!(
        matches!(error.kind(), DnsErrorKind::InvalidName(_)),
        "{error}"
    );
}

#[tokio::test]
async fn changes_are_found_when_the_records_run_out() {
    let Some(server) = NameServer::start("dns-ttl", "127.0.0.2 pool.test\n", &[]) else {
        return;
    };
    let source = Observed::new(server.dns(Question::host("pool.test.", 80)));
    let (balancer, _running) = source.start();
    source.until_members(&balancer, "127.0.0.2:80").await;
    let holds = source.valid_for().unwrap();
    assert!((Duration::from_secs(1)..Duration::from_millis(1101)).contains(&holds));
    server.set_hosts("127.0.0.3 pool.test\n127.0.0.4 pool.test\n");
    source
        .until_members(&balancer, "127.0.0.3:80 127.0.0.4:80")
        .await;
}

/// The host name that comes with each address is compared like everything else.
#[tokio::test]
async fn the_same_answer_again_publishes_nothing() {
    let hosts = "127.0.0.2 pool.test\n127.0.0.3 pool.test\n";
    let Some(server) = NameServer::start("dns-same", hosts, &[]) else {
        return;
    };
    let dns = server.dns(Question::host("pool.test.", 80));
    let balancer = LoadBalancer::<RoundRobin>::new(dns).unwrap();
    balancer.update().await.unwrap();
    let first = balancer.select(b"").unwrap();
    let again = balancer.update().await.unwrap();
    assert_eq!((again.generation, again.build), (1, Duration::ZERO));
    let second = balancer.select_where(b"", |backend| backend.addr == first.addr);
    assert!(std::ptr::eq::<Backend>(&*second.unwrap(), &*first));
}

#[tokio::test]
async fn a_server_that_restarts_loses_no_backend() {
    let hosts = "127.0.0.2 a.test\n127.0.0.3 b.test\n";
    let Some(mut server) = NameServer::start("dns-restart", hosts, &["_s._tcp.test,a.test,1"])
    else {
        return;
    };
    let source = Observed::new(server.dns(Question::service("_s._tcp.test.")));
    let (balancer, _running) = source.start();
    source.until_members(&balancer, "127.0.0.2:1").await;
    server.stop();
    source
        .until(&balancer, |balancer| balancer.status().failed_updates > 0)
        .await;
    assert_eq!(members(&balancer), "127.0.0.2:1");
    assert!(balancer.select(b"").is_some());
    server.run(&["_s._tcp.test,b.test,2"]).unwrap();
    source.until_members(&balancer, "127.0.0.3:2").await;
}
