//! Chooses the mirror: the one in this host's own package configuration.

use crate::tool::APT_GET;
use crate::Error;

/// The mirrors worth trying, best first. An explicitly given one is the only one.
pub(crate) fn candidates(given: Option<&str>) -> Result<Vec<String>, Error> {
    if let Some(uri) = given {
        return Ok(vec![check(uri)?]);
    }
    let mut c = APT_GET.command();
    c.args([
        "indextargets",
        "--format",
        "$(REPO_URI) $(LABEL) $(COMPONENT)",
    ])
    .args(["Identifier: Packages", "Origin: Debian"]);
    let out = APT_GET.run(c, "read the host's package sources")?;
    let mut found = from_index_targets(&String::from_utf8_lossy(&out.stdout));
    if found.is_empty() {
        // Before the host's first `apt-get update` there are no index targets, but apt still tells
        // what it would download.
        let mut c = APT_GET.command();
        c.args(["update", "--print-uris"]);
        let out = APT_GET.run(c, "read the host's package sources")?;
        found = from_print_uris(&String::from_utf8_lossy(&out.stdout));
    }
    found.retain(|uri| check(uri).is_ok());
    if found.is_empty() {
        return Err(Error::NoMirror);
    }
    Ok(found)
}

/// Repositories labelled "Debian" (not "Debian-Security") that serve `main`.
fn from_index_targets(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for line in text.lines() {
        if let [uri, "Debian", "main"] = line.split_whitespace().collect::<Vec<_>>()[..] {
            push_unique(&mut found, uri);
        }
    }
    found
}

/// The repositories whose release files `apt-get update` would download, first those that look like
/// a full Debian mirror. A wrong guess is refused later, by its signature.
fn from_print_uris(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for line in text.lines() {
        let Some(uri) = line.strip_prefix('\'').and_then(|l| l.split('\'').next()) else {
            continue;
        };
        let Some((base, dist)) = uri.split_once("/dists/") else {
            continue;
        };
        let suite = dist.split('/').next().unwrap_or_default();
        if !suite.contains("security") && !base.contains("security") {
            push_unique(&mut found, &format!("{base}/"));
        }
    }
    found.sort_by_key(|uri| !uri.ends_with("/debian/"));
    found
}

fn push_unique(list: &mut Vec<String>, uri: &str) {
    if !list.iter().any(|u| u == uri) {
        list.push(uri.to_string());
    }
}

/// A URI becomes part of a line of an apt source: it must not be able to inject anything else
/// there.
fn check(uri: &str) -> Result<String, Error> {
    let bad = |why| {
        Err(Error::BadMirror {
            uri: uri.to_string(),
            why,
        })
    };
    let scheme = uri.split_once(':').map(|(s, rest)| (s, rest.len()));
    match scheme {
        None | Some(("", _)) | Some((_, 0)) => {
            return bad(
                "give a URI with its scheme, such as http://host/debian or file:/srv/debian",
            )
        }
        Some((s, _)) if !s.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'+') => {
            return bad("its scheme may hold letters, digits and `+` only")
        }
        Some(_) => {}
    }
    if uri.bytes().any(|b| !b.is_ascii_graphic()) || uri.contains(['[', ']', '#', '"']) {
        return bad("spaces, control characters, brackets, quotes and `#` are not allowed");
    }
    Ok(uri.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn index_targets() {
        let text = "http://m.example/debian/ Debian main\n\
                    http://m.example/debian/ Debian main\n\
                    http://m.example/debian/ Debian contrib\n\
                    http://m.example/debian-security/ Debian-Security main\n\
                    http://n.example/debian/ Debian main\n";
        assert_eq!(
            from_index_targets(text),
            ["http://m.example/debian/", "http://n.example/debian/"]
        );
        assert!(from_index_targets("").is_empty());
    }

    #[test]
    fn print_uris() {
        let text = "'https://a.example/node/dists/nodistro/InRelease' a.example_InRelease 0 \n\
                    'http://m.example/debian-security/dists/trixie-security/InRelease' x 0 \n\
                    'http://m.example/debian/dists/trixie/InRelease' x 0 \n\
                    garbage\n";
        assert_eq!(
            from_print_uris(text),
            ["http://m.example/debian/", "https://a.example/node/"]
        );
    }

    #[test]
    fn a_mirror_cannot_smuggle_options() {
        for uri in [
            "m.example/debian",
            "",
            "http:",
            "[trusted=yes]:x",
            "http://m.example/debian trixie main\ndeb [trusted=yes] http://e",
            "http://m/#x",
        ] {
            let e = check(uri).unwrap_err();
            assert!(matches!(e, Error::BadMirror { .. }), "{uri}: {e}");
        }
        for uri in [
            "http://m.example/debian",
            "file:/srv/debian",
            "mirror+file:/etc/m.list",
            "https://user:pw@m.example:8080/debian/",
        ] {
            check(uri).unwrap();
        }
    }
}
