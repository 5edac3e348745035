//! Recorded tables: CSV without quoting, first line the header.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::{fs, iter};

use crate::Error;

/// The path of a file under `test-data`.
pub(crate) fn path(file: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../test-data")).join(file)
}

/// The whole of a file under `test-data`; an error names the file.
pub(crate) fn text(file: &str) -> Result<String, Error> {
    fs::read_to_string(path(file)).map_err(|error| format!("test-data/{file}: {error}").into())
}

/// A recorded table.
pub(crate) struct Table {
    file: String,
    header: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Reads `test-data/FILE`; every row must have as many fields as the header.
    pub(crate) fn read(file: &str) -> Result<Self, Error> {
        Self::parse(file, &text(file)?)
    }

    fn parse(file: &str, text: &str) -> Result<Self, Error> {
        let mut lines = text.lines().map(fields);
        let header = lines.next().unwrap_or_default();
        let rows: Vec<_> = lines.collect();
        match rows.iter().position(|row| row.len() != header.len()) {
            Some(row) => Err(format!("test-data/{file}: row {row} does not fit the header").into()),
            None if rows.is_empty() => Err(format!("test-data/{file}: no rows").into()),
            None => Ok(Self {
                file: file.to_owned(),
                header,
                rows,
            }),
        }
    }

    /// Every row by the names of its columns.
    pub(crate) fn records(&self) -> impl Iterator<Item = BTreeMap<&str, &str>> {
        let names = self.header.iter().map(String::as_str);
        self.rows
            .iter()
            .map(move |row| names.clone().zip(row.iter().map(String::as_str)).collect())
    }

    /// The named columns of every row, in the order named.
    pub(crate) fn columns<const N: usize>(
        &self,
        names: [&str; N],
    ) -> Result<impl Iterator<Item = [&str; N]>, Error> {
        let mut indexes = [0; N];
        for (index, name) in iter::zip(&mut indexes, names) {
            *index = self
                .header
                .iter()
                .position(|column| column == name)
                .ok_or_else(|| format!("test-data/{}: no column {name:?}", self.file))?;
        }
        Ok(self
            .rows
            .iter()
            .map(move |row| indexes.map(|index| row[index].as_str())))
    }
}

/// The numbers of a list such as `3 0 1`.
pub(crate) fn numbers(list: &str) -> Result<Vec<usize>, Error> {
    list.split_whitespace()
        .map(|number| Ok(number.parse()?))
        .collect()
}

/// The bytes of a key written in hex.
pub(crate) fn unhex(hex: &str) -> Result<Vec<u8>, Error> {
    let digits: Option<Vec<_>> = hex.chars().map(|digit| digit.to_digit(16)).collect();
    match digits {
        Some(digits) if digits.len().is_multiple_of(2) => Ok(digits
            .chunks(2)
            .map(|pair| u8::try_from(pair[0] * 16 + pair[1]))
            .collect::<Result<_, _>>()?),
        _ => Err(format!("{hex:?} is not hex").into()),
    }
}

fn fields(line: &str) -> Vec<String> {
    line.split(',').map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_found_by_name_and_mistakes_are_named() {
        let table = Table::parse("x.csv", "n,key,node\n0,a,1\n1,,2").unwrap();
        let rows: Vec<_> = table.columns(["node", "key"]).unwrap().collect();
        assert_eq!(rows, [["1", "a"], ["2", ""]]);
        let error = |text, columns| match Table::parse("x.csv", text) {
            Ok(table) => table.columns(columns).err().unwrap().to_string(),
            Err(error) => error.to_string(),
        };
        let no_column = "test-data/x.csv: no column \"kye\"";
        assert_eq!(error("n,key\n0,a", ["kye"]), no_column);
        let short_row = "test-data/x.csv: row 1 does not fit the header";
        assert_eq!(error("n,key\n0,a\n1", ["key"]), short_row);
        assert_eq!(error("n,key\n", ["key"]), "test-data/x.csv: no rows");
    }

    #[test]
    fn hex_and_lists_are_read() {
        assert_eq!(unhex("").unwrap(), [0; 0]);
        assert_eq!(unhex("00ff1a").unwrap(), [0, 255, 26]);
        assert!(unhex("0").is_err() && unhex("0g").is_err());
        assert_eq!(numbers("3 0 11").unwrap(), [3, 0, 11]);
        assert!(numbers("3 x").is_err());
    }
}
