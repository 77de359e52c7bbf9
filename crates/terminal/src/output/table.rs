//! Tidy tables as files: CSV and Parquet.

use super::parquet;
use anyhow::bail;
use std::path::Path;

/// What the cells of a column are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Words.
    Text,
    /// Whole numbers.
    Count,
    /// Numbers.
    Real,
}

/// Form of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Comma-separated values (RFC 4180, but with plain newlines).
    Csv,
    /// Apache Parquet.
    Parquet,
}

impl Form {
    /// By the ending of a name: Parquet if it is .parquet, else CSV.
    pub fn of(path: &Path) -> Form {
        if path.extension().is_some_and(|e| e == "parquet") {
            Form::Parquet
        } else {
            Form::Csv
        }
    }
}

/// Rows of named columns; an empty cell is a value that there is not.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Table {
    head: Vec<(String, Kind)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table without rows.
    pub fn new(head: Vec<(String, Kind)>) -> Table {
        let rows = Vec::new();
        Table { head, rows }
    }

    /// Another row, with a cell for each column.
    pub fn push(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
        debug_assert_eq!(self.rows.last().map(Vec::len), Some(self.head.len()));
    }

    /// Columns of words whose cells are all numbers become columns of numbers.
    pub fn with_numbers(mut self) -> Table {
        for (i, (_, kind)) in self.head.iter_mut().enumerate() {
            let all =
                |f: fn(&str) -> bool| !self.rows.is_empty() && self.rows.iter().all(|r| f(&r[i]));
            if *kind == Kind::Text {
                *kind = match (
                    all(|c| c.parse::<i64>().is_ok()),
                    all(|c| c.parse::<f64>().is_ok()),
                ) {
                    (true, _) => Kind::Count,
                    (_, true) => Kind::Real,
                    _ => Kind::Text,
                };
            }
        }
        self
    }

    /// As a file.
    pub fn file(&self, form: Form) -> anyhow::Result<Vec<u8>> {
        match form {
            Form::Csv => Ok(self.csv().into_bytes()),
            Form::Parquet => self.parquet(),
        }
    }

    /// With a line for the names, and one for each row.
    pub fn csv(&self) -> String {
        let mut out = line(self.head.iter().map(|h| h.0.as_str()));
        for r in &self.rows {
            out += &line(r.iter().map(String::as_str));
        }
        out
    }

    fn parquet(&self) -> anyhow::Result<Vec<u8>> {
        let mut columns = Vec::new();
        for (i, (name, kind)) in self.head.iter().enumerate() {
            let cells = self
                .rows
                .iter()
                .map(|r| Some(r[i].as_str()).filter(|c| !c.is_empty()));
            let mut values = match kind {
                Kind::Text => parquet::Values::Text(Vec::new()),
                Kind::Count => parquet::Values::Count(Vec::new()),
                Kind::Real => parquet::Values::Real(Vec::new()),
            };
            for cell in cells {
                let wrong = || format!("column {name}: {} is no number", cell.unwrap_or_default());
                match &mut values {
                    parquet::Values::Text(v) => v.push(cell.map(str::to_owned)),
                    parquet::Values::Count(v) => match cell.map(str::parse).transpose() {
                        Ok(n) => v.push(n),
                        Err(_) => bail!(wrong()),
                    },
                    parquet::Values::Real(v) => match cell.map(str::parse).transpose() {
                        Ok(n) => v.push(n),
                        Err(_) => bail!(wrong()),
                    },
                }
            }
            columns.push((name.as_str(), values));
        }
        Ok(parquet::file(self.rows.len(), &columns))
    }
}

fn line<'c>(cells: impl Iterator<Item = &'c str>) -> String {
    let quoted = |c: &str| {
        if c.contains([',', '"', '\n', '\r']) {
            format!("\"{}\"", c.replace('"', "\"\""))
        } else {
            c.to_string()
        }
    };
    cells.map(quoted).collect::<Vec<_>>().join(",") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let head = [
            ("trace", Kind::Text),
            ("size", Kind::Text),
            ("n", Kind::Count),
            ("v", Kind::Real),
        ];
        let mut t = Table::new(head.map(|(n, k)| (n.to_string(), k)).into());
        t.push(["a", "64", "1", "0.5"].map(String::from));
        t.push(["gen:random,count=5", "128", "", "2"].map(String::from));
        t.with_numbers()
    }

    #[test]
    fn cells_are_quoted_where_needed() {
        assert_eq!(
            table().csv(),
            "trace,size,n,v\na,64,1,0.5\n\"gen:random,count=5\",128,,2\n"
        );
        let cells = ["say \"no\"", "b"];
        assert_eq!(line(cells.into_iter()), "\"say \"\"no\"\"\",b\n");
    }

    #[test]
    fn columns_have_kinds() {
        let kinds: Vec<Kind> = table().head.iter().map(|h| h.1).collect();
        assert_eq!(kinds, [Kind::Text, Kind::Count, Kind::Count, Kind::Real]);
        let bytes = table().file(Form::Parquet).unwrap();
        assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"));
        assert_eq!(Form::of(Path::new("a.parquet")), Form::Parquet);
        assert_eq!(Form::of(Path::new("a.csv")), Form::Csv);
        let mut wrong = Table::new(vec![("n".into(), Kind::Count)]);
        wrong.push(["x".to_string()]);
        assert!(wrong.file(Form::Parquet).is_err());
    }
}
