//! HAProxy's bound on the load of a server. Also what the fuzz target `selectors` compares with.

/// `chash_server_is_eligible`: weights times 16, whole slots by weight, then the remainder.
pub(crate) fn has_room(weights: &[u64], in_flight: &[u64], percent: u64, node: usize) -> bool {
    let scaled: Vec<_> = weights.iter().map(|weight| weight * 16).collect();
    let total: u64 = scaled.iter().sum();
    let slots = ((in_flight.iter().sum::<u64>() + 1) * percent).div_ceil(100);
    let (whole, remainder) = (slots / total, slots % total);
    let before: u64 = scaled[..node].iter().sum();
    let own = scaled[node] * whole + (before + scaled[node]) * remainder / total
        - before * remainder / total;
    in_flight[node] < own.max(1)
}
