//! A network of our own, where every address and port is free, and names are ours to give.

use std::env;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::net::SocketAddr;
use std::process::{Command, ExitCode, Stdio};

use crate::Error;
use crate::nginx::TEST_DOMAIN;
use crate::nginx::upstream::Server;
use crate::process::{Folder, command};

/// Where we run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Namespace {
    /// In network and mount namespaces of our own; whatever we start ends with us.
    Own,
    /// Where we were started: 127.0.0.0/8 and the ports that are free.
    Shared,
}

impl Namespace {
    /// Where this process is: in the namespaces that [`enter`](Self::enter) made, with their network
    /// switched on, or where the user started it.
    pub(crate) fn here() -> Result<Self, Error> {
        if Folder::shared().is_none() {
            return Ok(Self::Shared);
        }
        ip("link set lo up\n")?;
        Ok(Self::Own)
    }

    /// Runs this program again in namespaces of its own and returns what came of it, or `None` if
    /// the machine does not let us have them.
    pub(crate) fn enter(folder: &Folder) -> Option<ExitCode> {
        let program = env::current_exe().ok()?;
        // Without root a namespace of users, in which we are root, may do.
        let user = [&[][..], &["--map-root-user"]]
            .into_iter()
            .find(|user| may_unshare(user))?;
        let mut inside = unshare(user);
        inside.arg(program).args(env::args_os().skip(1));
        folder.share(&mut inside);
        let status = inside.status();
        let code = status.ok().and_then(|status| status.code());
        let code = code.and_then(|code| u8::try_from(code).ok());
        Some(code.map_or(ExitCode::FAILURE, ExitCode::from))
    }

    pub(crate) fn is_own(self) -> bool {
        self == Self::Own
    }

    /// Gives the namespace the addresses and the names of these servers.
    pub(crate) fn prepare<'a>(
        self,
        servers: impl Iterator<Item = &'a Server> + Clone,
    ) -> Result<(), Error> {
        if self == Self::Shared {
            return Ok(());
        }
        // nginx asks for addresses of the kinds that the machine has, those of loopback not counted.
        let mut batch = "addr replace 192.0.2.1/32 dev lo\n".to_owned();
        let addresses = servers.clone().flat_map(|server| &server.addresses);
        for inet in addresses.filter_map(|address| address.as_inet()) {
            if let SocketAddr::V6(inet) = inet {
                writeln!(batch, "addr replace {}/128 dev lo nodad", inet.ip())?;
            }
        }
        ip(&batch)?;
        fs::write("hosts", hosts(servers))?;
        let mount = ["--bind", "hosts", "/etc/hosts"];
        if !command("mount").args(mount).status()?.success() {
            return Err("`mount` cannot put our hosts file in place".into());
        }
        Ok(())
    }
}

fn unshare(user: &[&str]) -> Command {
    let mut command = command("unshare");
    command.args(user);
    command.args(["--net", "--mount", "--pid", "--fork", "--kill-child"]);
    command
}

/// Whether we may have the namespaces, and do in them what is needed.
fn may_unshare(user: &[&str]) -> bool {
    let trial = "ip link set lo up && ip addr add fd12::1/128 dev lo \
                 && mount --bind /etc/hosts /etc/hosts";
    let status = unshare(user)
        .args(["sh", "-c", trial])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    status.is_ok_and(|status| status.success())
}

/// Runs commands of `ip`.
fn ip(batch: &str) -> Result<(), Error> {
    let mut ip = command("ip")
        .args(["-batch", "-"])
        .stdin(Stdio::piped())
        .spawn()?;
    if let Some(mut input) = ip.stdin.take() {
        input.write_all(batch.as_bytes())?;
    }
    if ip.wait()?.success() {
        return Ok(());
    }
    Err(format!("`ip` cannot set up the network:\n{batch}").into())
}

/// Every name of ours with its addresses, in their order.
fn hosts<'a>(servers: impl Iterator<Item = &'a Server>) -> String {
    let mut hosts = "127.0.0.1 localhost\n".to_owned();
    for server in servers.filter(|server| server.text.contains(TEST_DOMAIN)) {
        let name = server.text.split(':').next().unwrap_or(&server.text);
        for inet in server
            .addresses
            .iter()
            .filter_map(|address| address.as_inet())
        {
            hosts += &format!("{} {name}\n", inet.ip());
        }
    }
    hosts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_written_without_their_ports_and_addresses_are_left_out() {
        let server = |text: &str, ips: &[&str]| Server {
            text: text.to_owned(),
            addresses: ips.iter().map(|ip| ip.parse().unwrap()).collect(),
            ..Server::new("127.0.0.1:1".parse().unwrap())
        };
        let servers = [
            server("a.live.test:8080", &["127.1.1.1:8080", "127.1.1.2:8080"]),
            server("127.3.3.3:80", &["127.3.3.3:80"]),
            server("b.live.test", &["127.2.2.2:80"]),
        ];
        let expected = "127.0.0.1 localhost\n127.1.1.1 a.live.test\n127.1.1.2 a.live.test\n\
                        127.2.2.2 b.live.test\n";
        assert_eq!(hosts(servers.iter()), expected);
    }
}
