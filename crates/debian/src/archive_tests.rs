use super::*;
use crate::testing::{listed, Server, Signer, CREATED};
use flate2::write::GzEncoder;
use std::io::Write;

const NOW: u64 = CREATED as u64 + 1000;
const DEB: &[u8] = b"a package file";

/// A small archive, signed by a key that the test has made.
struct Small {
    server: Server,
    signer: Signer,
    dir: tempfile::TempDir,
    settings: Settings,
}

fn packages() -> String {
    let l = listed(DEB);
    let one = |name: &str, more: &str| {
        format!(
            "Package: {name}\nVersion: 1:2-3\nArchitecture: riscv64\nFilename: pool/{name}_2-3.deb\nSize: {}\nSHA256: \
                {}\n{more}\n",
            l.size, l.sha256
        )
    };
    one("a", "Depends: b\n") + &one("b", "") + &one("c", "Depends: nothing\n")
}

impl Small {
    fn new() -> Small {
        let signer = Signer::new(1);
        let server = Server::new(&[("pool/a_2-3.deb", DEB)]);
        let mut settings = Settings {
            mirror: Some(server.uri()),
            now: NOW,
            ..Settings::default()
        };
        settings.host.check_dates = true;
        settings.keyring.add(&signer.certificate()).unwrap();
        let small = Small {
            server,
            signer,
            dir: tempfile::tempdir().unwrap(),
            settings,
        };
        small.publish("trixie", "trixie", "", &packages());
        small
    }

    /// Puts a release with an index on the server.
    fn publish(&self, name: &str, codename: &str, more: &str, packages: &str) {
        let mut gz = GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gz.write_all(packages.as_bytes()).unwrap();
        let packed = gz.finish().unwrap();
        let path = "main/binary-riscv64/Packages.gz";
        let l = listed(&packed);
        let text = format!(
            "Codename: {codename}\nDate: Tue, 14 Nov 2023 22:13:20 UTC\n{more}SHA256:\n {} {} {path}\n",
            l.sha256, l.size
        );
        let signed = self.signer.clear(&text, CREATED + 10);
        self.server
            .put(&format!("dists/{name}/InRelease"), signed.as_bytes());
        self.server.put(&format!("dists/{name}/{path}"), &packed);
    }

    fn archive(&self) -> Archive {
        Archive::new(self.dir.path(), "trixie", self.settings.clone()).unwrap()
    }

    fn refused(&self) -> String {
        self.update().err().expect("it is refused")
    }

    fn update(&self) -> Result<Archive, String> {
        let mut archive = self.archive();
        archive.update(&mut |_| {}).map_err(|e| e.to_string())?;
        Ok(archive)
    }
}

#[test]
fn from_the_mirror_to_the_package() {
    let small = Small::new();
    assert!(!small.archive().has_index());
    assert!(small
        .archive()
        .probe()
        .unwrap()
        .ends_with("dists/trixie/InRelease"));
    let archive = small.update().unwrap();
    assert_eq!(archive.date().unwrap(), 1_700_000_000);
    let (found, order) = archive.solve(&["a".into()]).unwrap();
    assert_eq!(
        found.iter().map(|p| p.name.as_str()).collect::<Vec<_>>(),
        ["a", "b"]
    );
    assert_eq!(order.last(), Some(&Step::Configure("a".into())));
    let to = small.dir.path().join("a.deb");
    archive.download(&found[0], &to, &mut |_| {}).unwrap();
    assert_eq!(fs::read(&to).unwrap(), DEB);

    // Later, without the mirror.
    let mut offline = small.settings.clone();
    offline.offline = true;
    let mut archive = Archive::new(small.dir.path(), "trixie", offline).unwrap();
    assert!(archive.has_index());
    let p = archive.package("b").unwrap();
    assert_eq!(
        (p.version.as_str(), p.path.as_str()),
        ("1:2-3", "pool/b_2-3.deb")
    );
    let e = archive
        .download(&p, &to, &mut |_| {})
        .unwrap_err()
        .to_string();
    assert!(
        e.contains("b 1:2-3 is not in the cache") && e.contains("--offline"),
        "{e}"
    );
    let e = archive.update(&mut |_| {}).unwrap_err();
    assert!(matches!(e, Error::Offline { .. }), "{e}");
    for (wanted, why) in [("c", "`c` needs `nothing`"), ("x", "not in the index")] {
        let e = archive
            .solve(&["a".into(), wanted.into()])
            .unwrap_err()
            .to_string();
        assert!(
            e.starts_with(&format!("package `{wanted}` of Debian trixie")) && e.contains(why),
            "{e}"
        );
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let small = Small::new();
    let url = "dists/trixie/InRelease";
    let good = small.signer.clear("x\n", CREATED);

    small
        .server
        .put(url, Signer::new(2).clear("x\n", CREATED).as_bytes());
    assert!(small.refused().contains("not in the keyring"));
    small
        .server
        .put(url, good.replace("\nx\n", "\ny\n").as_bytes());
    assert!(small.refused().contains("the text was changed"));
    small.server.put(url, &good.as_bytes()[..good.len() / 2]);
    assert!(small.refused().contains("not accepted"));
    small.publish("trixie", "sid", "", &packages());
    assert!(small
        .refused()
        .contains("the release file of sid, not of trixie"));
    small.publish(
        "trixie",
        "trixie",
        "Valid-Until: Tue, 14 Nov 2023 22:14:20 UTC\n",
        &packages(),
    );
    assert!(small.refused().contains("no longer valid"));
    small.publish("trixie", "trixie", "", "Package: a\n");
    assert!(
        small.update().is_ok(),
        "the index is read when it is needed"
    );
    let e = small.archive().package("a").unwrap_err().to_string();
    assert!(e.contains("without Package or Version"), "{e}");
    // The index is another one than the release names.
    small.publish("trixie", "trixie", "", &packages());
    small
        .server
        .put("dists/trixie/main/binary-riscv64/Packages.gz", b"other");
    let e = small.refused();
    assert!(e.contains("it ended after 5 of"), "{e}");

    let e = Archive::new(small.dir.path(), "../x", small.settings.clone())
        .err()
        .unwrap();
    assert!(matches!(e, Error::BadName { .. }), "{e}");
}

#[test]
fn a_suite_under_its_other_name() {
    let small = Small::new();
    small.server.remove("dists/trixie/InRelease");
    assert!(small.refused().contains("the server answers 404"));
    small.publish("stable", "forky", "", "");
    small.publish("oldstable", "trixie", "", &packages());
    let archive = small.update().unwrap();
    assert_eq!(archive.origin().unwrap().name, "oldstable");
    // One that has failed leaves what was there.
    small.server.remove("dists/oldstable/InRelease");
    assert!(small.update().is_err());
    assert!(small.archive().package("a").is_ok());
}

#[test]
fn damage_in_the_cache_is_noticed() {
    let small = Small::new();
    small.update().unwrap();
    let file = small.dir.path().join("trixie").join(PACKAGES);
    let mut bytes = fs::read(&file).unwrap();
    bytes[30] ^= 1;
    fs::write(&file, bytes).unwrap();
    let e = small.archive().package("a").unwrap_err();
    assert!(matches!(e, Error::Hash { .. }), "{e}");
}

#[test]
fn without_a_mirror() {
    let mut small = Small::new();
    small.settings.mirror = None;
    assert!(matches!(small.archive().probe(), Err(Error::NoMirror)));
    let e = small.refused();
    assert!(e.contains("--mirror URL or NAGORI_MIRROR=URL"), "{e}");
    small.settings.host.mirrors = vec!["ftp://x/debian".into(), small.server.uri()];
    small.update().unwrap();
}

/// With `apt` as the judge: the same packages for the sets that images are made of, and for single packages.
#[test]
#[ignore = "asks the mirror of this host's apt"]
fn the_same_packages_as_apt() {
    let dir = tempfile::tempdir().unwrap();
    let mut archive = Archive::new(dir.path(), "trixie", Settings::of_this_host()).unwrap();
    archive.update(&mut |_| {}).unwrap();
    let index = archive.index().unwrap();
    let apt = crate::testing::Apt::new(
        dir.path(),
        &unpack(&dir.path().join("trixie").join(PACKAGES)).unwrap(),
    );
    let names: Vec<&str> = index.names().collect();
    let mut sets: Vec<Vec<String>> = crate::testing::SETS
        .map(|s| s.split(' ').map(String::from).collect())
        .to_vec();
    // Some of all, and pairs of them.
    sets.extend(
        names
            .iter()
            .step_by(names.len() / 20)
            .map(|n| vec![n.to_string()]),
    );
    let single = names.iter().skip(7).step_by(names.len() / 8);
    sets.extend(single.map(|n| vec!["systemd".into(), n.to_string()]));
    let mut different = Vec::new();
    let mut compared = 0;
    for set in &sets {
        let Some(expected) = apt.install(set) else {
            continue;
        };
        compared += 1;
        let found = archive.solve(set).map(|(list, _)| {
            list.into_iter()
                .map(|p| format!("{} {}", p.name, p.version))
                .collect::<Vec<_>>()
        });
        let found = found.unwrap_or_else(|e| vec![e.to_string()]);
        if found != expected {
            let more: Vec<&String> = found.iter().filter(|f| !expected.contains(f)).collect();
            let less: Vec<&String> = expected.iter().filter(|f| !found.contains(f)).collect();
            different.push(format!("{}: more {more:?}, less {less:?}", set.join(" ")));
        }
    }
    println!("{compared} sets compared, {} differ", different.len());
    assert!(compared > 20, "{compared}");
    assert!(different.is_empty(), "{}", different.join("\n"));
}
