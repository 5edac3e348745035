//! Tables in the documents that a command writes, between two marks.

use std::fs;

use crate::process::{Failure, root};

/// What to do with a table that stands in a document.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Document {
    /// Say so if another table stands there.
    Compare,
    /// Put it there.
    Write,
}

impl Document {
    /// Compares or writes what `cargo xtask COMMAND --write` keeps in `docs/FILE`.
    ///
    /// A table that is behind is no failure: it is a line for the next commit.
    pub(crate) fn place(self, file: &str, command: &str, table: &str) -> Result<(), Failure> {
        let path = root().join("docs").join(file);
        let text = fs::read_to_string(&path).map_err(|error| format!("docs/{file}: {error}"))?;
        let wanted = with_table(&text, command, table)
            .ok_or_else(|| format!("docs/{file}: no marks of {command} --write"))?;
        match self {
            Self::Write => fs::write(&path, wanted)?,
            Self::Compare if text != wanted => {
                println!("docs/{file} is behind: `cargo xtask {command} --write` helps");
            }
            Self::Compare => {}
        }
        Ok(())
    }
}

/// `text` with `table` between its marks.
fn with_table(text: &str, command: &str, table: &str) -> Option<String> {
    let begin = format!("<!-- written by `cargo xtask {command} --write` -->\n");
    let (before, rest) = text.split_once(&begin)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{begin}{table}{END}{after}"))
}

const END: &str = "<!-- end -->";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_between_the_marks_is_replaced_and_nothing_else() {
        let begin = "<!-- written by `cargo xtask x --write` -->";
        let text = format!("a\n{begin}\nold\n<!-- end -->\nb\n");
        let wanted = format!("a\n{begin}\nnew\n<!-- end -->\nb\n");
        assert_eq!(with_table(&text, "x", "new\n").as_deref(), Some(&*wanted));
        assert_eq!(with_table(&wanted, "x", "new\n").as_deref(), Some(&*wanted));
        assert_eq!(with_table(&text, "y", "new\n"), None);
        assert_eq!(with_table("no marks", "x", "new\n"), None);
    }
}
