//! The steps with nginx.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::Error;
use crate::nginx::backends::Backends;
use crate::nginx::client::{Answer, Client};
use crate::nginx::script::{Pool, Request, Step};

/// nginx's answers, in the order of the requests; `None` if the seconds of some do not tell, since
/// the machine stalled where time matters.
pub(crate) async fn answers(
    pool: &Pool,
    nginx: &Path,
    backends: &Arc<Backends>,
) -> Result<Option<Vec<Answer>>, Error> {
    let addresses = pool.upstream.servers.iter().flat_map(|s| &s.addresses);
    for address in addresses.clone() {
        backends.open(address).await?;
    }
    let mut drive = Drive {
        pool,
        nginx,
        backends,
        client: Client::connect(nginx).await?,
        answers: BTreeMap::new(),
        held: HashMap::new(),
        idle: Vec::new(),
        sent: 0,
    };
    drive.run().await?;
    // A process may not have that many sockets.
    for address in addresses {
        backends.close(address).await?;
    }
    let answers: Vec<_> = drive.answers.into_values().collect();
    let stalled = pool.is_timed() && answers.iter().any(|answer| answer.second.is_none());
    Ok((!stalled).then_some(answers))
}

/// A script under way.
struct Drive<'a> {
    pool: &'a Pool,
    nginx: &'a Path,
    backends: &'a Arc<Backends>,
    client: Client,
    /// By the number of the request.
    answers: BTreeMap<usize, Answer>,
    held: HashMap<u32, Waiting>,
    /// Connections whose held requests have been answered.
    idle: Vec<Client>,
    sent: usize,
}

/// A held request.
struct Waiting {
    number: usize,
    client: Client,
    at: String,
}

impl Drive<'_> {
    async fn run(&mut self) -> Result<(), Error> {
        let mut steps = self.pool.script.iter().peekable();
        let mut ahead = Vec::new();
        while let Some(step) = steps.next() {
            if let Step::Ask(request) = step {
                ahead.push(request);
                let more = matches!(steps.peek(), Some(Step::Ask(_)));
                if !more || ahead.len() == WINDOW {
                    self.ask(&ahead).await?;
                    ahead.clear();
                }
                continue;
            }
            match step {
                Step::Ask(_) => {}
                Step::Hold(id, request) => self.hold(*id, request).await?,
                Step::Release(id) => self.release(*id).await?,
                Step::Refuse(line) => {
                    for address in &self.pool.upstream.servers[*line].addresses {
                        self.backends.close(address).await?;
                    }
                }
                Step::Accept(line) => {
                    for address in &self.pool.upstream.servers[*line].addresses {
                        self.backends.open(address).await?;
                    }
                }
                Step::Beat => beat().await?,
            }
        }
        let left: Vec<_> = self.held.keys().copied().collect();
        for id in left {
            self.release(id).await?;
        }
        Ok(())
    }

    /// Requests one after the other on one connection, sent ahead.
    async fn ask(&mut self, requests: &[&Request]) -> Result<(), Error> {
        let wire = requests.iter().map(|request| self.pool.wire(request, None));
        self.client.send(&wire.collect::<Vec<_>>().concat()).await?;
        for _ in requests {
            let answer = in_time(self.client.answer()).await?;
            self.answers.insert(self.sent, answer);
            self.sent += 1;
        }
        Ok(())
    }

    /// A request on a connection of its own, until a backend holds it or nginx has answered it.
    async fn hold(&mut self, id: u32, request: &Request) -> Result<(), Error> {
        let mut client = match self.idle.pop() {
            Some(client) => client,
            None => Client::connect(self.nginx).await?,
        };
        let name = self.name(id);
        client.send(&self.pool.wire(request, Some(&name))).await?;
        let held = async {
            tokio::select! {
                at = self.backends.arrival(&name) => Ok(Some(at)),
                answer = client.answer() => {
                    self.answers.insert(self.sent, answer?);
                    Ok(None)
                }
            }
        };
        match in_time(held).await? {
            Some(at) => {
                let number = self.sent;
                self.held.insert(id, Waiting { number, client, at });
            }
            None => self.idle.push(client),
        }
        self.sent += 1;
        Ok(())
    }

    async fn release(&mut self, id: u32) -> Result<(), Error> {
        self.backends.release(&self.name(id));
        let Some(mut waiting) = self.held.remove(&id) else {
            return Ok(());
        };
        let answer = in_time(waiting.client.answer()).await?;
        if answer.tried.last() != Some(&waiting.at) {
            let (at, tried) = (&waiting.at, &answer.tried);
            return Err(format!("held at {at}, and nginx says {tried:?}").into());
        }
        self.answers.insert(waiting.number, answer);
        self.idle.push(waiting.client);
        Ok(())
    }

    fn name(&self, id: u32) -> String {
        format!("{}/{id}", self.pool.upstream.name)
    }
}

/// Waits for the next of the moments in which a burst of requests starts. They are far from the
/// turns of the second, so that a burst is over before the next one unless the machine stalls.
async fn beat() -> Result<(), Error> {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
    let millis = since.subsec_millis();
    let next = BEATS.iter().find(|&&beat| beat > millis);
    let wait = next.map_or(1000 + BEATS[0], |&beat| beat) - millis;
    tokio::time::sleep(Duration::from_millis(wait.into())).await;
    Ok(())
}

async fn in_time<T>(answer: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    let waited = tokio::time::timeout(PATIENCE, answer).await;
    waited.unwrap_or_else(|_| Err("nginx does not answer".into()))
}

/// Requests under way on one connection; nginx reads them ahead into its buffers.
const WINDOW: usize = 32;

/// Milliseconds into the second.
const BEATS: [u32; 3] = [100, 350, 600];

/// Far beyond anything but a fault.
const PATIENCE: Duration = Duration::from_secs(20);
