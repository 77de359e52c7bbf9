//! Relations between packages: fields such as Depends (deb-control(5), "Syntax of relationship fields").

use crate::version;
use std::cmp::Ordering;
use std::fmt;

/// How a version has to compare with a given one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    /// `<<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `=`
    Equal,
    /// `>=`
    GreaterOrEqual,
    /// `>>`
    Greater,
}

impl Comparison {
    const ALL: [(&'static str, Comparison); 7] = [
        ("<<", Comparison::Less),
        ("<=", Comparison::LessOrEqual),
        (">=", Comparison::GreaterOrEqual),
        (">>", Comparison::Greater),
        ("=", Comparison::Equal),
        // Of old: they mean what one does not expect.
        ("<", Comparison::LessOrEqual),
        (">", Comparison::GreaterOrEqual),
    ];

    fn holds(self, order: Ordering) -> bool {
        match self {
            Comparison::Less => order == Ordering::Less,
            Comparison::LessOrEqual => order != Ordering::Greater,
            Comparison::Equal => order == Ordering::Equal,
            Comparison::GreaterOrEqual => order != Ordering::Less,
            Comparison::Greater => order == Ordering::Greater,
        }
    }
}

/// A package, perhaps of certain versions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Relation {
    /// Its name, or that of a virtual package.
    pub name: String,
    /// Architecture behind a colon: `any`, `native` or a name.
    pub architecture: Option<String>,
    /// What its version has to be.
    pub version: Option<(Comparison, String)>,
}

impl Relation {
    /// Reads a field: of each group one has to hold.
    pub fn parse_all(field: &str) -> Result<Vec<Alternatives>, String> {
        parse(field)
    }

    /// Whether a version is one of those that are meant.
    pub fn accepts(&self, version: &str) -> bool {
        let wanted = self.version.as_ref();
        wanted.is_none_or(|(how, v)| how.holds(version::compare(version, v)))
    }
}

impl fmt::Display for Relation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        if let Some(a) = &self.architecture {
            write!(f, ":{a}")?;
        }
        if let Some((how, version)) = &self.version {
            let sign = Comparison::ALL.iter().find(|(_, c)| c == how);
            write!(f, " ({} {version})", sign.map_or("", |s| s.0))?;
        }
        Ok(())
    }
}

/// Relations of which one has to hold.
pub type Alternatives = Vec<Relation>;

/// Reads a field: all of the groups have to hold.
pub fn parse(field: &str) -> Result<Vec<Alternatives>, String> {
    let groups = field.split(',').map(str::trim).filter(|g| !g.is_empty());
    groups
        .map(|group| group.split('|').map(one).collect())
        .collect()
}

fn one(text: &str) -> Result<Relation, String> {
    let text = text.trim();
    let wrong = |why: &str| format!("`{text}` is no relation between packages: {why}");
    let end = text.find(|c: char| c.is_whitespace() || "([<".contains(c));
    let (name, rest) = text.split_at(end.unwrap_or(text.len()));
    let (name, architecture) = match name.split_once(':') {
        Some((n, a)) => (n, Some(a)),
        None => (name, None),
    };
    let plain = |s: &str| {
        !s.is_empty()
            && s.bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"+-._".contains(&b))
    };
    if !plain(name) || !architecture.is_none_or(plain) {
        return Err(wrong("a name has letters, digits and `+-._` only"));
    }
    let rest = rest.trim_start();
    let (version, rest) = match rest.strip_prefix('(') {
        None => (None, rest),
        Some(inner) => {
            let (inner, rest) = inner
                .split_once(')')
                .ok_or_else(|| wrong("a parenthesis is not closed"))?;
            let inner = inner.trim();
            let found = Comparison::ALL
                .iter()
                .find_map(|(sign, c)| Some((*c, inner.strip_prefix(sign)?.trim())));
            let (how, version) = found
                .ok_or_else(|| wrong("in parentheses are one of << <= = >= >> and a version"))?;
            if version.is_empty() || version.contains(char::is_whitespace) {
                return Err(wrong("its version is none"));
            }
            (Some((how, version.to_string())), rest.trim_start())
        }
    };
    // Lists of architectures and build profiles are of source packages.
    if !rest.is_empty() {
        return Err(wrong("something is behind it"));
    }
    Ok(Relation {
        name: name.to_string(),
        architecture: architecture.map(String::from),
        version,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_field() {
        let all = parse("libc6 (>= 2.38), awk | mawk (<< 2) | python3:any, x(=1:2-3~b),").unwrap();
        assert_eq!(all.len(), 3);
        assert_eq!(all[1].len(), 3);
        assert_eq!(all[1][2].architecture.as_deref(), Some("any"));
        assert_eq!(all[1][1].to_string(), "mawk (<< 2)");
        assert!(all[0][0].accepts("2.41-12") && !all[0][0].accepts("2.36"));
        assert!(all[2][0].accepts("1:2-3~b") && !all[2][0].accepts("1:2-3"));
        assert!(all[1][0].accepts("anything"));
        let old = parse("a (< 2), b (> 2)").unwrap();
        assert!(old[0][0].accepts("2") && old[1][0].accepts("2"));
        assert_eq!(parse("").unwrap(), Vec::<Alternatives>::new());
        for bad in [
            "a (", "a (2)", "a (>= )", "a b", "(>= 1)", "a | | b", "a [x]", "a/b",
        ] {
            let e = parse(bad).unwrap_err();
            assert!(e.contains("no relation"), "{bad}: {e}");
        }
    }

    proptest! {
        #[test]
        fn what_is_printed_is_read_again(
            name in "[a-z][a-z0-9+.-]{1,8}",
            sign in 0usize..5,
            version in "[0-9][0-9a-z.+~-]{0,6}",
        ) {
            let text = format!("{name} ({} {version})", Comparison::ALL[sign].0);
            let read = parse(&text).unwrap();
            prop_assert_eq!(read[0][0].to_string(), text);
        }

        #[test]
        fn any_text_does_not_panic(text in "[a-z:|,()<>= 0-9]{0,40}") {
            let _ = parse(&text);
        }
    }
}
