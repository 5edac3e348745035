//! The `upstream` block that a recording of nginx was made with.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

use selection::{Node, NodeSet};

use crate::Error;
use crate::table;

/// The lines of one block, in order, and what the names in them resolved to.
pub(crate) struct Upstream {
    method: String,
    servers: Vec<Server>,
    names: HashMap<String, Vec<String>>,
    recording: serde_json::Value,
}

/// One `server` line.
pub(crate) struct Server {
    /// The address as written; what nginx hashes.
    pub(crate) text: String,
    parameters: Vec<String>,
}

impl Upstream {
    /// The block of `test-data/nginx/NAME.csv`.
    pub(crate) fn read(name: &str) -> Result<Self, Error> {
        let block = table::text(&format!("nginx/conf/{name}.conf"))?;
        let recording: serde_json::Value =
            serde_json::from_str(&table::text(&format!("nginx/conf/{name}.json"))?)?;
        let names = match recording.get("names") {
            Some(names) => serde_json::from_value(names.clone())?,
            None => HashMap::new(),
        };
        let lines = || block.lines().map(str::trim);
        let method = lines()
            .filter(|line| !line.starts_with("upstream") && !line.starts_with("server "))
            .find_map(|line| line.strip_suffix(';'));
        Ok(Self {
            method: method.unwrap_or_default().to_owned(),
            servers: lines().filter_map(Server::parse).collect(),
            names,
            recording,
        })
    }

    /// The line that names the algorithm; empty for round robin, which has none.
    pub(crate) fn method(&self) -> &str {
        &self.method
    }

    /// The `server` lines with their addresses.
    pub(crate) fn servers(&self) -> Result<Vec<(&Server, Vec<String>)>, Error> {
        let addresses = |server: &Server| self.addresses(&server.text);
        self.servers
            .iter()
            .map(|server| Ok((server, addresses(server)?)))
            .collect()
    }

    /// What else was set when the recording was made; `Null` if this was not.
    pub(crate) fn setting(&self, name: &str) -> &serde_json::Value {
        &self.recording[name]
    }

    /// The peers as nginx numbers them: each address of a line in turn, known to the ring by the
    /// text of the line.
    pub(crate) fn nodes(&self) -> Result<NodeSet, Error> {
        let mut nodes = Vec::new();
        for (server, addresses) in self.servers()? {
            let weight = server.parameter("weight").unwrap_or("1").parse()?;
            for address in addresses {
                let node = Node::new(address.as_str(), weight);
                nodes.push(node.with_ring_name(server.text.as_str()));
            }
        }
        Ok(NodeSet::in_order(nodes)?)
    }

    /// The addresses behind the text of a `server` line, with the port that nginx connects to.
    fn addresses(&self, text: &str) -> Result<Vec<String>, Error> {
        let is_unix = text
            .get(..5)
            .is_some_and(|scheme| scheme.eq_ignore_ascii_case("unix:"));
        if is_unix || text.parse::<SocketAddr>().is_ok() {
            return Ok(vec![text.to_owned()]);
        }
        let bare = text.trim_start_matches('[').trim_end_matches(']');
        if bare.parse::<IpAddr>().is_ok() {
            return Ok(vec![format!("{text}:{DEFAULT_PORT}")]);
        }
        let (name, port) = text.split_once(':').unwrap_or((text, DEFAULT_PORT));
        let hosts = self
            .names
            .get(name)
            .ok_or_else(|| format!("no address is recorded for {name:?}"))?;
        Ok(hosts.iter().map(|host| format!("{host}:{port}")).collect())
    }
}

impl Server {
    fn parse(line: &str) -> Option<Self> {
        let line = line.strip_prefix("server ")?.strip_suffix(';')?;
        let mut words = line.split_whitespace().map(str::to_owned);
        Some(Self {
            text: words.next()?,
            parameters: words.collect(),
        })
    }

    /// Whether the line has the word `name`.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.parameters.iter().any(|parameter| parameter == name)
    }

    /// The value of `NAME=VALUE`.
    pub(crate) fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters
            .iter()
            .find_map(|parameter| parameter.strip_prefix(name)?.strip_prefix('='))
    }
}

/// nginx's, where a line gives none.
const DEFAULT_PORT: &str = "80";
