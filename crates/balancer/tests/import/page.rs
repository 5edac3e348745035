//! What `docs/migrating-from-nginx.md` says that a line becomes.

use std::collections::BTreeSet;

use crate::import;

const PAGE: &str = include_str!("../../../../docs/migrating-from-nginx.md");

/// The blocks of the page: language and text.
fn blocks() -> Vec<(&'static str, &'static str)> {
    let parts = PAGE.split("```").skip(1).step_by(2);
    parts.filter_map(|block| block.split_once('\n')).collect()
}

#[test]
fn blocks_become_what_stands_after_them() {
    let blocks = blocks();
    let pairs = blocks.windows(2).filter(|pair| pair[0].0 == "nginx");
    let mut pools = 0;
    for pair in pairs {
        let [(_, nginx), (language, expected)] = pair else {
            panic!("two of them");
        };
        assert!(["toml", "text"].contains(language), "{nginx}");
        assert_eq!(import(nginx).trim_end(), expected.trim_end());
        pools += 1;
    }
    assert_eq!(pools, 3);
}

/// The rows of the tables whose second column is what a line becomes.
#[test]
fn lines_become_what_stands_beside_them() {
    let mut rows = 0;
    let mut is_table = false;
    for line in PAGE.lines() {
        if line.starts_with("| nginx | here | what differs") {
            is_table = true;
        }
        is_table &= line.starts_with('|');
        let cells: Vec<_> = line.split('|').map(str::trim).collect();
        if !is_table || ["nginx", "---"].contains(&cells[1]) {
            continue;
        }
        let said = cells[1].trim_matches('`');
        let said = if said == "no method" { "" } else { said };
        let printed = import(&format!("upstream u {{ {said} server 10.0.0.9:99; }}"));
        match cells[2] {
            "refused" => assert!(!printed.contains("algorithm = "), "{said}\n{printed}"),
            "noted" => assert!(printed.contains("\n# line 1: `"), "{said}\n{printed}"),
            expected => {
                let expected = expected.trim_matches('`');
                assert!(
                    printed.contains(&format!("{expected}\n")),
                    "{said}\n{printed}"
                );
            }
        }
        rows += 1;
    }
    assert_eq!(rows, 39);
}

/// What the importer matches on, its names of directives and parameters, is on the page.
#[test]
fn every_name_that_the_importer_knows_is_on_the_page() {
    let sources = [
        include_str!("../../examples/import_nginx/nginx/server.rs"),
        include_str!("../../examples/import_nginx/nginx/upstream.rs"),
    ];
    let arms = sources.iter().flat_map(|source| source.lines());
    let arms = arms.filter(|line| line.contains("=>") || line.trim().starts_with('|'));
    let names = arms.flat_map(|line| line.split('"').skip(1).step_by(2));
    let is_name = |name: &&str| {
        name.len() > 1
            && name
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte == b'_')
    };
    let names: BTreeSet<_> = names.filter(is_name).collect();
    assert!(names.contains("max_conns") && names.contains("resolver_timeout"));
    let missing: Vec<_> = names.iter().filter(|name| !PAGE.contains(**name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}
