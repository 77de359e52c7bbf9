//! Release files: which indices there are, and their checksums.

use crate::control::Record;
use std::collections::BTreeMap;
use std::time::UNIX_EPOCH;

/// A file that a release names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Bytes.
    pub size: u64,
    /// SHA-256 in hexadecimal, lower case.
    pub sha256: String,
}

/// The content of a release file whose signature was verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Release {
    /// The suite's code name.
    pub codename: String,
    /// When it was made, in seconds since 1970.
    pub date: u64,
    /// Until when it is valid, if it says so.
    pub valid_until: Option<u64>,
    /// Whether indices can be fetched by their checksum, so that they fit to this file even while a mirror is updated.
    pub by_hash: bool,
    /// The files, by their paths below the suite's directory.
    pub files: BTreeMap<String, Listed>,
}

impl Release {
    /// Reads the text.
    pub fn parse(text: &str) -> Result<Release, String> {
        let record = Record::parse(text).ok_or("it has no fields")?;
        let time = |name: &str| -> Result<Option<u64>, String> {
            let value = record.field(name);
            let read = |v: &str| date(v).ok_or_else(|| format!("{name}: `{v}` is no date"));
            value.map(read).transpose()
        };
        let mut files = BTreeMap::new();
        for line in record.text("SHA256").lines().filter(|l| !l.is_empty()) {
            let wrong = || format!("SHA256: `{line}` is not a checksum, a size and a path");
            let [sha256, size, path] = line.split_whitespace().collect::<Vec<_>>()[..] else {
                return Err(wrong());
            };
            let listed = Listed {
                size: size.parse().map_err(|_| wrong())?,
                sha256: checksum(sha256).ok_or_else(wrong)?,
            };
            files.insert(path.to_string(), listed);
        }
        if files.is_empty() {
            return Err("it has no SHA256 of any file".into());
        }
        Ok(Release {
            codename: record.field("Codename").ok_or("it has no Codename")?.into(),
            date: time("Date")?.ok_or("it has no Date")?,
            valid_until: time("Valid-Until")?,
            by_hash: record.text("Acquire-By-Hash") == "yes",
            files,
        })
    }
}

/// A SHA-256 in lower case.
pub(crate) fn checksum(text: &str) -> Option<String> {
    let good = text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit());
    good.then(|| text.to_ascii_lowercase())
}

/// Seconds since 1970.
fn date(text: &str) -> Option<u64> {
    // Read as a date of HTTP, where the time zone is called GMT.
    let text = text
        .trim()
        .replace(" UTC", " GMT")
        .replace(" +0000", " GMT");
    let time = httpdate::parse_http_date(&text).ok()?;
    Some(time.duration_since(UNIX_EPOCH).ok()?.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HASH: &str = "1B458CC5b1d13b946bdca67bdca891fccf57882f8af972276d1346b24fa8285b";

    #[test]
    fn a_release() {
        let text = format!(
            "Origin: Debian\nCodename: sid\nDate: Sat, 12 Sep 2026 07:55:41 UTC\n\
             Valid-Until: Sat, 19 Sep 2026 07:55:41 UTC\nAcquire-By-Hash: yes\nMD5Sum:\n x 1 a\n\
             SHA256:\n {HASH} 12 main/binary-riscv64/Packages.xz\n"
        );
        let r = Release::parse(&text).unwrap();
        assert_eq!(
            (r.codename.as_str(), r.date, r.by_hash),
            ("sid", 1_789_199_741, true)
        );
        assert_eq!(r.valid_until, Some(1_789_199_741 + 7 * 86_400));
        let file = &r.files["main/binary-riscv64/Packages.xz"];
        assert_eq!(
            (file.size, file.sha256.as_str()),
            (12, HASH.to_lowercase().as_str())
        );
        for (from, to, why) in [
            ("Date: Sat, 12", "Date: yesterday", "no date"),
            ("Codename", "Name", "Codename"),
            (" 12 main", " -12 main", "not a checksum"),
            ("1B45", "1X45", "not a checksum"),
            ("SHA256:", "SHA1:", "no SHA256"),
            ("Date", "Data", "no Date"),
        ] {
            let e = Release::parse(&text.replacen(from, to, 1)).unwrap_err();
            assert!(e.contains(why), "{from}: {e}");
        }
    }

    proptest! {
        #[test]
        fn any_text_does_not_panic(text in "(?s).{0,200}", fields in "(Date|Codename|SHA256):.{0,40}\n") {
            let _ = (Release::parse(&text), Release::parse(&fields));
        }
    }
}
