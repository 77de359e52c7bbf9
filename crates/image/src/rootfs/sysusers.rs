//! Lines of sysusers.d(5), in all their documented forms.

/// How the number of a user or group is chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Number {
    /// Any free one.
    Free,
    /// This one.
    Fixed(u32),
    /// The number of the owner of a file or directory.
    OwnerOf(String),
}

/// The primary group of a user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Primary {
    /// A group of the user's name, which is created.
    Same,
    /// By its number.
    Number(u32),
    /// By its name.
    Name(String),
}

/// What a line declares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Declaration {
    User {
        name: String,
        uid: Number,
        group: Primary,
        comment: String,
        home: String,
        shell: String,
    },
    Group {
        name: String,
        gid: Number,
    },
    /// A user in a group; both are created if they do not exist.
    Member {
        user: String,
        group: String,
    },
    /// Numbers for users and groups without a fixed one.
    Range {
        first: u32,
        last: u32,
    },
}

/// Reads a line; `None` if it declares nothing.
pub(super) fn parse(line: &str) -> Result<Option<Declaration>, &'static str> {
    let words = words(line)?;
    let Some(kind) = words.first() else {
        return Ok(None);
    };
    if words.len() > 6 {
        return Err("it has more than six fields");
    }
    // An absent field is the same as `-`.
    let field = |i: usize| {
        let w = words.get(i).map_or("", String::as_str);
        (!matches!(w, "" | "-")).then_some(w)
    };
    // Only users have a comment, a home directory and a shell.
    let alone = |d: Declaration| {
        if (3..6).any(|i| field(i).is_some()) {
            Err("only `u` lines have more than a name and a number")
        } else {
            Ok(Some(d))
        }
    };
    let named = || match field(1) {
        Some(n) if valid(n) => Ok(n.to_string()),
        Some(_) => Err("its name is not one of a user or group"),
        None => Err("it names nobody"),
    };
    match kind.as_str() {
        "g" => alone(Declaration::Group {
            name: named()?,
            gid: number(field(2))?,
        }),
        "u" | "u!" => {
            let (uid, group) = match field(2) {
                // A path may hold a colon.
                Some(id) if !id.starts_with('/') && id.contains(':') => {
                    let (uid, group) = id.split_once(':').expect("it holds one");
                    (Some(uid).filter(|u| *u != "-"), Some(group))
                }
                id => (id, None),
            };
            let group = match group {
                None => Primary::Same,
                Some(g) if !g.is_empty() && g.bytes().all(|b| b.is_ascii_digit()) => {
                    Primary::Number(fixed(g)?)
                }
                Some(g) if valid(g) => Primary::Name(g.into()),
                Some(_) => return Err("its group is neither a number nor a name"),
            };
            let home = field(4).unwrap_or("/");
            let shell = field(5).unwrap_or("/usr/sbin/nologin");
            if !home.starts_with('/') || !shell.starts_with('/') {
                return Err("its home directory and shell must be absolute paths");
            }
            let comment = field(3).unwrap_or_default();
            if [comment, home, shell]
                .iter()
                .any(|t| t.contains(['\n', '\0']))
            {
                return Err("its fields must be single lines");
            }
            Ok(Some(Declaration::User {
                name: named()?,
                uid: number(uid)?,
                group,
                comment: comment.replace(':', " "),
                home: home.into(),
                shell: shell.into(),
            }))
        }
        "m" => {
            let user = named()?;
            match field(2) {
                Some(group) if valid(group) => alone(Declaration::Member {
                    user,
                    group: group.into(),
                }),
                Some(_) => Err("its group is not a name"),
                None => Err("it names no group"),
            }
        }
        "r" if field(1).is_some() => Err("a range has no name: expected `-`"),
        "r" => {
            let range = field(2).ok_or("it gives no range")?;
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let (first, last) = (fixed(first)?, fixed(last)?);
            if first <= last {
                alone(Declaration::Range { first, last })
            } else {
                Err("its range ends before it begins")
            }
        }
        _ => Err("its first word is none of u, u!, g, m, r"),
    }
}

/// A name that both shadow's and systemd's rules allow.
fn valid(name: &str) -> bool {
    let first = name.bytes().next();
    first.is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
        && name.len() <= 31
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-' || b == b'.')
}

fn number(text: Option<&str>) -> Result<Number, &'static str> {
    match text {
        None => Ok(Number::Free),
        Some(path) if path.starts_with('/') => Ok(Number::OwnerOf(path.into())),
        Some(n) => fixed(n).map(Number::Fixed),
    }
}

fn fixed(text: &str) -> Result<u32, &'static str> {
    let digits = text.bytes().all(|b| b.is_ascii_digit());
    match text.parse() {
        // They mean "none" in system calls, with 32 and with 16 bits.
        Ok(u32::MAX | 0xffff) => Err("its number is one that nobody may have"),
        Ok(n) if digits => Ok(n),
        _ => Err("its number cannot be read"),
    }
}

/// Words of a line, without quotes; none for a comment.
fn words(line: &str) -> Result<Vec<String>, &'static str> {
    let line = line.trim();
    let mut found = Vec::new();
    if line.starts_with(['#', ';']) {
        return Ok(found);
    }
    let mut letters = line.chars().peekable();
    while let Some(c) = letters.peek() {
        if c.is_whitespace() {
            letters.next();
            continue;
        }
        let (mut word, mut quote) = (String::new(), None);
        while let Some(c) = letters.next_if(|c| quote.is_some() || !c.is_whitespace()) {
            match (c, quote) {
                (q, Some(open)) if q == open => quote = None,
                ('"' | '\'', None) => quote = Some(c),
                ('\\', _) => word.push(letters.next().ok_or("it ends with a backslash")?),
                // Specifiers that stand for values of the machine on which the file is read.
                ('%', _) => match letters.next() {
                    Some('%') => word.push('%'),
                    _ => return Err("of the specifiers only %% is known"),
                },
                _ => word.push(c),
            }
        }
        if quote.is_some() {
            return Err("a quote is not closed");
        }
        found.push(word);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(name: &str, uid: Number, group: Primary) -> Declaration {
        Declaration::User {
            name: name.into(),
            uid,
            group,
            comment: String::new(),
            home: "/".into(),
            shell: "/usr/sbin/nologin".into(),
        }
    }

    /// The forms of the manual page's tables and examples, and those of Debian's packages.
    #[test]
    fn documented_forms() {
        use Number::{Fixed, Free, OwnerOf};
        let group = |name: &str, gid| Declaration::Group {
            name: name.into(),
            gid,
        };
        let name = |n: &str| Primary::Name(n.into());
        for (line, expected) in [
            ("u a", user("a", Free, Primary::Same)),
            ("u a -", user("a", Free, Primary::Same)),
            ("u! a - - - -", user("a", Free, Primary::Same)),
            ("u a 440", user("a", Fixed(440), Primary::Same)),
            ("u a 404:403", user("a", Fixed(404), Primary::Number(403))),
            ("u a 404:web", user("a", Fixed(404), name("web"))),
            ("u sshd -:nogroup", user("sshd", Free, name("nogroup"))),
            ("u a -:65534", user("a", Free, Primary::Number(65534))),
            (
                "u a /usr/bin/x:y",
                user("a", OwnerOf("/usr/bin/x:y".into()), Primary::Same),
            ),
            ("g a", group("a", Free)),
            ("g tty 5", group("tty", Fixed(5))),
            ("g a /run/a", group("a", OwnerOf("/run/a".into()))),
            (
                "m _apt netdev",
                Declaration::Member {
                    user: "_apt".into(),
                    group: "netdev".into(),
                },
            ),
            (
                "r - 500-900",
                Declaration::Range {
                    first: 500,
                    last: 900,
                },
            ),
            ("r - 7", Declaration::Range { first: 7, last: 7 }),
        ] {
            assert_eq!(parse(line), Ok(Some(expected)), "{line}");
        }
        for nothing in ["", "  ", "# u a", "; u a"] {
            assert_eq!(parse(nothing), Ok(None), "{nothing}");
        }
    }

    #[test]
    fn comments_homes_and_shells() {
        let expected = Declaration::User {
            name: "web".into(),
            uid: Number::Fixed(33),
            group: Primary::Same,
            comment: "The W eb  100% \"x\"".into(),
            home: "/srv/a b".into(),
            shell: "/bin/sh".into(),
        };
        for line in [
            r#"u web 33 "The W:eb  100%% \"x\"" "/srv/a b" /bin/sh"#,
            r#" u  web 33 'The W:eb  100%% "x"' /srv/'a b'	/bin/sh "#,
        ] {
            assert_eq!(parse(line), Ok(Some(expected.clone())), "{line}");
        }
    }

    #[test]
    fn lines_that_cannot_be_read() {
        for (line, why) in [
            ("u", "names nobody"),
            ("u -", "names nobody"),
            ("x a", "none of u, u!, g"),
            ("u a:b", "not one of a user"),
            ("u 1a", "not one of a user"),
            ("g a b", "number cannot be read"),
            ("g a +5", "number cannot be read"),
            ("g a 1:2", "number cannot be read"),
            ("u a 65535", "nobody may have"),
            ("u a 4294967295", "nobody may have"),
            ("u a 4294967296", "number cannot be read"),
            ("u a 1:", "neither a number nor a name"),
            ("u a :5", "number cannot be read"),
            ("u a 7:no/where", "neither a number nor a name"),
            ("u a - - srv", "absolute paths"),
            ("u a - a b c d", "more than six"),
            ("u a - \"b", "not closed"),
            ("u a - %m", "only %% is known"),
            ("g a - comment", "only `u` lines"),
            ("m a", "names no group"),
            ("m a 5", "not a name"),
            ("r x 1-2", "has no name"),
            ("r -", "gives no range"),
            ("r - 9-1", "ends before"),
        ] {
            let e = parse(line).expect_err(line);
            assert!(e.contains(why), "{line}: {e}");
        }
    }
}
