//! `cargo xtask features`: a feature that is switched on acts through every crate, and changes no
//! answer of anything else.
//!
//! 1. The manifests hand every feature down by the same name (`manifest.rs`).
//! 2. Each feature alone, none, and all pairs compile without a warning. (`cargo xtask ci` takes
//!    only the pairs of features that are handed down: the others bring dependencies of their own,
//!    and each pair would build those anew.)
//! 3. Programs outside the workspace, which depend on one crate each, see the effect of a feature
//!    and do not compile without it; and what default configs answer is the same, byte for byte,
//!    with every feature (`probe.rs`).
//!
//! The outcome is the table in `docs/features.md`; `--write` puts it there.

mod manifest;
mod probe;

use crate::document::Document;
use crate::features::manifest::{Exception, Manifest};
use crate::features::probe::EFFECTS;
use crate::process::{Cargo, Failure, root, target};

pub(crate) fn run(mut arguments: lexopt::Parser) -> Result<(), Failure> {
    use lexopt::Arg::Long;
    let mut document = Document::Compare;
    while let Some(argument) = arguments.next()? {
        match argument {
            Long("write") => document = Document::Write,
            _ => return Err(argument.unexpected().into()),
        }
    }
    check(document, Pairs::All)
}

/// Which pairs of features are compiled.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pairs {
    All,
    /// Those of two features that more than one crate has.
    HandedDown,
}

pub(crate) fn check(document: Document, pairs: Pairs) -> Result<(), Failure> {
    let members = Manifest::members(&root().join("Cargo.toml"))?;
    let mut failures = manifest::violations(&members, EXCEPTIONS);
    report("the manifests hand every feature down", failures.is_empty());
    let crates: Vec<_> = ENTRIES
        .iter()
        .filter_map(|entry| members.iter().find(|member| member.name == *entry))
        .collect();
    for member in &crates {
        failures.extend(combinations(member, pairs)?);
        failures.extend(effects(member)?);
        failures.extend(answers(member)?);
    }
    let table = table(&crates);
    print!("\n{table}");
    for Exception {
        from,
        to,
        feature,
        reason,
    } in EXCEPTIONS
    {
        println!("{from} does not hand {feature} down to {to}: {reason}");
    }
    document.place("features.md", "features", &table)?;
    for failure in &failures {
        eprintln!("features: {failure}");
    }
    println!("features: {} failures", failures.len());
    if failures.is_empty() {
        Ok(())
    } else {
        Err(Failure::Exit(1))
    }
}

/// No feature and each feature alone, tests included; and every pair, as a user builds it.
fn combinations(member: &Manifest, pairs: Pairs) -> Result<Vec<String>, Failure> {
    let features: Vec<_> = member.named().collect();
    let tests = &["--lib", "--tests"][..];
    let mut sets = vec![(String::new(), tests)];
    sets.extend(features.iter().map(|one| ((*one).to_owned(), tests)));
    let paired: Vec<_> = features
        .iter()
        .filter(|feature| {
            pairs == Pairs::All || member.name == ENTRIES[0] || member.hands_down(feature)
        })
        .collect();
    for (index, one) in paired.iter().enumerate() {
        let others = paired.iter().skip(index + 1);
        sets.extend(others.map(|other| (format!("{one},{other}"), &["--lib"][..])));
    }
    let mut failures = Vec::new();
    for (features, targets) in sets {
        let check = Cargo::new(["clippy", "--quiet", "-p", &member.name])
            .arguments(targets)
            .arguments(["--no-default-features", "--features", &features])
            .arguments(["--", "-D", "warnings"]);
        let output = check.output()?;
        report(
            &format!("{} compiles with [{features}]", member.name),
            output.success,
        );
        if !output.success {
            failures.push(format!("`{}`:\n{}", check.line(), output.stderr));
        }
    }
    Ok(failures)
}

/// The features that the crates below have too act through this one.
fn effects(member: &Manifest) -> Result<Vec<String>, Failure> {
    let mut failures = Vec::new();
    for effect in EFFECTS.iter().filter(|effect| effect.entry == member.name) {
        let result = probe::effect(&target(), effect);
        report(
            &format!("{}/{} acts", member.name, effect.feature),
            result.is_ok(),
        );
        failures.extend(message(result)?);
    }
    let unproven = member.named().filter(|feature| {
        let acts = shows(member, feature) == Shown::Effect;
        member.hands_down(feature) && !acts && !NO_EFFECT.contains(feature)
    });
    failures.extend(unproven.map(|feature| {
        format!(
            "{}/{feature}: no program in probe.rs shows its effect",
            member.name
        )
    }));
    Ok(failures)
}

/// What default configs answer is the same with each feature as with none.
fn answers(member: &Manifest) -> Result<Vec<String>, Failure> {
    let target = target();
    let expected = probe::answers(&target, &member.name, &[])?;
    let mut failures = Vec::new();
    for feature in member.named() {
        let answers = probe::answers(&target, &member.name, &[feature])?;
        report(
            &format!("{}/{feature} changes no answer", member.name),
            answers == expected,
        );
        if answers != expected {
            let name = &member.name;
            failures.push(format!(
                "{name}/{feature}:\n{answers}instead of\n{expected}"
            ));
        }
    }
    Ok(failures)
}

fn report(what: &str, holds: bool) {
    println!("{} {what}", if holds { "ok    " } else { "FAILED" });
}

/// A message is a finding; an exit status of something else ends the run.
fn message(result: Result<(), Failure>) -> Result<Option<String>, Failure> {
    match result {
        Ok(()) => Ok(None),
        Err(Failure::Message(message)) => Ok(Some(message)),
        Err(failure) => Err(failure),
    }
}

/// What the table says of a feature of a crate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shown {
    Effect,
    SameAnswers,
    No,
}

fn shows(member: &Manifest, feature: &str) -> Shown {
    let effect =
        |effect: &&probe::Effect| (effect.entry, effect.feature) == (&member.name, feature);
    if !member.features.contains_key(feature) {
        Shown::No
    } else if EFFECTS.iter().any(|one| effect(&one)) {
        Shown::Effect
    } else {
        Shown::SameAnswers
    }
}

fn table(crates: &[&Manifest]) -> String {
    let mut features: Vec<_> = crates.iter().flat_map(|member| member.named()).collect();
    features.sort_unstable();
    features.dedup();
    let names: Vec<_> = crates.iter().map(|member| member.name.as_str()).collect();
    let mut table = format!(
        "| feature | {} |\n|---|{}\n",
        names.join(" | "),
        "---|".repeat(names.len())
    );
    for feature in features {
        let cells: Vec<_> = crates
            .iter()
            .map(|member| match shows(member, feature) {
                Shown::Effect => "acts",
                Shown::SameAnswers => "has it",
                Shown::No => "-",
            })
            .collect();
        table += &format!("| `{feature}` | {} |\n", cells.join(" | "));
    }
    table
}

/// The crates that a user can depend on, lowest first.
const ENTRIES: &[&str] = &["ketama", "selection", "balancer"];

/// Features that only change how a result is computed.
const NO_EFFECT: &[&str] = &["std"];

const EXCEPTIONS: &[Exception] = &[];
