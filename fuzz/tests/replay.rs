//! Every input of the corpora once, in an ordinary build.

use std::fs;
use std::path::Path;

use arbitrary::{Arbitrary, Unstructured};

/// As libFuzzer hands an input to a target.
fn replay<I: for<'a> Arbitrary<'a>>(target: &str, run: fn(I)) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("corpus")
        .join(target);
    let files = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{folder:?}: {error}"));
    let mut replayed = 0;
    for file in files {
        let path = file.unwrap().path();
        println!("{}", path.display());
        let bytes = fs::read(path).unwrap();
        run(I::arbitrary_take_rest(Unstructured::new(&bytes)).unwrap());
        replayed += 1;
    }
    assert!(replayed > 0, "{folder:?} is empty");
}

#[test]
fn ring() {
    replay("ring", fuzz::ring::run);
}

#[test]
fn selectors() {
    replay("selectors", fuzz::selectors::run);
}

#[test]
fn balancer() {
    replay("balancer", fuzz::balancer::run);
}

#[test]
fn config() {
    replay("config", |bytes: Bytes| fuzz::config::run(&bytes.0));
}

#[test]
fn importer() {
    replay("importer", |bytes: Bytes| fuzz::importer::run(&bytes.0));
}

/// An input that is taken as it is.
struct Bytes(Vec<u8>);

impl<'a> Arbitrary<'a> for Bytes {
    fn arbitrary(bytes: &mut Unstructured<'a>) -> arbitrary::Result<Self> {
        Ok(Self(
            bytes.peek_bytes(bytes.len()).unwrap_or_default().to_vec(),
        ))
    }
}
