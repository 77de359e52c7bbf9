//! The host's apt with a state directory of its own: for another architecture and another release
//! than the host's, without root, and without touching the host's state. apt verifies signatures
//! and checksums.

use crate::error::IoContext;
use crate::kmod::IMAGE;
use crate::rootfs::Step;
use crate::tool::{APT_CACHE, APT_GET};
use crate::{mirror, Error};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A package as the mirror's signed index describes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Package {
    /// Debian's name of the package.
    pub name: String,
    /// Its version, with epoch and revision.
    pub version: String,
    /// SHA-256 of the .deb file, in hexadecimal.
    pub sha256: String,
    /// Size of the .deb file in bytes.
    pub size: u64,
}

/// apt with its state in a directory of ours.
pub(crate) struct Apt {
    dir: PathBuf,
    suite: String,
}

/// Debian's keys, in the order of preference; if there are none, apt uses its trusted.gpg.d.
const KEYRINGS: [&str; 2] = [
    "/usr/share/keyrings/debian-archive-keyring.pgp",
    "/usr/share/keyrings/debian-archive-keyring.gpg",
];

impl Apt {
    pub fn new(dir: &Path, suite: &str) -> Result<Self, Error> {
        check_name("suite", suite)?;
        for sub in [
            "state/lists/partial",
            "cache/archives/partial",
            "parts",
            "download",
        ] {
            let d = dir.join(sub);
            fs::create_dir_all(&d).context("create", &d)?;
        }
        let status = dir.join("state/status");
        if !status.exists() {
            fs::write(&status, "").context("write", &status)?;
        }
        let conf = dir.join("apt.conf");
        fs::write(&conf, configuration(dir)).context("write", &conf)?;
        Ok(Apt {
            dir: dir.to_path_buf(),
            suite: suite.to_string(),
        })
    }

    fn tool(&self, tool: crate::tool::Tool) -> Command {
        let mut c = tool.command();
        // As an option, so that it is read after the host's configuration and overrides it.
        c.arg("-c").arg(self.dir.join("apt.conf"));
        c
    }

    /// Reads the index of the first mirror that has it with a valid signature, whole.
    ///
    /// While a mirror is being updated, the signed release file of a suite may name other files than there are. The
    /// same suite under its other name may still be whole, so those names are tried, too, and taken if their
    /// release file has the right code name.
    pub fn update(&self, mirror: Option<&str>) -> Result<(), Error> {
        let list = self.dir.join("sources.list");
        let before = fs::read(&list).ok();
        let updated = self.update_from(&mirror::candidates(mirror)?, &list);
        if let (Err(_), Some(before)) = (&updated, before) {
            // The index that was read before stays the one that is used.
            fs::write(&list, before).context("write", &list)?;
        }
        updated
    }

    /// Reads the index of the first of these mirrors that has it, and notes in `list` which one that is.
    fn update_from(&self, mirrors: &[String], list: &Path) -> Result<(), Error> {
        let keyring = KEYRINGS.iter().find(|k| Path::new(k).exists());
        let mut first_error = None;
        let names = [self.suite.as_str()].into_iter().chain(ALIASES);
        for (uri, name) in names.flat_map(|n| mirrors.iter().map(move |m| (m, n))) {
            fs::write(list, source_line(uri, name, keyring.copied())).context("write", list)?;
            let mut c = self.tool(APT_GET);
            c.args(["update", "--quiet=2"]);
            let what = format!("read the package index of Debian {}", self.suite);
            match APT_GET.run(c, &what) {
                Ok(_) => {
                    let is_it = |r: &String| has_codename(r, &self.suite);
                    if name == self.suite || self.releases(name)?.iter().any(is_it) {
                        return Ok(());
                    }
                }
                Err(e @ Error::ToolMissing { .. }) => return Err(e),
                Err(e) => first_error = first_error.or(Some(e)),
            }
        }
        Err(first_error.unwrap_or(Error::NoMirror))
    }

    /// The release files that were read under a name of a suite.
    fn releases(&self, name: &str) -> Result<Vec<String>, Error> {
        let lists = self.dir.join("state/lists");
        let mut found = Vec::new();
        for e in fs::read_dir(&lists).context("read", &lists)?.flatten() {
            let file = e.file_name().to_string_lossy().into_owned();
            let of_suite = file.contains(&format!("_dists_{name}_"));
            if of_suite && (file.ends_with("InRelease") || file.ends_with("_Release")) {
                let text = fs::read(e.path()).context("read", e.path())?;
                found.push(String::from_utf8_lossy(&text).into_owned());
            }
        }
        Ok(found)
    }

    /// The name under which the suite was read last; its own, if it never was.
    fn name_read(&self) -> String {
        let text = fs::read_to_string(self.dir.join("sources.list")).unwrap_or_default();
        let mut words = text.split_whitespace().skip_while(|w| !w.contains(":/"));
        words.nth(1).unwrap_or(&self.suite).to_string()
    }

    /// The record of a package's newest version.
    fn show(&self, name: &str) -> Result<Record, Error> {
        check_name("package", name)?;
        let mut c = self.tool(APT_CACHE);
        c.args(["show", "--no-all-versions", name]);
        match APT_CACHE.run(c, "look up a package") {
            Ok(out) => Record::parse(&String::from_utf8_lossy(&out.stdout))
                .ok_or_else(|| self.odd(name, "not in the index")),
            Err(Error::Command { output, .. }) => {
                Err(self.odd(name, &format!("not in the index ({output})")))
            }
            Err(e) => Err(e),
        }
    }

    fn odd(&self, name: &str, what: &str) -> Error {
        Error::Package {
            name: name.to_string(),
            suite: self.suite.clone(),
            what: what.to_string(),
        }
    }

    /// The index's data on a package that is to be downloaded.
    pub fn package(&self, name: &str) -> Result<Package, Error> {
        self.show(name)?
            .package()
            .ok_or_else(|| self.odd(name, "its record lacks Version, SHA256 or Size"))
    }

    /// The packages that are installed with `wanted` on an empty system: apt's choice, without
    /// recommended ones, and the order in which it unpacks and configures them.
    pub fn solve(&self, wanted: &[String]) -> Result<(Vec<Package>, Vec<Step>), Error> {
        for name in wanted {
            check_name("package", name)?;
        }
        let simulated = match self.simulate(wanted) {
            Err(Error::Command { output, .. }) => return Err(self.refused(wanted, output)),
            other => other?,
        };
        let chosen = chosen(&simulated);
        let mut c = self.tool(APT_CACHE);
        c.arg("show").args(
            chosen
                .iter()
                .map(|(name, version)| format!("{name}={version}")),
        );
        let out = APT_CACHE.run(c, "look up packages")?;
        let text = String::from_utf8_lossy(&out.stdout);
        let known: Vec<Package> = text
            .split("\n\n")
            .filter_map(|stanza| Record::parse(stanza)?.package())
            .collect();
        let packages: Result<Vec<Package>, Error> = chosen
            .iter()
            .map(|(name, version)| {
                known
                    .iter()
                    .find(|p| p.name == *name && p.version == *version)
                    .cloned()
                    .ok_or_else(|| self.odd(name, "its record lacks Version, SHA256 or Size"))
            })
            .collect();
        Ok((packages?, order(&simulated)))
    }

    /// What apt says it would do to install packages on an empty system.
    fn simulate(&self, wanted: &[String]) -> Result<String, Error> {
        let mut c = self.tool(APT_GET);
        c.args(["install", "--simulate", "--no-install-recommends", "--yes"])
            .args(wanted);
        let out = APT_GET.run(c, "choose packages")?;
        Ok(String::from_utf8_lossy(&out.stdout).into_owned())
    }

    /// Why apt does not install these packages: those to blame are the ones that it does not install alone. If there are none,
    /// it is the first one that does not go with those before it.
    fn refused(&self, wanted: &[String], output: String) -> Error {
        let says = |some: &[String]| match self.simulate(some) {
            Err(Error::Command { output, .. }) => Some(output),
            _ => None,
        };
        let alone = wanted.iter().filter_map(|name| {
            let said = says(std::slice::from_ref(name))?;
            Some((name.clone(), format!("cannot be installed ({said})")))
        });
        let mut blamed: Vec<(String, String)> = alone.collect();
        if blamed.is_empty() {
            let first = (1..wanted.len()).find_map(|n| Some((&wanted[n], says(&wanted[..=n])?)));
            let (name, said) = match first {
                Some((name, said)) => (name.clone(), said),
                None => (wanted.join(" "), output),
            };
            let what = format!("cannot be installed with the other packages ({said})");
            blamed.push((name, what));
        }
        let names: Vec<String> = blamed.iter().map(|b| b.0.clone()).collect();
        let said: Vec<String> = blamed.into_iter().map(|b| b.1).collect();
        self.odd(&names.join(" "), &said.join("; "))
    }

    /// The mirror whose index was read last.
    pub fn mirror(&self) -> Result<String, Error> {
        let list = self.dir.join("sources.list");
        let text = fs::read_to_string(&list).context("read", &list)?;
        let uri = text.split(&[' ', '\n'][..]).find(|w| w.contains(":/"));
        Ok(uri.unwrap_or_default().to_string())
    }

    /// Midnight after the mirror signed the index that was read last, in seconds since 1970.
    pub fn index_date(&self) -> Result<u64, Error> {
        let releases = self.releases(&self.name_read())?;
        let newest = releases.iter().filter_map(|r| signed(r)).max();
        newest.map(|t: u64| (t / DAY + 1) * DAY).ok_or_else(|| {
            Error::Rootfs(format!(
                "the index of Debian {} in {} has no date that can be read",
                self.suite,
                self.dir.join("state/lists").display()
            ))
        })
    }

    /// Whether an index was read before.
    pub fn has_index(&self) -> bool {
        let name = self.name_read();
        self.dir.join("sources.list").exists()
            && fs::read_dir(self.dir.join("state/lists")).is_ok_and(|d| {
                d.flatten().any(|e| {
                    e.file_name()
                        .to_string_lossy()
                        .contains(&format!("_dists_{name}_"))
                })
            })
    }

    /// The kernel package that the meta package `linux-image-riscv64` depends on.
    pub fn kernel_package(&self) -> Result<String, Error> {
        const META: &str = "linux-image-riscv64";
        let record = self.show(META)?;
        let kernel = record.depends().find(|d| d.starts_with(IMAGE));
        kernel
            .map(str::to_string)
            .ok_or_else(|| self.odd(META, "depends on no linux-image-* package"))
    }

    /// The packages among which newer releases divide a kernel: image, modules, lists.
    pub fn kernel_parts(&self, kernel: &str) -> Result<Vec<Package>, Error> {
        let names = parts_of(kernel, &self.show(kernel)?);
        names.iter().map(|n| self.package(n)).collect()
    }

    /// Downloads one package; apt compares it with the checksum in the signed index. Returns the
    /// file, which the caller may move.
    pub fn download(&self, p: &Package) -> Result<PathBuf, Error> {
        let what = format!("download {} {}", p.name, p.version);
        let files = self.download_all(&[p], &what)?;
        let first = files.into_iter().next();
        first.ok_or_else(|| self.odd(&p.name, "apt downloaded nothing"))
    }

    /// Downloads several packages; returns the files, in no particular order, which the caller may
    /// move.
    pub fn download_all(&self, list: &[&Package], what: &str) -> Result<Vec<PathBuf>, Error> {
        let dir = self.dir.join("download");
        fs::remove_dir_all(&dir).context("remove", &dir)?;
        fs::create_dir(&dir).context("create", &dir)?;
        let mut c = self.tool(APT_GET);
        c.args(["download", "--quiet=2"])
            .args(list.iter().map(|p| format!("{}={}", p.name, p.version)))
            .current_dir(&dir);
        APT_GET.run(c, what)?;
        let found = fs::read_dir(&dir).context("read", &dir)?.flatten();
        Ok(found
            .map(|e| e.path())
            .filter(|f| f.extension().is_some_and(|x| x == "deb"))
            .collect())
    }
}

/// Packages of the same release of the kernel that its package depends on.
fn parts_of(kernel: &str, record: &Record) -> Vec<String> {
    let release = kernel.strip_prefix(IMAGE).unwrap_or(kernel);
    let same = |d: &&str| d.strip_suffix(release).is_some_and(|d| d.ends_with('-'));
    record.depends().filter(same).map(str::to_string).collect()
}

/// Other names of suites, which Debian gives to another one with each release.
const ALIASES: [&str; 3] = ["stable", "oldstable", "testing"];

/// Whether a release file is that of a suite.
fn has_codename(release: &str, suite: &str) -> bool {
    let mut names = release.lines().filter_map(|l| l.strip_prefix("Codename:"));
    names.any(|n| n.trim() == suite)
}

/// Seconds of a day.
const DAY: u64 = 86_400;

/// The date of a Release file, in seconds since 1970.
fn signed(release: &str) -> Option<u64> {
    let date = release.lines().find_map(|l| l.strip_prefix("Date:"))?;
    // The same, in the date format of HTTP.
    let date = date.trim().replace(" UTC", " GMT");
    let time = httpdate::parse_http_date(&date).ok()?;
    Some(time.duration_since(std::time::UNIX_EPOCH).ok()?.as_secs())
}

/// The order given by `apt-get --simulate install`.
fn order(text: &str) -> Vec<Step> {
    let step = |l: &str| {
        let mut words = l.split_whitespace();
        match (words.next()?, words.next()?) {
            ("Inst", name) => Some(Step::Unpack(name.into())),
            ("Conf", name) => Some(Step::Configure(name.into())),
            _ => None,
        }
    };
    text.lines().filter_map(step).collect()
}

/// Names and versions given by `apt-get --simulate install`.
fn chosen(text: &str) -> Vec<(String, String)> {
    text.lines()
        .filter_map(|l| {
            let (name, rest) = l.strip_prefix("Inst ")?.split_once(' ')?;
            let version = rest.split_once('(')?.1.split([' ', ')']).next()?;
            Some((name.to_string(), version.to_string()))
        })
        .collect()
}

/// Options that separate this apt from the host's; proxies and passwords are taken from the host.
fn configuration(dir: &Path) -> String {
    let d = dir.display();
    format!(
        "#clear APT::Architectures;\n\
         #clear APT::Update::Pre-Invoke;\n\
         #clear APT::Update::Post-Invoke;\n\
         #clear APT::Update::Post-Invoke-Success;\n\
         APT::Architecture \"riscv64\";\n\
         APT::Architectures {{ \"riscv64\"; }};\n\
         APT::Sandbox::User \"root\";\n\
         APT::Update::Error-Mode \"any\";\n\
         APT::Default-Release \"\";\n\
         Acquire::Languages \"none\";\n\
         Acquire::Retries \"3\";\n\
         Acquire::IndexTargets::deb::DEP-11::DefaultEnabled \"false\";\n\
         Acquire::IndexTargets::deb::CNF::DefaultEnabled \"false\";\n\
         Dir::State \"{d}/state\";\n\
         Dir::State::lists \"{d}/state/lists\";\n\
         Dir::State::status \"{d}/state/status\";\n\
         Dir::Cache \"{d}/cache\";\n\
         Dir::Cache::archives \"{d}/cache/archives\";\n\
         Dir::Etc::sourcelist \"{d}/sources.list\";\n\
         Dir::Etc::sourceparts \"{d}/parts\";\n\
         Dir::Etc::preferences \"/dev/null\";\n\
         Dir::Etc::preferencesparts \"{d}/parts\";\n"
    )
}

fn source_line(uri: &str, suite: &str, keyring: Option<&str>) -> String {
    let signed = keyring.map_or(String::new(), |k| format!(" signed-by={k}"));
    format!("deb [arch=riscv64{signed}] {uri} {suite} main\n")
}

fn check_name(what: &'static str, value: &str) -> Result<(), Error> {
    let ok = value
        .bytes()
        .next()
        .is_some_and(|b| b.is_ascii_alphanumeric())
        && value
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b".+-_".contains(&b));
    if ok {
        Ok(())
    } else {
        Err(Error::BadName {
            what,
            value: value.to_string(),
        })
    }
}

/// One stanza of a Debian control file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Record(Vec<(String, String)>);

impl Record {
    /// The first stanza; continuation lines are joined with a newline.
    pub fn parse(text: &str) -> Option<Record> {
        let mut fields: Vec<(String, String)> = Vec::new();
        for line in text.lines() {
            if line.trim().is_empty() {
                if fields.is_empty() {
                    continue;
                }
                break;
            }
            if line.starts_with([' ', '\t']) {
                let (_, value) = fields.last_mut()?;
                value.push('\n');
                value.push_str(line.trim());
            } else {
                let (key, value) = line.split_once(':')?;
                fields.push((key.to_string(), value.trim().to_string()));
            }
        }
        (!fields.is_empty()).then_some(Record(fields))
    }

    pub fn field(&self, name: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(k, _)| k.eq_ignore_ascii_case(name))
            .map(|(_, v)| v.as_str())
    }

    /// Names of packages in a dependency field, including all alternatives.
    pub fn names(&self, field: &str) -> Vec<String> {
        let field = self.field(field).unwrap_or_default();
        let parts = field.split([',', '|']);
        let name = |p: &str| {
            p.split(['(', ':', ' ', '\n'])
                .find(|w| !w.is_empty())
                .map(String::from)
        };
        parts.filter_map(name).collect()
    }

    /// Names of the packages on which this one depends, first alternatives only.
    fn depends(&self) -> impl Iterator<Item = &str> {
        self.field("Depends")
            .unwrap_or_default()
            .split(',')
            .filter_map(|d| d.split(['|', '(', ':', ' ', '\n']).find(|w| !w.is_empty()))
    }

    fn package(&self) -> Option<Package> {
        let sha256 = self.field("SHA256")?.to_ascii_lowercase();
        (sha256.len() == 64 && sha256.bytes().all(|b| b.is_ascii_hexdigit())).then_some(())?;
        Some(Package {
            name: self.field("Package")?.to_string(),
            version: self.field("Version")?.to_string(),
            sha256,
            size: self.field("Size")?.parse().ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const META: &str = "\nPackage: linux-image-riscv64\nVersion: 6.12.107-1\n\
        Depends: linux-base (>= 4.12~), linux-image-6.12.107+deb13-riscv64 (= 6.12.107-1) | x\n\
        Description: Linux for 64-bit RISC-V platforms\n two\n\tlines\nSize: 1436\n\
        SHA256: 1B458CC5b1d13b946bdca67bdca891fccf57882f8af972276d1346b24fa8285b\n\n\
        Package: other\n";

    #[test]
    fn a_release_file_says_which_suite_it_is() {
        let text = "Origin: Debian\nSuite: stable\nCodename: trixie\nDate: x\n";
        assert!(has_codename(text, "trixie"));
        assert!(!has_codename(text, "stable") && !has_codename(text, "trix"));
    }

    #[test]
    fn stanza() {
        let r = Record::parse(META).unwrap();
        assert_eq!(
            r.names("Depends"),
            ["linux-base", "linux-image-6.12.107+deb13-riscv64", "x"]
        );
        assert_eq!(
            r.depends().collect::<Vec<_>>(),
            ["linux-base", "linux-image-6.12.107+deb13-riscv64"]
        );
        assert_eq!(
            r.field("description").unwrap(),
            "Linux for 64-bit RISC-V platforms\ntwo\nlines"
        );
        let p = r.package().unwrap();
        assert_eq!((p.name.as_str(), p.size), ("linux-image-riscv64", 1436));
        assert!(p.sha256.starts_with("1b458cc5"));
    }

    #[test]
    fn a_kernel_in_one_package_or_in_several() {
        let of = |kernel: &str, depends: &str| {
            let text = format!("Package: {kernel}\nDepends: {depends}\n");
            parts_of(kernel, &Record::parse(&text).unwrap())
        };
        let whole =
            "kmod, linux-base (>= 4.12~), initramfs-tools (>= 0.120) | linux-initramfs-tool";
        assert!(of("linux-image-6.12.107+deb13-riscv64", whole).is_empty());
        let divided = "dracut | initramfs-tools (>= 0.120), linux-base-7.2.13+deb14-riscv64 (= 7.2.13-1), \
                       linux-binary-7.2.13+deb14-riscv64 (= 7.2.13-1), linux-modules-7.2.13+deb14-riscv64 (= 7.2.13-1)";
        let parts = of("linux-image-7.2.13+deb14-riscv64", divided);
        let names = ["base", "binary", "modules"];
        assert_eq!(
            parts,
            names.map(|n| format!("linux-{n}-7.2.13+deb14-riscv64"))
        );
    }

    #[test]
    fn what_apt_would_install() {
        let text = "Reading package lists...\nInst libc6 (2.41-12 Debian:13.7/stable [riscv64]) []\n\
                    Inst xz-utils (5.8.1-1+b2 Debian:13.7/stable [riscv64])\nConf libc6 (2.41-12 x)\n\
                    Inst odd\n";
        let found = chosen(text);
        let step = |n: &str| Step::Unpack(n.into());
        let conf = Step::Configure("libc6".into());
        assert_eq!(
            order(text),
            [step("libc6"), step("xz-utils"), conf, step("odd")]
        );
        let of = |n: &str, v: &str| (n.to_string(), v.to_string());
        assert_eq!(
            found,
            [of("libc6", "2.41-12"), of("xz-utils", "5.8.1-1+b2")]
        );
    }

    #[test]
    fn stanza_without_what_is_needed() {
        assert_eq!(Record::parse(""), None);
        assert_eq!(Record::parse(" continuation first\n"), None);
        assert_eq!(Record::parse("no colon\n"), None);
        for text in [
            "Package: a\nVersion: 1\nSize: 3\n",
            "Package: a\nVersion: 1\nSize: 3\nSHA256: 12\n",
            "Package: a\nVersion: 1\nSize: -3\nSHA256: 1b458cc5b1d13b946bdca67bdca891fccf57882f8af972276d1346b24fa8285b\n",
        ] {
            assert_eq!(Record::parse(text).unwrap().package(), None, "{text}");
        }
    }

    #[test]
    fn names_are_checked() {
        assert!(check_name("package", "linux-image-6.12.107+deb13-riscv64").is_ok());
        for bad in ["", "-o", "a b", "a\nb", "a=1", "../x", "a/bookworm"] {
            let e = check_name("package", bad).unwrap_err().to_string();
            assert!(e.contains("is not a valid name"), "{e}");
        }
    }

    #[test]
    fn date_of_an_index() {
        let text = "Origin: Debian\nDate: Sat, 12 Sep 2026 07:55:41 UTC\nDate: x\n";
        assert_eq!(signed(text), Some(1_789_199_741));
        for bad in ["", "Date:\n", "Date: yesterday\n"] {
            assert_eq!(signed(bad), None, "{bad}");
        }
    }

    #[test]
    fn source() {
        assert_eq!(
            source_line("http://m.example/debian/", "trixie", Some("/k.gpg")),
            "deb [arch=riscv64 signed-by=/k.gpg] http://m.example/debian/ trixie main\n"
        );
        assert!(!source_line("file:/d", "trixie", None).contains("signed-by"));
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_without_panic(text in "(?s).{0,200}") {
            if let Some(r) = Record::parse(&text) {
                let _ = (r.depends().count(), r.package());
            }
        }
    }
}
