//! What this host's apt is configured with: mirrors, proxies, keys. apt itself is not asked, and need not be there.

use crate::control;
use std::fs;
use std::path::{Path, PathBuf};

/// Settings of this host's apt.
#[derive(Debug, Clone, Default)]
pub struct Host {
    /// Addresses in apt's sources that may be mirrors of Debian, the likely ones first.
    pub mirrors: Vec<String>,
    /// Files with keys that apt accepts for them, and Debian's.
    pub keyrings: Vec<PathBuf>,
    /// Which proxy is asked.
    pub proxies: Proxies,
    /// `Acquire::Check-Valid-Until`, `Acquire::Check-Date`: whether the dates of release files count.
    pub check_dates: bool,
}

/// Debian's own files of keys.
const KEYRINGS: [&str; 2] = [
    "usr/share/keyrings/debian-archive-keyring.pgp",
    "usr/share/keyrings/debian-archive-keyring.gpg",
];

impl Host {
    /// Reads apt's files below `root`; what is not there or cannot be read is as if it were empty.
    pub fn read(root: &Path) -> Host {
        let etc = root.join("etc/apt");
        let mut conf = String::new();
        // As apt: the parts in the order of their names, then the main file.
        for file in parts(&etc.join("apt.conf.d"), &["", "conf"]) {
            conf += &(text(&file) + "\n");
        }
        conf += &text(&etc.join("apt.conf"));
        let settings = settings(&conf).unwrap_or_default();
        let no = |key: &str| last(&settings, key).is_some_and(|v| is_no(&v));

        let mut sources = one_line(&text(&etc.join("sources.list")));
        for file in parts(&etc.join("sources.list.d"), &["list", "sources"]) {
            let of = |text: String| {
                if file.extension().is_some_and(|x| x == "list") {
                    one_line(&text)
                } else {
                    deb822(&text)
                }
            };
            sources.extend(of(text(&file)));
        }
        let mut host = Host {
            proxies: Proxies(settings.clone()),
            check_dates: !no("acquire::check-valid-until") && !no("acquire::check-date"),
            ..Host::default()
        };
        for s in &sources {
            let security = |name: &str| name.contains("security");
            let is_main = s.components.iter().any(|c| c == "main");
            if is_main && !security(&s.uri) && !s.suites.iter().all(|n| security(n)) {
                if !host.mirrors.contains(&s.uri) {
                    host.mirrors.push(s.uri.clone());
                }
                host.keyrings.extend(
                    s.keyring
                        .iter()
                        .map(|k| root.join(k.trim_start_matches('/'))),
                );
            }
        }
        // A wrong guess is refused later, by its signature.
        let likely = |uri: &String| uri.trim_end_matches('/').ends_with("/debian");
        host.mirrors.sort_by_key(|uri| !likely(uri));
        host.keyrings.extend(KEYRINGS.map(|k| root.join(k)));
        host.keyrings.retain(|k| k.is_file());
        host.keyrings.sort();
        host.keyrings.dedup();
        host
    }
}

fn text(path: &Path) -> String {
    let bytes = fs::read(path).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Files of a directory with one of these extensions, in the order of their names.
fn parts(dir: &Path, extensions: &[&str]) -> Vec<PathBuf> {
    let list = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = list.map(|e| e.path()).collect();
    files.retain(|f| {
        let extension = f.extension().map(|x| x.to_string_lossy().into_owned());
        extensions.contains(&extension.unwrap_or_default().as_str())
    });
    files.sort();
    files
}

/// An entry of apt's sources.
#[derive(Debug, PartialEq, Eq)]
struct Entry {
    uri: String,
    suites: Vec<String>,
    components: Vec<String>,
    keyring: Option<String>,
}

/// sources.list(5), one line each.
fn one_line(text: &str) -> Vec<Entry> {
    let entry = |line: &str| {
        let line = line.split('#').next()?.trim();
        let rest = line.strip_prefix("deb")?;
        let rest = rest.strip_prefix([' ', '\t'])?.trim_start();
        let (options, rest) = match rest.strip_prefix('[') {
            Some(inner) => inner.split_once(']')?,
            None => ("", rest),
        };
        let mut words = rest.split_whitespace().map(String::from);
        let keyring = options
            .split_whitespace()
            .find_map(|o| o.strip_prefix("signed-by="));
        Some(Entry {
            uri: words.next()?,
            suites: vec![words.next()?],
            components: words.collect(),
            keyring: keyring.filter(|k| k.starts_with('/')).map(String::from),
        })
    };
    text.lines().filter_map(entry).collect()
}

/// sources.list(5), as stanzas.
fn deb822(text: &str) -> Vec<Entry> {
    let mut found = Vec::new();
    for r in control::stanzas(text) {
        let words = |name: &str| -> Vec<String> {
            r.text(name).split_whitespace().map(String::from).collect()
        };
        if !words("Types").iter().any(|t| t == "deb") || r.field("Enabled").is_some_and(is_no) {
            continue;
        }
        let keyring = words("Signed-By").into_iter().find(|k| k.starts_with('/'));
        for uri in words("URIs") {
            found.push(Entry {
                uri,
                suites: words("Suites"),
                components: words("Components"),
                keyring: keyring.clone(),
            });
        }
    }
    found
}

fn is_no(value: &str) -> bool {
    matches!(
        value.to_ascii_lowercase().as_str(),
        "no" | "false" | "without" | "off" | "disable" | "0"
    )
}

/// Keys (lower case) and values of apt's configuration, in their order.
type Settings = Vec<(String, String)>;

fn last(settings: &Settings, key: &str) -> Option<String> {
    let found = settings.iter().rev().find(|(k, _)| k == key);
    found.map(|(_, v)| v.clone())
}

/// The proxies of apt's configuration.
#[derive(Debug, Clone, Default)]
pub struct Proxies(Settings);

impl Proxies {
    /// None are configured.
    pub fn none() -> Proxies {
        Proxies::default()
    }

    /// The proxies that a configuration's text sets.
    pub fn parse(text: &str) -> Result<Proxies, String> {
        settings(text).map(Proxies)
    }

    /// The proxy for an address; `Some(None)` if none is to be used, `None` if nothing is said.
    pub(crate) fn of(&self, uri: &str) -> Option<Option<String>> {
        let (scheme, rest) = uri.split_once("://")?;
        let host = rest.split(['/', ':', '?']).next().unwrap_or_default();
        let own = last(
            &self.0,
            &format!("acquire::{scheme}::proxy::{host}").to_lowercase(),
        );
        let value = own.or_else(|| last(&self.0, &format!("acquire::{scheme}::proxy")))?;
        match value.as_str() {
            "" => None,
            "DIRECT" => Some(None),
            _ => Some(Some(value)),
        }
    }
}

/// A piece of apt's configuration.
#[derive(Debug, PartialEq, Eq)]
enum Token {
    Word(String),
    Open,
    Close,
    End,
}

fn tokens(text: &str) -> Result<Vec<Token>, String> {
    let mut found = Vec::new();
    let mut chars = text.chars().peekable();
    let mut word = String::new();
    let flush = |word: &mut String, found: &mut Vec<Token>| {
        if !word.is_empty() {
            found.push(Token::Word(std::mem::take(word)));
        }
    };
    while let Some(c) = chars.next() {
        match c {
            '"' => {
                let mut quoted = String::new();
                loop {
                    match chars.next() {
                        None => return Err("a string has no end".into()),
                        Some('"') => break,
                        Some(c) => quoted.push(c),
                    }
                }
                flush(&mut word, &mut found);
                found.push(Token::Word(quoted));
            }
            '/' if chars.peek() == Some(&'/') && word.is_empty() => {
                chars.by_ref().find(|c| *c == '\n');
            }
            '/' if chars.peek() == Some(&'*') => {
                let mut before = ' ';
                for c in chars.by_ref() {
                    if before == '*' && c == '/' {
                        break;
                    }
                    before = c;
                }
            }
            '#' if word.is_empty() => {
                // `#clear` and `#include` end at a semicolon; what they do is not needed here.
                chars.by_ref().find(|c| *c == '\n');
            }
            '{' | '}' | ';' => {
                flush(&mut word, &mut found);
                found.push(match c {
                    '{' => Token::Open,
                    '}' => Token::Close,
                    _ => Token::End,
                });
            }
            c if c.is_whitespace() => flush(&mut word, &mut found),
            c => word.push(c),
        }
    }
    flush(&mut word, &mut found);
    Ok(found)
}

/// Reads apt.conf(5).
fn settings(text: &str) -> Result<Settings, String> {
    let mut found = Settings::new();
    let mut prefix: Vec<String> = Vec::new();
    let mut words: Vec<String> = Vec::new();
    for token in tokens(text)? {
        match token {
            Token::Word(w) => words.push(w),
            Token::Open => {
                prefix.push(words.first().cloned().unwrap_or_default().to_lowercase());
                words.clear();
            }
            Token::Close => {
                words.clear();
                prefix
                    .pop()
                    .ok_or("a brace is closed that was not opened")?;
            }
            Token::End => {
                if let [key, value, ..] = &words[..] {
                    let mut whole = prefix.clone();
                    whole.push(key.to_lowercase());
                    found.push((whole.join("::"), value.clone()));
                }
                words.clear();
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn configuration() {
        let text = "// comment\n# another\nAcquire::http::Proxy \"http://p.example:3128/\";\n\
            Acquire {\n  http { Proxy::m.example DIRECT; };\n /* Check-Date \"x\"; */\n \
            Check-Valid-Until \"false\";\n};\n\
            APT::Architectures { \"riscv64\"; };\nAcquire::https::proxy \"\";\n#clear X;\n";
        let p = Proxies::parse(text).unwrap();
        let of = |uri: &str| p.of(uri);
        assert_eq!(
            of("http://n.example/debian"),
            Some(Some("http://p.example:3128/".into()))
        );
        assert_eq!(of("http://m.example:80/debian"), Some(None));
        assert_eq!(of("https://n.example/debian"), None);
        assert!(last(&p.0, "acquire::check-valid-until").is_some_and(|v| is_no(&v)));
        assert_eq!(last(&p.0, "acquire::check-date"), None);
        assert!(Proxies::parse("A \"b").is_err() && Proxies::parse("}").is_err());
    }

    #[test]
    fn a_host() {
        let root = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        put(
            "etc/apt/sources.list",
            "# deb http://off.example/debian trixie main\ndeb-src http://src.example/debian trixie main\n\
             deb [arch=amd64 signed-by=/k/a.gpg] http://vendor.example/apt stable main # x\n\
             deb http://security.example/debian-security trixie-security main\n",
        );
        put(
            "etc/apt/sources.list.d/debian.sources",
            "Types: deb deb-src\n# comment\nURIs: http://m.example/debian\nSuites: trixie trixie-updates\n\
             Components: main contrib\nSigned-By: /k/b.gpg\n\n\
             Types: deb\nEnabled: no\nURIs: http://disabled.example/debian\nSuites: sid\nComponents: main\n",
        );
        put(
            "etc/apt/sources.list.d/old.list.save",
            "deb http://saved.example/debian sid main\n",
        );
        put(
            "etc/apt/apt.conf.d/10proxy",
            "Acquire::http::Proxy \"http://old\";\n",
        );
        put(
            "etc/apt/apt.conf.d/20proxy.conf",
            "Acquire::http::Proxy \"http://new\";\nAcquire::Check-Date \"0\";",
        );
        put(
            "etc/apt/apt.conf.d/30proxy.bak",
            "Acquire::http::Proxy \"http://saved\";\n",
        );
        put("k/b.gpg", "");
        put("usr/share/keyrings/debian-archive-keyring.gpg", "");
        let host = Host::read(root.path());
        assert_eq!(
            host.mirrors,
            ["http://m.example/debian", "http://vendor.example/apt"]
        );
        let names: Vec<_> = host
            .keyrings
            .iter()
            .map(|k| k.strip_prefix(root.path()).unwrap())
            .collect();
        let expected = ["k/b.gpg", "usr/share/keyrings/debian-archive-keyring.gpg"];
        assert_eq!(names, expected.map(Path::new));
        assert_eq!(
            host.proxies.of("http://x/"),
            Some(Some("http://new".into()))
        );
        assert!(!host.check_dates);
        let nothing = Host::read(&root.path().join("none"));
        assert!(nothing.mirrors.is_empty() && nothing.check_dates);
    }

    proptest! {
        #[test]
        fn any_text_does_not_panic(text in "[a-z:{};\"/*# \n]{0,60}", lines in "(deb|Types|URIs|\\[|\\]|:| \
            |a|\n){0,30}") {
            let _ = settings(&text);
            let _ = (one_line(&lines), deb822(&lines));
        }
    }
}
