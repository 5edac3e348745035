//! The files of a configuration: the one that was asked for, and those that it includes.

use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::nginx::grammar::{self, Directive, Word};
use crate::nginx::{Located, Place};

/// The files that were read.
#[derive(Debug, Default)]
pub(crate) struct Files {
    paths: Vec<PathBuf>,
    /// Includes that were not followed, and why.
    pub(crate) missing: Vec<Located>,
}

impl Files {
    /// The directives of a file, with those of the files that it includes in their places.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, or one of them is not in nginx's grammar.
    pub(crate) fn read(&mut self, path: &Path) -> Result<Vec<Directive>, Located> {
        // nginx takes includes relative to its own configuration, not to the file they stand in.
        let root = path.parent().unwrap_or_else(|| Path::new("")).to_owned();
        let nowhere = Place::default();
        let tree = self.tree(path);
        let mut tree = tree.map_err(|error| match error {
            Wrong::Unreadable(error) => {
                Located::new(nowhere, format!("{}: {error}", path.display()))
            }
            Wrong::Grammar(error) => error,
        })?;
        self.follow(&mut tree, &root, 0)?;
        Ok(tree)
    }

    /// `PATH:LINE:COLUMN: MESSAGE`.
    pub(crate) fn text(&self, located: &Located) -> String {
        match self.paths.get(located.at.file) {
            _ if located.at == Place::default() => located.message.clone(),
            Some(path) => format!("{}:{located}", path.display()),
            None => located.to_string(),
        }
    }

    fn tree(&mut self, path: &Path) -> Result<Vec<Directive>, Wrong> {
        // nginx takes any bytes; what is not UTF-8 stands in no server line that could be honoured.
        let bytes = fs::read(path).map_err(Wrong::Unreadable)?;
        let file = self.paths.len();
        self.paths.push(path.to_owned());
        grammar::parse(&String::from_utf8_lossy(&bytes), file).map_err(Wrong::Grammar)
    }

    fn follow(
        &mut self,
        tree: &mut Vec<Directive>,
        root: &Path,
        depth: usize,
    ) -> Result<(), Located> {
        let mut followed = Vec::with_capacity(tree.len());
        for mut directive in std::mem::take(tree) {
            if let Some(block) = &mut directive.block {
                self.follow(block, root, depth)?;
                followed.push(directive);
                continue;
            }
            let [name, pattern] = directive.words.as_slice() else {
                followed.push(directive);
                continue;
            };
            if name.text != "include" {
                followed.push(directive);
                continue;
            }
            match self.included(name, pattern, root, depth)? {
                Some(included) => followed.extend(included),
                None => followed.push(directive),
            }
        }
        *tree = followed;
        Ok(())
    }

    /// What an `include` stands for; `None` if that cannot be had.
    fn included(
        &mut self,
        name: &Word,
        pattern: &Word,
        root: &Path,
        depth: usize,
    ) -> Result<Option<Vec<Directive>>, Located> {
        if depth == MAX_DEPTH {
            let message = format!("more than {MAX_DEPTH} files included in one another");
            return Err(Located::new(name.at, message));
        }
        let mut included = Vec::new();
        for path in matching(&root.join(&pattern.text)) {
            match self.tree(&path) {
                Ok(tree) => included.extend(tree),
                Err(Wrong::Grammar(error)) => return Err(error),
                Err(Wrong::Unreadable(error)) => {
                    let message = format!("{} is not included: {error}", path.display());
                    self.missing.push(Located::new(name.at, message));
                    return Ok(None);
                }
            }
        }
        self.follow(&mut included, root, depth + 1)?;
        Ok(Some(included))
    }
}

enum Wrong {
    Unreadable(io::Error),
    Grammar(Located),
}

/// The files that a pattern stands for, in the order of their names; a path without `*` and `?`
/// stands for itself. Only the last part of a path is a pattern.
fn matching(pattern: &Path) -> Vec<PathBuf> {
    let name = pattern.file_name().unwrap_or_default().to_string_lossy();
    let folder = pattern.parent().unwrap_or_else(|| Path::new(""));
    if !name.contains(['*', '?']) {
        return vec![pattern.to_owned()];
    }
    let folder = if folder.as_os_str().is_empty() {
        Path::new(".")
    } else {
        folder
    };
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<_> = entries
        .filter(|entry| is_match(&entry.file_name().to_string_lossy(), &name))
        .map(|entry| entry.path())
        .collect();
    paths.sort();
    paths
}

fn is_match(name: &str, pattern: &str) -> bool {
    if name.starts_with('.') && !pattern.starts_with('.') {
        return false;
    }
    let mut rest = pattern.chars();
    match rest.next() {
        None => name.is_empty(),
        Some('*') => {
            let mut tails = name.char_indices().map(|(at, _)| &name[at..]).chain([""]);
            tails.any(|tail| is_rest(tail, rest.as_str()))
        }
        Some(_) => is_rest(name, pattern),
    }
}

/// As [`is_match`], in the middle of a name.
fn is_rest(name: &str, pattern: &str) -> bool {
    let (mut name_chars, mut rest) = (name.chars(), pattern.chars());
    match (rest.next(), name_chars.next()) {
        (None, None) => true,
        (Some('*'), next) => {
            is_rest(name, rest.as_str())
                || (next.is_some() && is_rest(name_chars.as_str(), pattern))
        }
        (Some('?'), Some(_)) => is_rest(name_chars.as_str(), rest.as_str()),
        (Some(expected), Some(c)) if c == expected => is_rest(name_chars.as_str(), rest.as_str()),
        _ => false,
    }
}

/// As deep as any configuration; a file that includes itself ends here.
const MAX_DEPTH: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder of its own, removed at the end.
    struct Folder(PathBuf);

    impl Folder {
        fn new(test: &str) -> Self {
            let name = format!("import-nginx-{}-{test}", std::process::id());
            let folder = Self(std::env::temp_dir().join(name));
            fs::create_dir_all(folder.0.join("conf.d")).expect("a folder for temporary files");
            folder
        }

        fn write(&self, name: &str, text: &str) -> PathBuf {
            let path = self.0.join(name);
            fs::write(&path, text).expect("a file in it");
            path
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            drop(fs::remove_dir_all(&self.0));
        }
    }

    #[test]
    fn includes_are_put_in_their_place() {
        let folder = Folder::new("followed");
        let main = "a;\nhttp { include conf.d/*.conf; b; }\ninclude mime.types;";
        let main = folder.write("nginx.conf", main);
        folder.write("conf.d/2.conf", "second;");
        folder.write("conf.d/1.conf", "\n first; include conf.d/more;");
        folder.write("conf.d/more", "more;");
        folder.write("conf.d/other", "never;");
        let mut files = Files::default();
        let tree = files.read(&main).expect("nginx's grammar");
        let http = tree[1].block.as_ref().expect("a block");
        let names: Vec<_> = http.iter().map(Directive::name).collect();
        assert_eq!(names, ["first", "more", "second", "b"]);
        let first = files.text(&Located::new(http[0].at(), "here"));
        assert!(first.ends_with("conf.d/1.conf:2:2: here"), "{first}");

        assert_eq!(tree[2].name(), "include");
        let missing = files.text(&files.missing[0]);
        assert!(missing.contains("nginx.conf:3:1: "), "{missing}");
        assert!(
            missing.contains("mime.types is not included: "),
            "{missing}"
        );
    }

    #[test]
    fn a_file_that_includes_itself_ends() {
        let folder = Folder::new("circle");
        let path = folder.write("nginx.conf", "include nginx.conf;");
        let error = Files::default().read(&path).expect_err("a circle");
        assert_eq!(error.message, "more than 16 files included in one another");
    }

    #[test]
    fn errors_are_of_their_file() {
        let folder = Folder::new("wrong");
        let path = folder.write("nginx.conf", "include conf.d/a;");
        folder.write("conf.d/a", "b;\n}");
        let mut files = Files::default();
        let error = files.read(&path).expect_err("a brace too much");
        let text = files.text(&error);
        assert!(text.ends_with("conf.d/a:2:1: unexpected `}`"), "{text}");
    }

    #[test]
    fn patterns_match_names() {
        for (pattern, name, expected) in [
            ("*.conf", "a.conf", true),
            ("*.conf", ".conf", false),
            ("*.conf", ".a.conf", false),
            ("*.conf", "a.conf.bak", false),
            ("?-*.c*f", "1-a.conf", true),
            ("?-*.c*f", "-a.conf", false),
            ("*", "", true),
            ("a", "a", true),
            ("a*", "b", false),
        ] {
            assert_eq!(is_match(name, pattern), expected, "{pattern} {name}");
        }
    }
}
