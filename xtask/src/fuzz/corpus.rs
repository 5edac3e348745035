//! The corpus in the repository: few inputs that reach much.
//!
//! libFuzzer's own merge keeps every input that is the only one to reach some edge so often; for a
//! parser these are thousands. Here each input kept is the one that adds the most edges to those
//! before it, and there is a limit.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crate::process::Failure;

/// One input: its size, and the edges that it reaches.
#[derive(Debug, Default)]
struct Input {
    path: String,
    size: u64,
    edges: BTreeSet<u32>,
}

/// Makes `corpus` the best of the inputs that libFuzzer has listed in the control file of a
/// set-cover merge. Returns how many there are.
pub(super) fn choose(control: &str, corpus: &Path, most: usize) -> Result<usize, Failure> {
    let inputs = parse(control).ok_or_else(|| UNEXPECTED.to_owned())?;
    let mut kept = BTreeMap::new();
    for input in best(&inputs, most) {
        let path = Path::new(&input.path);
        let name = path.file_name().unwrap_or_default().to_owned();
        kept.insert(name, fs::read(path)?);
    }
    for entry in fs::read_dir(corpus)? {
        let entry = entry?;
        if !kept.contains_key(&entry.file_name()) {
            fs::remove_file(entry.path())?;
        }
    }
    for (name, bytes) in &kept {
        fs::write(corpus.join(name), bytes)?;
    }
    Ok(kept.len())
}

/// Greedily, the smallest of equals, until nothing is added or there are enough.
fn best(inputs: &[Input], most: usize) -> Vec<&Input> {
    let (mut chosen, mut reached) = (Vec::new(), BTreeSet::new());
    while chosen.len() < most {
        let gain = |input: &&Input| input.edges.difference(&reached).count();
        let best = inputs.iter().max_by_key(|input| {
            (
                gain(input),
                std::cmp::Reverse((input.size, input.path.as_str())),
            )
        });
        let Some(best) = best.filter(|best| gain(best) > 0) else {
            break;
        };
        reached.extend(&best.edges);
        chosen.push(best);
    }
    chosen
}

/// The number of files, that of the first folder, the files; then of each by its number
/// `STARTED N SIZE` and `FT N FEATURE ...`, among other lines. A feature is one of the eight classes
/// of how often an edge was passed. (`COV` has only the edges that no file before had.)
fn parse(control: &str) -> Option<Vec<Input>> {
    let mut lines = control.lines();
    let files: usize = lines.next()?.parse().ok()?;
    lines.next()?;
    let mut inputs = Vec::with_capacity(files);
    for _ in 0..files {
        let path = lines.next()?.to_owned();
        inputs.push(Input {
            path,
            ..Input::default()
        });
    }
    for line in lines {
        let (what, numbers) = line.split_once(' ')?;
        let mut numbers = numbers.split_whitespace();
        let input = inputs.get_mut(numbers.next()?.parse::<usize>().ok()?)?;
        match what {
            "STARTED" => input.size = numbers.next()?.parse().ok()?,
            "FT" => {
                let edge = |feature: &str| feature.parse::<u32>().map(|feature| feature / 8);
                input.edges = numbers.map(edge).collect::<Result<_, _>>().ok()?;
            }
            _ => {}
        }
    }
    Some(inputs)
}

const UNEXPECTED: &str = "the control file of libFuzzer's merge is not as expected";

#[cfg(test)]
mod tests {
    use super::*;

    const CONTROL: &str = "4\n1\na/1\nb/2\nb/3\nb/4\n\
        STARTED 0 10\nFT 0 80 81 88\nCOV 0 10 11\n\
        STARTED 1 9\nFT 1 80 96 104\nCOV 1 12 13\n\
        STARTED 2 8\nFT 2 80 97 105\nCOV 2\n\
        STARTED 3 1\nFT 3\nCOV 3\n";

    #[test]
    fn what_adds_the_most_is_kept_and_the_smallest_of_equals() {
        let inputs = parse(CONTROL).unwrap();
        let paths = |most| -> Vec<_> {
            let best = best(&inputs, most).into_iter();
            best.map(|input| input.path.as_str()).collect()
        };
        assert_eq!(paths(9), ["b/3", "a/1"]);
        assert_eq!(paths(1), ["b/3"]);
        assert!(parse("4\n1\na/1\n").is_none());
    }
}
