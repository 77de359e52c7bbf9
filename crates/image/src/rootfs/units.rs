//! What maintainer scripts leave behind in /etc, derived from the text of the scripts instead of
//! running them: systemd units that they enable, and alternatives (commands of general names such
//! as `awk`) that they offer.

use super::dpkg::Unpacked;
use super::tree::Tree;
use crate::Error;
use std::collections::BTreeMap;

/// Where systemd looks for units of packages.
const UNITS: &str = "/usr/lib/systemd/system";

/// Units that scripts enable, but that only cost time here, or fail: monitors of hardware that the
/// machine does not have, virtual terminals, maintenance of long-lived file systems, and upgrades.
const LEFT_OUT: [&str; 10] = [
    "apt-daily-upgrade.timer",
    "apt-daily.timer",
    "cxl-monitor.service",
    "daxdev-reconfigure@.service",
    "dpkg-db-backup.timer",
    "e2scrub_all.timer",
    "e2scrub_reap.service",
    "fstrim.timer",
    "getty@tty1.service",
    "ndctl-monitor.service",
];

/// Creates the links that `systemctl enable` would, for the units that scripts enable.
pub(crate) fn enable(tree: &mut Tree, packages: &[Unpacked]) -> Result<(), Error> {
    for p in packages {
        for unit in enabled(&script(p)) {
            if LEFT_OUT.contains(&unit.as_str()) {
                continue;
            }
            enable_unit(tree, &unit, 0)?;
        }
    }
    Ok(())
}

/// Offers of `update-alternatives --install LINK NAME PATH PRIORITY`: the best one of each name
/// gets the links.
pub(crate) fn alternatives(tree: &mut Tree, packages: &[Unpacked]) -> Result<(), Error> {
    let mut best: BTreeMap<String, Offer> = BTreeMap::new();
    for p in packages {
        for offer in offers(&script(p)) {
            if tree.lookup(&offer.path).is_none() {
                continue;
            }
            match best.get(&offer.name) {
                Some(old) if old.priority >= offer.priority => {}
                _ => {
                    best.insert(offer.name.clone(), offer);
                }
            }
        }
    }
    for (name, offer) in best {
        let middle = format!("/etc/alternatives/{name}");
        for (link, target) in [(&middle, &offer.path), (&offer.link, &middle)] {
            if tree.lookup_link(link).is_none() {
                tree.symlink(link, target)?;
            }
        }
    }
    Ok(())
}

/// The commands of a package's postinst, one per line.
fn script(p: &Unpacked) -> String {
    let bytes = p.control.get("postinst").map(Vec::as_slice);
    String::from_utf8_lossy(bytes.unwrap_or_default()).replace("\\\n", " ")
}

/// A word as the shell would see it, if it needs nothing but quote removal.
fn literal(word: &str) -> Option<&str> {
    let w = word.trim_end_matches(';').trim_matches(['\'', '"']);
    (!w.is_empty() && !w.contains(['$', '`', '*', '\'', '"'])).then_some(w)
}

fn enabled(script: &str) -> Vec<String> {
    let mut found = Vec::new();
    for line in script.lines() {
        let mut words = line.split_whitespace();
        let command = words.next();
        if command != Some("deb-systemd-helper") && command != Some("systemctl") {
            continue;
        }
        let mut words = words.skip_while(|w| w.starts_with('-') || w.starts_with("${"));
        // The option's expansion in between may contain blanks.
        if !words.any(|w| w == "enable") {
            continue;
        }
        if let Some(unit) = words.next().and_then(literal) {
            found.push(unit.to_string());
        }
    }
    found
}

fn enable_unit(tree: &mut Tree, unit: &str, depth: u32) -> Result<(), Error> {
    // The unit of a template is described by the template's file.
    let (template, instance) = match (unit.split_once('@'), unit.rsplit_once('.')) {
        (Some((base, rest)), Some((_, suffix))) => (
            format!("{base}@.{suffix}"),
            rest.strip_suffix(&format!(".{suffix}")).unwrap_or_default(),
        ),
        _ => (unit.to_string(), ""),
    };
    let file = format!("{UNITS}/{template}");
    let text = tree.text(&file);
    // Units that enable one another are enabled only once.
    if text.is_empty() || depth > 4 {
        return Ok(());
    }
    for (key, value) in install_section(&text) {
        for word in value.split_whitespace() {
            let word = word.replace("%i", instance);
            let link = match key {
                "WantedBy" => format!("/etc/systemd/system/{word}.wants/{unit}"),
                "RequiredBy" => format!("/etc/systemd/system/{word}.requires/{unit}"),
                "Alias" => format!("/etc/systemd/system/{word}"),
                "Also" => {
                    enable_unit(tree, &word, depth + 1)?;
                    continue;
                }
                _ => continue,
            };
            if word != unit && tree.lookup_link(&link).is_none() {
                tree.symlink(&link, &file)?;
            }
        }
    }
    Ok(())
}

fn install_section(text: &str) -> Vec<(&str, &str)> {
    text.lines()
        .map(str::trim)
        .skip_while(|l| *l != "[Install]")
        .skip(1)
        .take_while(|l| !l.starts_with('['))
        .filter(|l| !l.starts_with(['#', ';']))
        .filter_map(|l| l.split_once('='))
        .map(|(k, v)| (k.trim(), v.trim()))
        .collect()
}

#[derive(Debug, PartialEq, Eq)]
struct Offer {
    link: String,
    name: String,
    path: String,
    priority: i64,
}

fn offers(script: &str) -> Vec<Offer> {
    let mut found = Vec::new();
    for line in script.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let Some(first) = words.iter().position(|w| *w == "update-alternatives") else {
            continue;
        };
        let mut rest = words[first..].iter().skip_while(|w| **w != "--install");
        rest.next();
        let mut next = || rest.next().and_then(|w| literal(w));
        if let (Some(link), Some(name), Some(path), Some(priority)) =
            (next(), next(), next(), next().and_then(|p| p.parse().ok()))
        {
            found.push(Offer {
                link: link.into(),
                name: name.into(),
                path: path.into(),
                priority,
            });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(postinst: &str) -> Unpacked {
        Unpacked {
            name: "p".into(),
            control: [("postinst".to_string(), postinst.as_bytes().to_vec())].into(),
            paths: Vec::new(),
        }
    }

    fn link(tree: &Tree, path: &str) -> Option<String> {
        match &tree.node(tree.lookup_link(path)?).kind {
            super::super::tree::Kind::Symlink(t) => Some(t.clone()),
            _ => None,
        }
    }

    #[test]
    fn units() {
        let dir = tempfile::tempdir().unwrap();
        let mut tree = Tree::new(dir.path());
        for (name, text) in [
            (
                "a.service",
                "[Unit]\nWantedBy=no.target\n[Install]\nWantedBy=multi-user.target x.target\n\
                 Alias=dbus-a.service\nAlso=a.socket\n",
            ),
            (
                "a.socket",
                "[Install]\nWantedBy=sockets.target\nAlso=a.service\n",
            ),
            (
                "g@.service",
                "[Install]\nWantedBy=getty.target\n[X]\nAlias=y\n",
            ),
        ] {
            tree.file(&format!("{UNITS}/{name}"), 0o644, text.as_bytes())
                .unwrap();
        }
        let scripts = "if deb-systemd-helper --quiet was-enabled 'b.service'; then\n\
            \tdeb-systemd-helper enable 'a.service' >/dev/null || true\n\
            systemctl ${DPKG_ROOT:+--root=\"$DPKG_ROOT\"} enable g@one.service || true\n\
            systemctl enable \"$unit\"\nsystemctl enable absent.service\n\
             deb-systemd-helper enable fstrim.timer\n";
        enable(&mut tree, &[package(scripts)]).unwrap();
        let etc = "/etc/systemd/system";
        for (path, unit) in [
            ("multi-user.target.wants/a.service", "a.service"),
            ("x.target.wants/a.service", "a.service"),
            ("dbus-a.service", "a.service"),
            ("sockets.target.wants/a.socket", "a.socket"),
            ("getty.target.wants/g@one.service", "g@.service"),
        ] {
            let target = link(&tree, &format!("{etc}/{path}"));
            assert_eq!(target, Some(format!("{UNITS}/{unit}")), "{path}");
        }
        assert_eq!(tree.names(etc).len(), 5);
    }

    #[test]
    fn best_offer() {
        let dir = tempfile::tempdir().unwrap();
        let mut tree = Tree::new(dir.path());
        for name in ["mawk", "gawk", "nano"] {
            tree.file(&format!("/usr/bin/{name}"), 0o755, b"").unwrap();
        }
        let script = "update-alternatives --quiet --install /usr/bin/awk awk /usr/bin/mawk 5 \\\n\
             --slave /a b c\n\
             update-alternatives --install /usr/bin/awk awk '/usr/bin/gawk' 10;\n\
             update-alternatives --install /usr/bin/awk awk /usr/bin/absent 99\n\
             update-alternatives --install $x editor /usr/bin/nano 5\n";
        alternatives(&mut tree, &[package(script)]).unwrap();
        let target = link(&tree, "/etc/alternatives/awk");
        assert_eq!(target.as_deref(), Some("/usr/bin/gawk"));
        assert_eq!(tree.names("/etc/alternatives"), ["awk"]);
        assert_eq!(tree.lookup("/usr/bin/awk"), tree.lookup("/usr/bin/gawk"));
    }
}
