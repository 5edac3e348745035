//! The same steps with ours: a `LoadBalancer`, told of every outcome.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use balancer::selection::{FailureKind, NodeSet, Outcome, Selector};
use balancer::{Address, LoadBalancer, Pick, Static};

use crate::Error;
use crate::nginx::client::Answer;
use crate::nginx::script::{Pool, Request, Step};

/// Our answers, in the order of the requests.
///
/// Of nginx's answers only the seconds are used, and those only where the script has beats. Tokio's
/// clock has to be paused.
pub(crate) async fn answers(pool: &Pool, theirs: &[Answer]) -> Result<Vec<Answer>, Error> {
    Replay::new(pool).await?.run(theirs).await
}

/// A balancer on its way through a script.
struct Replay<'a> {
    pool: &'a Pool,
    balancer: LoadBalancer<dyn Selector>,
    refusing: HashSet<Address>,
    held: HashMap<u32, Pick>,
}

impl<'a> Replay<'a> {
    async fn new(pool: &'a Pool) -> Result<Self, Error> {
        let upstream = &pool.upstream;
        let algorithm = upstream.algorithm();
        let build =
            move |nodes: &NodeSet, _: Option<&dyn Selector>| algorithm.build(nodes).map(Into::into);
        let balancer = balancer::Builder::from_factory(Static::new(upstream.backends()), build)
            .options(upstream.options().order(pool.order))
            .build()?;
        balancer.update().await?;
        Ok(Self {
            pool,
            balancer,
            refusing: HashSet::new(),
            held: HashMap::new(),
        })
    }

    async fn run(mut self, theirs: &[Answer]) -> Result<Vec<Answer>, Error> {
        let mut answers = Vec::new();
        let mut now = None;
        for step in &self.pool.script {
            if let (true, Step::Ask(_)) = (self.pool.is_timed(), step) {
                let second = theirs.get(answers.len()).and_then(|answer| answer.second);
                let passed = second
                    .zip(now)
                    .map_or(0, |(second, now): (u64, u64)| second.saturating_sub(now));
                tokio::time::advance(Duration::from_secs(passed)).await;
                now = second.or(now);
            }
            match step {
                Step::Ask(request) => answers.push(self.ask(request, None)),
                Step::Hold(id, request) => answers.push(self.ask(request, Some(*id))),
                Step::Release(id) => {
                    if let Some(pick) = self.held.remove(id) {
                        pick.complete(SUCCESS);
                    }
                }
                Step::Refuse(line) => self.refusing.extend(self.addresses(*line)),
                Step::Accept(line) => {
                    for address in self.addresses(*line) {
                        self.refusing.remove(&address);
                    }
                }
                Step::Beat => {}
            }
        }
        Ok(answers)
    }

    /// One request through its tries.
    fn ask(&mut self, request: &Request, hold: Option<u32>) -> Answer {
        let failing = self.pool.failing(request);
        let mut answer = Answer::new();
        let mut left = self.pool.upstream.tries();
        for pick in self.balancer.attempts(self.pool.key(request)) {
            let at = pick.addr.to_string();
            let status = match () {
                () if self.refusing.contains(&pick.addr) => 502,
                () if failing.contains(&at) => 500,
                () => 200,
            };
            answer.push(at, status);
            left -= 1;
            match status {
                502 => pick.complete(Outcome::Failure(FailureKind::Connect)),
                500 if left > 0 => pick.complete(Outcome::Failure(FailureKind::Status)),
                // The last answer is passed on whatever it is, and is no failure to nginx.
                _ => {
                    match hold {
                        Some(id) => drop(self.held.insert(id, pick)),
                        None => pick.complete(SUCCESS),
                    }
                    return answer;
                }
            }
            if left == 0 {
                return answer;
            }
        }
        answer.push(self.pool.upstream.name.clone(), 502);
        answer
    }

    fn addresses(&self, line: usize) -> Vec<Address> {
        self.pool.upstream.servers[line].addresses.clone()
    }
}

impl Answer {
    fn new() -> Self {
        Self {
            tried: Vec::new(),
            statuses: Vec::new(),
            second: None,
        }
    }

    fn push(&mut self, at: String, status: u16) {
        self.tried.push(at);
        self.statuses.push(status);
    }
}

const SUCCESS: Outcome = Outcome::Success {
    latency: Duration::ZERO,
    header: None,
};
