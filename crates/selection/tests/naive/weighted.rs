//! The weighted family and the ring as lists: no table, no index, no atomics.
//! Also what the fuzz target `selectors` compares with.

/// Every node as often as its weight says.
fn slots(weights: &[u32]) -> Vec<usize> {
    let runs = weights.iter().enumerate();
    runs.flat_map(|(node, &weight)| vec![node; weight as usize])
        .collect()
}

fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

fn modulo(hash: u64, len: usize) -> usize {
    usize::try_from(hash % len as u64).unwrap()
}

/// 16 draws from the table, then one over the slots of all that may be picked.
pub(crate) fn fnv_model(weights: &[u32], ready: &[bool], key: &[u8]) -> Option<usize> {
    let slots = slots(weights);
    let left: Vec<_> = slots.iter().copied().filter(|&node| ready[node]).collect();
    if left.is_empty() {
        return None;
    }
    let mut hash = fnv1a(key);
    for _ in 0..16 {
        let node = slots[modulo(hash, slots.len())];
        if ready[node] {
            return Some(node);
        }
        hash = fnv1a(&hash.to_le_bytes());
    }
    Some(left[modulo(hash, left.len())])
}

/// pingora's walk: the table, then the plain list of nodes.
pub(crate) fn uniform_model(weights: &[u32], ready: &[bool], key: &[u8]) -> Option<usize> {
    let slots = slots(weights);
    let may = |node: usize| ready[node] && weights[node] > 0;
    (0..weights.len()).find(|&node| may(node))?;
    let mut hash = fnv1a(key);
    let mut node = slots[modulo(hash, slots.len())];
    while !may(node) {
        hash = fnv1a(&hash.to_le_bytes());
        node = modulo(hash, weights.len());
    }
    Some(node)
}

/// Tickets drawn one by one.
pub(crate) fn turn_model(weights: &[u32], ready: &[bool], ticket: &mut usize) -> Option<usize> {
    let slots = slots(weights);
    // A pick that finds nobody uses up one ticket.
    let found = (0..slots.len()).find(|ahead| ready[slots[(*ticket + ahead) % slots.len()]]);
    *ticket += found.unwrap_or(0) + 1;
    Some(slots[(*ticket - 1 + slots.len()) % slots.len()]).filter(|_| found.is_some())
}

/// A bit at a time.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc: u32, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| {
            (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg())
        })
    })
}

/// All points of all nodes, in ring order; of several on one place that of the first node.
pub(crate) fn ring_points(weights: &[u32]) -> Vec<(u32, usize)> {
    let mut points = Vec::new();
    for (node, &weight) in weights.iter().enumerate() {
        let mut previous = 0u32;
        for _ in 0..160 * weight {
            let mut text = format!("10.0.0.{}\x0080", node + 1).into_bytes();
            text.extend(previous.to_le_bytes());
            previous = crc32(&text);
            points.push((previous, node));
        }
    }
    points.sort_by_key(|&(point, _)| point);
    points.dedup_by_key(|&mut (point, _)| point);
    points
}

/// The nearest point at or after the key whose node may be picked.
pub(crate) fn ring_model(points: &[(u32, usize)], ready: &[bool], key: &[u8]) -> Option<usize> {
    let hash = crc32(key);
    let (before, after): (Vec<_>, Vec<_>) = points.iter().partition(|&&(point, _)| point < hash);
    let mut owners = after.iter().chain(&before).map(|&&(_, node)| node);
    owners.find(|&node| ready[node])
}
