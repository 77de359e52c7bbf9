//! Latency expressions over timing names: `tRAS + tRP`, `CL + BL/2 + 2 - CWL`,
//! `max(4 nCK, 7.5 ns)`.
//!
//! Values are whole device clocks. A number without unit or with `nCK` is a
//! count of clocks; one with `s`, `ms`, `us`, `ns` or `ps` is a time, rounded
//! up to clocks where it stands. `/` rounds up. Operators are `+ - * /`,
//! parentheses, `max(a, b, ...)` and `min(a, b, ...)`.

use std::fmt;

use nagori_values::{scan, TIME};
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::period::Period;
use crate::units::Ps;
use crate::units::UnitError;

/// Deepest nesting of an expression.
const MAX_DEPTH: u32 = 32;
/// Longest text of an expression, in bytes.
const MAX_TEXT: usize = 1000;

/// A parsed expression. Serialises as its text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Expr {
    text: String,
    node: Node,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Node {
    Clocks(i64),
    Time(Ps),
    Name(String),
    Binary(char, Box<Node>, Box<Node>),
    Max(Vec<Node>),
    Min(Vec<Node>),
}

impl Expr {
    /// Reads an expression.
    pub fn parse(text: &str) -> Result<Expr, Error> {
        if text.len() > MAX_TEXT {
            let start: String = text.chars().take(20).collect();
            return Err(Error::Expr {
                text: format!("{start}..."),
                problem: format!("longer than {MAX_TEXT} bytes"),
            });
        }
        let mut p = Parser { text, at: 0 };
        let node = p.sum(0)?;
        p.skip();
        if p.at < text.len() {
            return Err(p.error("an operator or the end expected"));
        }
        Ok(Expr {
            text: text.trim().to_owned(),
            node,
        })
    }

    /// A number of clocks.
    pub fn clocks(n: u32) -> Expr {
        Expr {
            text: format!("{n} nCK"),
            node: Node::Clocks(n.into()),
        }
    }

    /// A time.
    pub fn time(t: Ps) -> Expr {
        Expr {
            text: t.to_string(),
            node: Node::Time(t),
        }
    }

    /// The text as given.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// All timing names in it, in order of appearance, repetitions included.
    pub fn names(&self) -> Vec<&str> {
        fn walk<'a>(n: &'a Node, out: &mut Vec<&'a str>) {
            match n {
                Node::Name(s) => out.push(s),
                Node::Binary(_, a, b) => {
                    walk(a, out);
                    walk(b, out);
                }
                Node::Max(v) | Node::Min(v) => v.iter().for_each(|n| walk(n, out)),
                Node::Clocks(_) | Node::Time(_) => {}
            }
        }
        let mut out = Vec::new();
        walk(&self.node, &mut out);
        out
    }

    /// The value in clocks of `period`, names resolved by `lookup`. An unknown
    /// name, a division by zero or a value beyond 2^40 is an error; a negative
    /// result is not.
    pub fn eval(&self, period: Period, lookup: &dyn Fn(&str) -> Option<i64>) -> Result<i64, Error> {
        self.value(&self.node, period, lookup)
    }

    fn value(
        &self,
        n: &Node,
        period: Period,
        lookup: &dyn Fn(&str) -> Option<i64>,
    ) -> Result<i64, Error> {
        let fail = |problem: String| Error::Expr {
            text: self.text.clone(),
            problem,
        };
        let all = |v: &[Node]| -> Result<Vec<i64>, Error> {
            v.iter().map(|n| self.value(n, period, lookup)).collect()
        };
        let v = match n {
            Node::Clocks(n) => Some(*n),
            Node::Time(t) => i64::try_from(period.edge_from(*t)).ok(),
            Node::Name(s) => Some(lookup(s).ok_or_else(|| {
                fail(format!(
                    "'{s}' is no timing of the device (in time for this use)"
                ))
            })?),
            Node::Binary(op, a, b) => {
                let a = self.value(a, period, lookup)?;
                let b = self.value(b, period, lookup)?;
                match op {
                    '+' => a.checked_add(b),
                    '-' => a.checked_sub(b),
                    '*' => a.checked_mul(b),
                    _ if b <= 0 || a < 0 => {
                        return Err(fail(format!(
                            "{a}/{b}: a division needs a positive divisor and no negative dividend"
                        )))
                    }
                    _ => Some((a as u64).div_ceil(b as u64) as i64),
                }
            }
            Node::Max(v) => all(v)?.into_iter().max(),
            Node::Min(v) => all(v)?.into_iter().min(),
        };
        v.filter(|v| v.abs() <= 1 << 40)
            .ok_or_else(|| fail("the value is beyond 2^40 clocks".to_owned()))
    }
}

impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::str::FromStr for Expr {
    type Err = Error;
    fn from_str(s: &str) -> Result<Expr, Error> {
        Expr::parse(s)
    }
}

impl TryFrom<String> for Expr {
    type Error = Error;
    fn try_from(s: String) -> Result<Expr, Error> {
        Expr::parse(&s)
    }
}

impl From<Expr> for String {
    fn from(e: Expr) -> String {
        e.text
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl Parser<'_> {
    fn error(&self, problem: &str) -> Error {
        Error::Expr {
            text: self.text.to_owned(),
            problem: format!("at byte {}: {problem}", self.at),
        }
    }

    fn skip(&mut self) {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start().len();
    }

    fn peek(&mut self) -> Option<char> {
        self.skip();
        self.text[self.at..].chars().next()
    }

    fn eat(&mut self, c: char) -> bool {
        let found = self.peek() == Some(c);
        if found {
            self.at += c.len_utf8();
        }
        found
    }

    fn word(&mut self, f: impl Fn(char) -> bool) -> &str {
        let start = self.at;
        let rest = &self.text[start..];
        self.at += rest.find(|c| !f(c)).unwrap_or(rest.len());
        &self.text[start..self.at]
    }

    fn sum(&mut self, depth: u32) -> Result<Node, Error> {
        self.chain(depth, &['+', '-'], Parser::product)
    }

    fn product(&mut self, depth: u32) -> Result<Node, Error> {
        self.chain(depth, &['*', '/'], Parser::atom)
    }

    fn chain(
        &mut self,
        depth: u32,
        ops: &[char],
        part: fn(&mut Self, u32) -> Result<Node, Error>,
    ) -> Result<Node, Error> {
        let mut left = part(self, depth)?;
        // A long flat chain nests to the left, too.
        let mut length = 0;
        while let Some(op) = self.peek().filter(|c| ops.contains(c)) {
            length += 1;
            if length > MAX_DEPTH {
                return Err(self.error("more operators than 32 in one chain"));
            }
            self.at += 1;
            let right = part(self, depth)?;
            left = Node::Binary(op, Box::new(left), Box::new(right));
        }
        Ok(left)
    }

    fn atom(&mut self, depth: u32) -> Result<Node, Error> {
        if depth > MAX_DEPTH {
            return Err(self.error("nested deeper than 32"));
        }
        match self.peek() {
            Some('(') => {
                self.at += 1;
                let n = self.sum(depth + 1)?;
                if !self.eat(')') {
                    return Err(self.error("')' expected"));
                }
                Ok(n)
            }
            Some(c) if c.is_ascii_digit() => self.number(),
            Some(c) if c.is_ascii_alphabetic() => self.name(depth),
            _ => Err(self.error("a number, a timing name or '(' expected")),
        }
    }

    fn number(&mut self) -> Result<Node, Error> {
        let start = self.at;
        let Some((number, rest)) = scan(&self.text[start..]) else {
            return Err(self.error("a number such as 12, 7.5 or 1e3 expected"));
        };
        self.at = self.text.len() - rest.len();
        let before_unit = self.at;
        let unit = self.word(|c| c.is_ascii_alphanumeric()).to_owned();
        match unit.as_str() {
            "" | "nCK" => match number.times(1).map(u32::try_from) {
                Ok(Ok(n)) => Ok(Node::Clocks(n.into())),
                _ => {
                    self.at = start;
                    Err(self.error("clocks are a whole number below 2^32"))
                }
            },
            _ => match TIME.unit(&unit).and_then(|u| number.times(u).ok()) {
                Some(ps) => Ok(Node::Time(Ps(ps))),
                None => {
                    let text = self.text[start..self.at].to_owned();
                    self.at = before_unit;
                    Err(self.error(&UnitError::Time(text).to_string()))
                }
            },
        }
    }

    fn name(&mut self, depth: u32) -> Result<Node, Error> {
        let name = self
            .word(|c| c.is_ascii_alphanumeric() || c == '_')
            .to_owned();
        if name != "max" && name != "min" {
            return Ok(Node::Name(name));
        }
        if !self.eat('(') {
            return Err(self.error("'(' expected"));
        }
        let mut parts = vec![self.sum(depth + 1)?];
        while self.eat(',') {
            parts.push(self.sum(depth + 1)?);
        }
        if !self.eat(')') {
            return Err(self.error("',' or ')' expected"));
        }
        Ok(if name == "max" {
            Node::Max(parts)
        } else {
            Node::Min(parts)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn eval(text: &str) -> Result<i64, Error> {
        Expr::parse(text)?.eval(Period::of_ps(1250).unwrap(), &|n| match n {
            "CL" => Some(11),
            "CWL" => Some(8),
            "BL" => Some(8),
            "tRP" => Some(11),
            _ => None,
        })
    }

    #[test]
    fn values() {
        for (text, v) in [
            ("CL+BL/2+2-CWL", 9),
            ("2 * (tRP + 1)", 24),
            ("max(4 nCK, 7.5 ns)", 6),
            ("min(4, 7.5ns, CL)", 4),
            ("7/2", 4),
            ("13.75 ns", 11),
            ("13.76 ns", 12),
            ("10 - 4 - 3", 3),
            ("CWL - CL", -3),
        ] {
            assert_eq!(eval(text).unwrap(), v, "{text}");
        }
    }

    #[test]
    fn errors_name_the_place() {
        for (text, hint) in [
            ("", "byte 0"),
            ("tRP +", "byte 5"),
            ("tRP tRP", "byte 4"),
            ("(tRP", "')'"),
            ("1.5", "whole number"),
            ("3 parsec", "time"),
            ("tXYZ", "'tXYZ'"),
            ("4/(CL-11)", "divisor"),
            ("4000000000*4000000000", "2^40"),
            ("max 3", "'('"),
        ] {
            let e = eval(text).unwrap_err().to_string();
            assert!(e.contains(hint), "{text}: {e}");
        }
        assert!(eval(&"(".repeat(900)).is_err());
        assert!(eval(&"1+".repeat(2000)).is_err());
        assert!(eval(&"1+".repeat(400)).is_err());
    }

    #[test]
    fn text_round_trip() {
        let e: Expr = serde_json::from_str("\" tRP+1 \"").unwrap();
        assert_eq!(serde_json::to_string(&e).unwrap(), "\"tRP+1\"");
        assert_eq!(e.names(), ["tRP"]);
    }

    proptest! {
        #[test]
        fn any_text_is_refused_or_read_back(text in "[ a-z0-9()+*/,.\u{e9}-]{0,40}") {
            if let Ok(e) = Expr::parse(&text) {
                prop_assert_eq!(&Expr::parse(e.text()).unwrap(), &e);
                let _ = e.eval(Period::of_ps(1250).unwrap(), &|_| Some(3));
            }
        }
    }
}
