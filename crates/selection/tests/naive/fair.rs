//! The `fair` module's balancer. Also what the fuzz target `selectors` compares with.

/// The module's state and its two passes, in its own terms.
pub(crate) struct Model {
    pub(crate) weights: Vec<u32>,
    pub(crate) current_weight: Vec<u32>,
    pub(crate) last_request: Vec<u64>,
    pub(crate) requests_in_flight: Vec<u64>,
    pub(crate) fails: Vec<u32>,
    pub(crate) max_fails: u32,
    pub(crate) total: u64,
    pub(crate) current: usize,
}

impl Model {
    pub(crate) fn pick(&mut self, up: &[bool]) -> Option<usize> {
        let len = self.weights.len();
        self.total += 1;
        let order: Vec<_> = (1..=len).map(|step| (self.current + step) % len).collect();
        let open = |node: usize| up[node] && self.weights[node] > 0;
        let idle = |node: usize| self.requests_in_flight[node] == 0 && self.fails[node] == 0;
        let mut best = order.iter().copied().find(|&node| open(node) && idle(node));
        if best.is_none() {
            let mut lowest = u64::MAX;
            for &node in &order {
                if !open(node) || self.fails[node] >= self.max_fails {
                    continue;
                }
                let age = (self.total - self.last_request[node]).min((1 << 20) - 1);
                let mut score = (self.requests_in_flight[node] << 20) | (!age & ((1 << 20) - 1));
                let left = self.max_fails - self.fails[node];
                let weight = self.current_weight[node] * left / self.max_fails;
                if weight > 0 {
                    score /= u64::from(weight);
                }
                if score <= lowest {
                    (lowest, best) = (score, Some(node));
                }
            }
        }
        let node = best?;
        (self.current, self.last_request[node]) = (node, self.total);
        self.current_weight[node] = match self.current_weight[node] {
            0 => self.weights[node],
            left => left - 1,
        };
        Some(node)
    }
}
