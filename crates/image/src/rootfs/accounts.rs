//! Users and groups: Debian's fixed ones, then those that packages declare for systemd-sysusers.

use super::sysusers::{self, Declaration, Number, Primary};
use super::tree::{Attributes, Tree};
use crate::Error;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// Numbers without a fixed value are assigned downwards from here, as systemd does.
const LAST_DYNAMIC: u32 = 999;
const FIRST_DYNAMIC: u32 = 100;
/// Mode of files that only root and the group `shadow` may read.
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
    /// Numbers for declarations without a fixed one, if they are not systemd's own.
    ranges: Vec<(u32, u32)>,
    /// Numbers that a declaration may ask for.
    reserved: BTreeSet<u32>,
}

/// Writes passwd, group, shadow and gshadow. Root has no password, since the machine belongs to its
/// user.
pub(crate) fn write(tree: &mut Tree) -> Result<(), Error> {
    let mut a = Accounts::default();
    a.masters(
        &tree.text("/usr/share/base-passwd/passwd.master"),
        &tree.text("/usr/share/base-passwd/group.master"),
    );
    if a.users.is_empty() {
        a.masters("root:*:0:0:root:/root:/bin/sh\n", "root:*:0:\n");
    }
    let mut lines = Vec::new();
    for (path, name) in files(tree) {
        for line in tree.text(&path).lines() {
            let declared = sysusers::parse(line)
                .map_err(|why| Error::Rootfs(format!("sysusers.d/{name}: `{line}`: {why}")))?;
            lines.extend(declared.map(|d| (d, format!("sysusers.d/{name}: `{line}`"))));
        }
    }
    let owner = |path: &str| {
        let a = tree.node(tree.lookup(path)?).attributes;
        Some((a.uid, a.gid))
    };
    a.declare(&lines, &owner)?;
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

    /// Creates what lines of sysusers.d(5) declare, in systemd's order: groups, users, members.
    /// Existing users and groups stay as they are. `owner` returns the user and group of a path.
    fn declare(
        &mut self,
        lines: &[(Declaration, String)],
        owner: &dyn Fn(&str) -> Option<(u32, u32)>,
    ) -> Result<(), Error> {
        for (line, _) in lines {
            match line {
                Declaration::Range { first, last } => self.ranges.push((*first, *last)),
                // They must not be assigned to anybody else.
                Declaration::User {
                    uid: Number::Fixed(n),
                    ..
                }
                | Declaration::Group {
                    gid: Number::Fixed(n),
                    ..
                } => {
                    self.reserved.insert(*n);
                }
                _ => {}
            }
        }
        let wrong =
            |(_, place): &(Declaration, String), why| Error::Rootfs(format!("{place}: {why}"));
        for line in lines {
            if let Declaration::Group { name, gid } = &line.0 {
                let gid = match gid {
                    Number::Free => None,
                    Number::Fixed(n) => Some(*n),
                    Number::OwnerOf(path) => owner(path).map(|o| o.1),
                };
                self.group(name, gid).map_err(|why| wrong(line, why))?;
            }
        }
        for line in lines {
            if let Declaration::User { .. } = &line.0 {
                self.user(&line.0, owner).map_err(|why| wrong(line, why))?;
            }
        }
        for line in lines {
            if let Declaration::Member { user, group } = &line.0 {
                self.group(group, None).map_err(|why| wrong(line, why))?;
                if !self.users.iter().any(|u| u.name == *user) {
                    // As a separate line with only the name would.
                    let plain = sysusers::parse(&format!("u {user}"));
                    let plain = plain.ok().flatten().expect("a name alone is a line");
                    self.user(&plain, owner).map_err(|why| wrong(line, why))?;
                }
                let group = self.groups.iter_mut().find(|g| g.name == *group);
                let members = &mut group.expect("made above").members;
                if !members.contains(user) {
                    members.push(user.clone());
                }
            }
        }
        Ok(())
    }

    fn user(
        &mut self,
        line: &Declaration,
        owner: &dyn Fn(&str) -> Option<(u32, u32)>,
    ) -> Result<(), &'static str> {
        let Declaration::User {
            name,
            uid,
            group,
            comment,
            home,
            shell,
        } = line
        else {
            return Ok(());
        };
        if self.users.iter().any(|u| u.name == *name) {
            return Ok(());
        }
        let taken = |a: &Self, n: u32| a.users.iter().any(|u| u.uid == n);
        let wanted = match uid {
            Number::Free => None,
            Number::Fixed(n) => Some(*n),
            Number::OwnerOf(path) => owner(path).map(|o| o.0),
        }
        .filter(|n| !taken(self, *n));
        let gid = match group {
            Primary::Same => self.group(name, wanted)?,
            Primary::Number(n) => *n,
            Primary::Name(g) => {
                let known = self.groups.iter().find(|x| x.name == *g);
                known.map(|x| x.gid).ok_or("its group is unknown")?
            }
        };
        let uid = match wanted {
            Some(n) => n,
            None if *group == Primary::Same && !taken(self, gid) => gid,
            None => self.free_number()?,
        };
        self.users.push(User {
            name: name.clone(),
            uid,
            gid,
            comment: comment.clone(),
            home: home.clone(),
            shell: shell.clone(),
        });
        Ok(())
    }

    /// The number of a group; if it does not exist, it is created with that number if that is free.
    fn group(&mut self, name: &str, number: Option<u32>) -> Result<u32, &'static str> {
        if let Some(g) = self.groups.iter().find(|g| g.name == name) {
            return Ok(g.gid);
        }
        let gid = match number.filter(|n| !self.groups.iter().any(|g| g.gid == *n)) {
            Some(n) => n,
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
        let mut taken: BTreeSet<u32> = users.chain(self.groups.iter().map(|g| g.gid)).collect();
        taken.extend(&self.reserved);
        let mut ranges = self.ranges.clone();
        if ranges.is_empty() {
            ranges.push((FIRST_DYNAMIC, LAST_DYNAMIC));
        }
        ranges.sort_by_key(|r| std::cmp::Reverse(r.1));
        let mut free = ranges
            .iter()
            .flat_map(|&(first, last)| (first..=last).rev());
        free.find(|n| !taken.contains(n)).ok_or("no number is free")
    }
}

/// Files with declarations, in the order of their names: path and name. A file in /etc hides the
/// packages' file of the same name.
fn files(tree: &Tree) -> Vec<(String, String)> {
    let mut found = BTreeMap::new();
    for dir in ["/usr/lib/sysusers.d", "/etc/sysusers.d"] {
        for name in tree.names(dir) {
            if name.ends_with(".conf") {
                found.insert(name.clone(), format!("{dir}/{name}"));
            }
        }
    }
    found.into_iter().map(|(name, path)| (path, name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// passwd and group of a system with these declarations.
    fn made(files: &[(&str, &str)]) -> Result<(String, String), String> {
        let dir = tempfile::tempdir().unwrap();
        let mut tree = Tree::new(dir.path());
        for (path, text) in [
            (
                "/usr/share/base-passwd/passwd.master",
                "root:*:0:0:root:/root:/bin/bash\nman:*:6:12:man:/m:/usr/sbin/nologin\n",
            ),
            (
                "/usr/share/base-passwd/group.master",
                "root:*:0:\ntty:*:5:\nman:*:12:\nnogroup:*:65534:\n",
            ),
        ]
        .iter()
        .chain(files)
        {
            tree.file(path, 0o644, text.as_bytes()).unwrap();
        }
        let owned = Attributes {
            uid: 33,
            gid: 34,
            ..Attributes::root(0o644)
        };
        tree.file_as("/srv/owned", owned, b"").unwrap();
        write(&mut tree).map_err(|e| e.to_string())?;
        let shadow = tree.text("/etc/shadow");
        assert!(shadow.starts_with("root::20000:") && shadow.contains("\nman:*:20000:"));
        let node = tree.node(tree.lookup("/etc/shadow").unwrap());
        assert_eq!((node.attributes.mode, node.attributes.gid), (0o640, 42));
        // The declared ones, after the master files.
        let behind = |path: &str, n: usize| {
            let text = tree.text(path);
            text.lines().skip(n).collect::<Vec<_>>().join(" ")
        };
        Ok((behind("/etc/passwd", 2), behind("/etc/group", 4)))
    }

    #[test]
    fn declarations() {
        let (passwd, group) = made(&[
            (
                "/usr/lib/sysusers.d/a.conf",
                "# comment\n\ng tty 5 -\ng kvm - -\nu! net - \"The Net\"\nu man 6:12 - /x\n\
                 u sshd -:nogroup \"ssh\" /run/sshd\n",
            ),
            (
                "/usr/lib/sysusers.d/b.conf",
                "u web 33:tty \"W:eb\" /srv /bin/sh\nm web kvm\nm web kvm\n",
            ),
            ("/usr/lib/sysusers.d/b.txt", "no line\n"),
        ])
        .unwrap();
        assert_eq!(
            passwd,
            "net:x:998:998:The Net:/:/usr/sbin/nologin sshd:x:997:65534:ssh:/run/sshd:/usr/sbin/nologin \
             web:x:33:5:W eb:/srv:/bin/sh"
        );
        assert_eq!(group, "kvm:x:999:web net:x:998:");
    }

    /// A group may be declared in a later file; a fixed number is not assigned to others, nor
    /// twice.
    #[test]
    fn order_and_numbers() {
        let (passwd, group) = made(&[
            (
                "/usr/lib/sysusers.d/a.conf",
                "u first -:late\nu second -\nu third 999\nu fourth 6\nm fifth late\n",
            ),
            ("/usr/lib/sysusers.d/b.conf", "g late -\n"),
        ])
        .unwrap();
        let numbers: Vec<String> = passwd
            .split(' ')
            .map(|l| l.split(':').take(4).collect::<Vec<_>>().join(":"))
            .collect();
        assert_eq!(
            numbers,
            [
                "first:x:997:998",
                "second:x:996:996",
                "third:x:999:999",
                "fourth:x:995:995",
                "fifth:x:994:994"
            ]
        );
        assert!(group.starts_with("late:x:998:fifth "), "{group}");
    }

    #[test]
    fn ranges_owners_and_files_that_hide_others() {
        let (passwd, group) = made(&[
            ("/usr/lib/sysusers.d/a.conf", "u hidden -\n"),
            (
                "/etc/sysusers.d/a.conf",
                "r - 300-301\nr - 500\nu a -\nu b -\nu c /srv/owned\ng d /srv/owned\ng e /none\n",
            ),
        ])
        .unwrap();
        assert_eq!(group, "d:x:34: e:x:500: a:x:301: b:x:300: c:x:33:");
        let uids: Vec<&str> = passwd
            .split(' ')
            .filter_map(|l| l.split(':').nth(2))
            .collect();
        assert_eq!(uids, ["301", "300", "33"]);
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        let e = made(&[("/usr/lib/sysusers.d/a.conf", "u a 7:nowhere\n")]).unwrap_err();
        assert!(
            e.contains("sysusers.d/a.conf: `u a 7:nowhere`: its group is unknown"),
            "{e}"
        );
        let e = made(&[("/usr/lib/sysusers.d/a.conf", "x a\n")]).unwrap_err();
        assert!(
            e.contains("sysusers.d/a.conf: `x a`: its first word"),
            "{e}"
        );
        let many: String = (0..901).map(|i| format!("g g{i} -\n")).collect();
        let e = made(&[("/usr/lib/sysusers.d/a.conf", &many)]).unwrap_err();
        assert!(e.contains("g g900 -`: no number is free"), "{e}");
    }
}
