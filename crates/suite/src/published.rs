//! What the board's authors published of SPEC CPU 2017.

use crate::error::{Error, Result};

/// Their Tables 7 to 9: one row for each program, table and method.
pub const PUBLISHED: &str = include_str!("../published.csv");

const HEAD: &str =
    "table,program,method,normalised_time,requests_per_s,act_per_req,bank_para,reads_per_write";

/// A row of their tables. A figure that a table does not have is absent.
#[derive(Debug, Clone, PartialEq)]
pub struct Published {
    /// Number of the table.
    pub table: u32,
    /// The program.
    pub program: String,
    /// The delay method.
    pub method: String,
    /// Run time; that with NVMM as fast as DRAM is 1.
    pub time: Option<f64>,
    /// Requests of NVMM in a second.
    pub requests_per_s: Option<f64>,
    /// Activations a request.
    pub act_per_req: Option<f64>,
    /// Share of the requests whose bank differs from that of the request before.
    pub bank_para: Option<f64>,
    /// Reads a write.
    pub reads_per_write: Option<f64>,
}

impl Published {
    /// Reads the rows of a table such as [`PUBLISHED`]; lines that begin with `#` and the head are left out.
    pub fn parse(text: &str) -> Result<Vec<Published>> {
        let lines = text.lines().enumerate();
        let rows =
            lines.filter(|(_, l)| !l.starts_with('#') && !l.starts_with("table,") && !l.is_empty());
        rows.map(|(n, l)| {
            row(l).ok_or_else(|| Error::Description {
                file: format!("published.csv:{}", n + 1),
                what: format!("expected {HEAD}"),
            })
        })
        .collect()
    }
}

fn row(line: &str) -> Option<Published> {
    let cells: Vec<&str> = line.split(',').collect();
    let [table, program, method, numbers @ ..] = cells.as_slice() else {
        return None;
    };
    let number = |text: &&str| {
        if text.is_empty() {
            Some(None)
        } else {
            text.parse::<f64>().ok().map(Some)
        }
    };
    let numbers: Vec<Option<f64>> = numbers.iter().map(number).collect::<Option<_>>()?;
    let [time, requests_per_s, act_per_req, bank_para, reads_per_write] = numbers.as_slice() else {
        return None;
    };
    Some(Published {
        table: table.parse().ok()?,
        program: (*program).into(),
        method: (*method).into(),
        time: *time,
        requests_per_s: *requests_per_s,
        act_per_req: *act_per_req,
        bank_para: *bank_para,
        reads_per_write: *reads_per_write,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn their_tables_are_read() {
        let all = Published::parse(PUBLISHED).unwrap();
        let of = |table| all.iter().filter(|p| p.table == table).count();
        assert_eq!([of(7), of(8), of(9)], [14, 15, 6]);
        let bwaves = all
            .iter()
            .find(|p| p.table == 8 && p.program == "503.bwaves_r" && p.method == "extended");
        assert_eq!(bwaves.and_then(|p| p.time), Some(1.61));
        let e = Published::parse("8,x,coarse,1.0").unwrap_err().to_string();
        assert!(e.contains("published.csv:1"), "{e}");
    }
}
