//! Users and groups: Debian's fixed ones, then those that packages declare for systemd-sysusers.

use super::tree::{Attributes, Tree};
use crate::Error;
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// Numbers for those that ask for none are given downwards from here, as systemd does.
const LAST_DYNAMIC: u32 = 999;
const FIRST_DYNAMIC: u32 = 100;
/// Where only root and the group `shadow` look.
const SHADOW_GROUP: u32 = 42;

#[derive(Debug, PartialEq, Eq)]
struct User {
    name: String,
    uid: u32,
    gid: u32,
    comment: String,
    home: String,
    shell: String,
}

#[derive(Debug, PartialEq, Eq)]
struct Group {
    name: String,
    gid: u32,
    members: Vec<String>,
}

#[derive(Debug, Default)]
struct Accounts {
    users: Vec<User>,
    groups: Vec<Group>,
}

/// Writes passwd, group, shadow and gshadow. Root has no password: the machine is the user's own.
pub(crate) fn write(tree: &mut Tree) -> Result<(), Error> {
    let mut a = Accounts::default();
    a.masters(
        &tree.text("/usr/share/base-passwd/passwd.master"),
        &tree.text("/usr/share/base-passwd/group.master"),
    );
    if a.users.is_empty() {
        a.masters("root:*:0:0:root:/root:/bin/sh\n", "root:*:0:\n");
    }
    for name in tree.names("/usr/lib/sysusers.d") {
        let text = tree.text(&format!("/usr/lib/sysusers.d/{name}"));
        for line in text.lines() {
            a.declare(line)
                .map_err(|why| Error::Rootfs(format!("sysusers.d/{name}: `{line}`: {why}")))?;
        }
    }
    let (mut passwd, mut shadow) = (String::new(), String::new());
    for u in &a.users {
        let _ = writeln!(
            passwd,
            "{}:x:{}:{}:{}:{}:{}",
            u.name, u.uid, u.gid, u.comment, u.home, u.shell
        );
        let password = if u.uid == 0 { "" } else { "*" };
        let _ = writeln!(shadow, "{}:{password}:20000:0:99999:7:::", u.name);
    }
    let (mut group, mut gshadow) = (String::new(), String::new());
    for g in &a.groups {
        let _ = writeln!(group, "{}:x:{}:{}", g.name, g.gid, g.members.join(","));
        let _ = writeln!(gshadow, "{}:*::{}", g.name, g.members.join(","));
    }
    let secret = Attributes {
        gid: SHADOW_GROUP,
        ..Attributes::root(0o640)
    };
    for (path, text, attributes) in [
        ("/etc/passwd", &passwd, Attributes::root(0o644)),
        ("/etc/group", &group, Attributes::root(0o644)),
        ("/etc/shadow", &shadow, secret),
        ("/etc/gshadow", &gshadow, secret),
    ] {
        tree.file_as(path, attributes, text.as_bytes())?;
    }
    Ok(())
}

impl Accounts {
    fn masters(&mut self, passwd: &str, group: &str) {
        for line in passwd.lines() {
            if let [name, _, uid, gid, comment, home, shell] =
                line.split(':').collect::<Vec<_>>()[..]
            {
                if let (Ok(uid), Ok(gid)) = (uid.parse(), gid.parse()) {
                    self.users.push(User {
                        name: name.into(),
                        uid,
                        gid,
                        comment: comment.into(),
                        home: home.into(),
                        shell: shell.into(),
                    });
                }
            }
        }
        for line in group.lines() {
            if let [name, _, gid, _] = line.split(':').collect::<Vec<_>>()[..] {
                if let Ok(gid) = gid.parse() {
                    self.groups.push(Group {
                        name: name.into(),
                        gid,
                        members: Vec::new(),
                    });
                }
            }
        }
    }

    /// A line of sysusers.d(5); users and groups that exist stay as they are.
    fn declare(&mut self, line: &str) -> Result<(), &'static str> {
        let words = words(line);
        let word = |i: usize| {
            let w = words.get(i).map_or("-", String::as_str);
            (w != "-").then_some(w)
        };
        let Some(kind) = words.first() else {
            return Ok(());
        };
        let name = match word(1) {
            Some(name) => name,
            // A range of numbers has no name.
            None if kind == "r" => return Ok(()),
            None => return Err("it names nobody"),
        };
        match kind.as_str() {
            "g" => {
                self.group(name, word(2))?;
            }
            "u" | "u!" => {
                if self.users.iter().any(|u| u.name == name) {
                    return Ok(());
                }
                let (uid, gid) = match word(2) {
                    Some(id) => match id.split_once(':') {
                        Some((uid, gid)) => (Some(uid), Some(gid)),
                        None => (Some(id), None),
                    },
                    None => (None, None),
                };
                let gid = match gid {
                    // By number or by name.
                    Some(g) => match self.groups.iter().find(|x| x.name == g) {
                        Some(x) => x.gid,
                        None => g.parse().map_err(|_| "its group is unknown")?,
                    },
                    None => self.group(name, uid)?,
                };
                let uid = match uid {
                    Some(uid) => uid.parse().map_err(|_| "its number cannot be read")?,
                    None if !self.users.iter().any(|u| u.uid == gid) => gid,
                    None => self.free_number()?,
                };
                self.users.push(User {
                    name: name.into(),
                    uid,
                    gid,
                    comment: word(3).unwrap_or_default().replace(':', " "),
                    home: word(4).unwrap_or("/").into(),
                    shell: word(5).unwrap_or("/usr/sbin/nologin").into(),
                });
            }
            "m" => {
                let group = word(2).ok_or("it names no group")?;
                self.group(group, None)?;
                let group = self.groups.iter_mut().find(|g| g.name == group);
                let members = &mut group.expect("made above").members;
                if !members.iter().any(|m| m == name) {
                    members.push(name.into());
                }
            }
            // A range of numbers for the machine's own use: nothing is to be made.
            "r" => {}
            _ => return Err("its first word is none of u, g, m, r"),
        }
        Ok(())
    }

    fn group(&mut self, name: &str, number: Option<&str>) -> Result<u32, &'static str> {
        if let Some(g) = self.groups.iter().find(|g| g.name == name) {
            return Ok(g.gid);
        }
        let gid = match number {
            Some(n) => n.parse().map_err(|_| "its number cannot be read")?,
            None => self.free_number()?,
        };
        self.groups.push(Group {
            name: name.into(),
            gid,
            members: Vec::new(),
        });
        Ok(gid)
    }

    fn free_number(&self) -> Result<u32, &'static str> {
        let users = self.users.iter().map(|u| u.uid);
        let taken: BTreeSet<u32> = users.chain(self.groups.iter().map(|g| g.gid)).collect();
        (FIRST_DYNAMIC..=LAST_DYNAMIC)
            .rev()
            .find(|n| !taken.contains(n))
            .ok_or("no number is free")
    }
}

/// Words of a line, quotes taken off; none of a comment.
fn words(line: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = line.trim();
    let comment = rest.starts_with('#');
    while !comment && !rest.is_empty() {
        let (word, behind) = match rest.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"').unwrap_or((quoted, "")),
            None => rest.split_once(char::is_whitespace).unwrap_or((rest, "")),
        };
        found.push(word.to_string());
        rest = behind.trim_start();
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masters_and_declarations() {
        let dir = tempfile::tempdir().unwrap();
        let mut tree = Tree::new(dir.path());
        for (path, text) in [
            (
                "/usr/share/base-passwd/passwd.master",
                "root:*:0:0:root:/root:/bin/bash\nman:*:6:12:man:/m:/usr/sbin/nologin\n",
            ),
            (
                "/usr/share/base-passwd/group.master",
                "root:*:0:\ntty:*:5:\nman:*:12:\n",
            ),
            (
                "/usr/lib/sysusers.d/a.conf",
                "# comment\n\ng tty 5 -\ng kvm - -\nu! net - \"The Net\"\nu man 6:12 - /x\n",
            ),
            (
                "/usr/lib/sysusers.d/b.conf",
                "u web 33:tty \"W:eb\" /srv /bin/sh\nm web kvm\nm web kvm\nr - 500-900\n",
            ),
        ] {
            tree.file(path, 0o644, text.as_bytes()).unwrap();
        }
        write(&mut tree).unwrap();
        assert_eq!(
            tree.text("/etc/passwd"),
            "root:x:0:0:root:/root:/bin/bash\nman:x:6:12:man:/m:/usr/sbin/nologin\n\
             net:x:998:998:The Net:/:/usr/sbin/nologin\nweb:x:33:5:W eb:/srv:/bin/sh\n"
        );
        assert_eq!(
            tree.text("/etc/group"),
            "root:x:0:\ntty:x:5:\nman:x:12:\nkvm:x:999:web\nnet:x:998:\n"
        );
        let shadow = tree.text("/etc/shadow");
        assert!(shadow.starts_with("root::20000:") && shadow.contains("\nman:*:20000:"));
        let node = tree.node(tree.lookup("/etc/shadow").unwrap());
        assert_eq!((node.attributes.mode, node.attributes.gid), (0o640, 42));
    }

    #[test]
    fn lines_that_cannot_be_read() {
        for (line, why) in [
            ("u", "names nobody"),
            ("x a", "none of u, g"),
            ("g a b", "number cannot be read"),
            ("u a 7:nowhere", "group is unknown"),
            ("m a", "names no group"),
        ] {
            let e = Accounts::default().declare(line).unwrap_err();
            assert!(e.contains(why), "{line}: {e}");
        }
        let mut a = Accounts::default();
        for i in 0..900 {
            a.declare(&format!("g g{i} -")).unwrap();
        }
        assert_eq!(a.declare("g more -"), Err("no number is free"));
    }
}
