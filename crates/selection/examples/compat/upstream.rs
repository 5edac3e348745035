//! The `upstream` block that a recording of nginx was made with.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

use selection::{Node, NodeSet};

use crate::Error;
use crate::table;

/// The `server` lines of one block, in order, and what the names in them resolved to.
pub(crate) struct Upstream {
    servers: Vec<Server>,
    names: HashMap<String, Vec<String>>,
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
        let servers = block.lines().filter_map(Server::parse).collect();
        Ok(Self { servers, names })
    }

    /// The peers as nginx numbers them: each address of a line in turn, known to the ring by the
    /// text of the line.
    pub(crate) fn nodes(&self) -> Result<NodeSet, Error> {
        let mut nodes = Vec::new();
        for server in &self.servers {
            let weight = server.parameter("weight").unwrap_or("1").parse()?;
            for address in self.addresses(&server.text)? {
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
        let line = line.trim().strip_prefix("server ")?.strip_suffix(';')?;
        let mut words = line.split_whitespace().map(str::to_owned);
        Some(Self {
            text: words.next()?,
            parameters: words.collect(),
        })
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
