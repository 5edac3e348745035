//! The tables of `docs/observability.md`, for the tests that compare them with the code.

/// The first four cells of the rows that begin with a name, of the table in the section of this
/// title.
pub(crate) fn rows(section: &str) -> impl Iterator<Item = [String; 4]> {
    let page = include_str!("../../../docs/observability.md");
    let mut sections = page.split("\n## ");
    let section = sections.find(|part| part.starts_with(section)).unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    rows.map(|row| {
        let cells: Vec<_> = row.split('|').map(|cell| cell.replace('`', "")).collect();
        [1, 2, 3, 4].map(|cell: usize| cells[cell].trim().to_owned())
    })
}
