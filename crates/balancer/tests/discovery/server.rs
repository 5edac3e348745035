//! Real servers, each in a process of its own on loopback, stopped at the end of its test.

use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use crate::support::PATIENCE;

/// A server that runs until it is dropped.
pub(crate) struct Server {
    child: Child,
    lines: Receiver<String>,
}

impl Server {
    /// Starts it and waits until it says `ready` in its log. If it ends before, as it does if
    /// somebody else took its port, that is its log.
    pub(crate) fn start(command: &mut Command, ready: &str) -> Result<Self, String> {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let log = BufReader::new(child.stderr.take().unwrap());
        let (sender, lines) = channel();
        // Ends with the server, whose log it reads to the end so that it never blocks.
        thread::spawn(move || {
            for line in log.lines().map_while(Result::ok) {
                drop(sender.send(line));
            }
        });
        let server = Self { child, lines };
        server.wait_for(ready)?;
        Ok(server)
    }

    /// Waits until it says so in its log, from where the last wait ended.
    pub(crate) fn wait_for(&self, text: &str) -> Result<(), String> {
        let mut log = Vec::new();
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) if line.contains(text) => return Ok(()),
                Ok(line) => log.push(line),
                Err(_) => return Err(format!("no {text:?} in its log:\n{}", log.join("\n"))),
            }
        }
    }

    /// Has it read its files again.
    #[cfg(feature = "dns")]
    pub(crate) fn hang_up(&self) {
        let pid = self.child.id().to_string();
        let status = Command::new("kill").args(["-HUP", &pid]).status().unwrap();
        assert!(status.success());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Whether `program` is installed. Where it is not, the test says so and passes, unless
/// `REQUIRE_SERVERS` is set, as it is in CI.
pub(crate) fn is_installed(program: &str, package: &str) -> bool {
    let found = Command::new(program)
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    if found.is_ok() {
        return true;
    }
    let missing = format!("no {program} (apt-get install {package})");
    assert!(std::env::var_os("REQUIRE_SERVERS").is_none(), "{missing}");
    eprintln!("skipped: {missing}");
    false
}

/// What `start` makes, which is given other ports if somebody took one before it listened.
pub(crate) fn started<T>(start: impl Fn() -> Result<T, String>) -> T {
    let mut last = String::new();
    for _ in 0..5 {
        match start() {
            Ok(server) => return server,
            Err(log) => last = log,
        }
    }
    panic!("{last}");
}

/// A port of loopback that is free now, for TCP and UDP.
pub(crate) fn free_port() -> SocketAddr {
    for _ in 0..100 {
        let tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let addr = tcp.local_addr().unwrap();
        if UdpSocket::bind(addr).is_ok() {
            return addr;
        }
    }
    panic!("no port is free for both");
}
