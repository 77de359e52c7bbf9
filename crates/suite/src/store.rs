//! Results in a directory, one file each, and packed into one file.

use crate::error::{at, Error, Result};
use crate::record::{Record, FORMAT};
use rustix::fs::{flock, FlockOperation};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

/// The directory of results that others have superseded.
const OLD: &str = "old";
/// Compression level of packed results.
const LEVEL: i32 = 19;
/// Most bytes of unpacked results.
const MOST: u64 = 256 << 20;

/// A directory of results. While it is open, no other process adds to it.
#[derive(Debug)]
pub struct Store {
    dir: PathBuf,
    _lock: File,
}

impl Store {
    /// Opens a directory, which is made if it is not there.
    pub fn open(dir: &Path) -> Result<Store> {
        fs::create_dir_all(dir).map_err(at("make", dir))?;
        let path = dir.join("lock");
        let lock = File::create(&path).map_err(at("create", &path))?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive).map_err(|_| {
            Error::Request(format!(
                "another `nagori suite run` works with {}: wait for it, or choose another --store",
                dir.display()
            ))
        })?;
        Ok(Store {
            dir: dir.into(),
            _lock: lock,
        })
    }

    fn path(&self, program: &str, key: &str) -> PathBuf {
        self.dir.join(format!("{program}-{key}.json"))
    }

    /// The result with a key, if it is there.
    pub fn get(&self, program: &str, key: &str) -> Result<Option<Record>> {
        let path = self.path(program, key);
        match fs::read(&path) {
            Ok(bytes) => read(&path, &bytes).map(Some),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(at("read", &path)(e)),
        }
    }

    /// Adds a result, whole or not at all, in place of one with the same key. Results of the program under the same
    /// conditions with other keys, which are those of other versions, go to the directory `old`.
    pub fn put(&self, record: &Record) -> Result<()> {
        let path = self.path(&record.program, &record.key);
        let mut text = serde_json::to_vec_pretty(record).map_err(|e| Error::Results {
            path: path.clone(),
            what: e.to_string(),
        })?;
        text.push(b'\n');
        let write = || -> std::io::Result<()> {
            let mut file = tempfile::Builder::new()
                .prefix(".new-")
                .tempfile_in(&self.dir)?;
            file.write_all(&text)?;
            file.as_file().sync_data()?;
            file.persist(&path)?;
            Ok(())
        };
        write().map_err(at("write", &path))?;
        self.supersede(record)
    }

    fn supersede(&self, record: &Record) -> Result<()> {
        let prefix = format!("{}-", record.program);
        let others = results(&self.dir, &prefix)?
            .into_iter()
            .filter(|(p, _)| *p != self.path(&record.program, &record.key));
        for (path, other) in others {
            if other.program == record.program && other.conditions == record.conditions {
                let old = self.dir.join(OLD);
                fs::create_dir_all(&old).map_err(at("make", &old))?;
                let to = old.join(path.file_name().unwrap_or_default());
                fs::rename(&path, &to).map_err(at("move", &path))?;
            }
        }
        Ok(())
    }

    /// All results of a directory, by program and conditions.
    pub fn all(dir: &Path) -> Result<Vec<Record>> {
        let mut records: Vec<Record> = results(dir, "")?.into_iter().map(|(_, r)| r).collect();
        sort(&mut records);
        Ok(records)
    }
}

/// The files of results in a directory whose names begin with a prefix, and what they hold.
fn results(dir: &Path, prefix: &str) -> Result<Vec<(PathBuf, Record)>> {
    let mut all = Vec::new();
    for entry in fs::read_dir(dir).map_err(at("list", dir))? {
        let path = entry.map_err(at("list", dir))?.path();
        let name = path.file_name().map(|n| n.to_string_lossy().into_owned());
        let is_result =
            |n: &String| n.starts_with(prefix) && n.ends_with(".json") && !n.starts_with('.');
        if name.as_ref().is_some_and(is_result) {
            let bytes = fs::read(&path).map_err(at("read", &path))?;
            all.push((path.clone(), read(&path, &bytes)?));
        }
    }
    Ok(all)
}

fn sort(records: &mut [Record]) {
    records.sort_by(|a, b| {
        (&a.program, &a.conditions, &a.key).cmp(&(&b.program, &b.conditions, &b.key))
    });
}

fn read(path: &Path, bytes: &[u8]) -> Result<Record> {
    let wrong = |what: String| Error::Results {
        path: path.into(),
        what,
    };
    let record: Record = serde_json::from_slice(bytes).map_err(|e| {
        wrong(format!(
            "it is no result of `nagori suite run`: {e}; remove it, and it is made again"
        ))
    })?;
    match record.format {
        FORMAT => Ok(record),
        n => Err(wrong(format!(
            "it has version {n} of the form of results; this command knows {FORMAT}"
        ))),
    }
}

/// Results as one file: a JSON object in each line, compressed by zstd. What belongs to the host is kept.
pub fn archive(records: &[Record]) -> Result<Vec<u8>> {
    let failed = |e: std::io::Error| at("pack", Path::new("results"))(e);
    let mut records = records.to_vec();
    sort(&mut records);
    let mut lines = Vec::new();
    for r in &records {
        serde_json::to_writer(&mut lines, r).map_err(|e| failed(e.into()))?;
        lines.push(b'\n');
    }
    zstd::encode_all(lines.as_slice(), LEVEL).map_err(failed)
}

/// Reads what [`archive`] has made; `path` is named in errors.
pub fn read_archive(path: &Path, bytes: &[u8]) -> Result<Vec<Record>> {
    let wrong = |what: String| Error::Results {
        path: path.into(),
        what,
    };
    let decoder = zstd::Decoder::new(bytes).map_err(|e| wrong(e.to_string()))?;
    let mut text = Vec::new();
    std::io::Read::read_to_end(&mut std::io::Read::take(decoder, MOST), &mut text)
        .map_err(|e| wrong(format!("it is no file of results: {e}")))?;
    let lines = text.split(|b| *b == b'\n').filter(|l| !l.is_empty());
    lines.map(|l| read(path, l)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conditions::{Memory, Timing};
    use crate::program::Size;
    use crate::{Conditions, Figures, Host, Malloc};

    fn record(program: &str, key: &str) -> Record {
        Record {
            format: FORMAT,
            program: program.into(),
            conditions: Conditions {
                machine: "vc707".into(),
                set: Vec::new(),
                memory: Memory::Method("dram".into()),
                placement: "heap".into(),
                malloc: Malloc::Nagori,
                timing: Timing::Region,
                size: Size::Small,
                seed: None,
            },
            key: key.into(),
            model: "m".into(),
            versions: Default::default(),
            whole_instructions: 1,
            output: "o".into(),
            figures: Some(Figures::default()),
            failure: None,
            host: Host::default(),
        }
    }

    #[test]
    fn results_survive_and_others_are_not_taken_for_them() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        let r = record("a", "1");
        store.put(&r).unwrap();
        store.put(&record("b", "2")).unwrap();
        // What a killed process leaves.
        fs::write(dir.path().join(".new-x.json"), b"{").unwrap();
        assert_eq!(store.get("a", "1").unwrap(), Some(r.clone()));
        assert_eq!(store.get("a", "2").unwrap(), None);
        assert_eq!(Store::all(dir.path()).unwrap().len(), 2);
        let e = Store::open(dir.path()).unwrap_err().to_string();
        assert!(e.contains("another `nagori suite run`"), "{e}");
        drop(store);
        let again = Store::open(dir.path()).unwrap();
        assert_eq!(again.get("a", "1").unwrap(), Some(r));
    }

    #[test]
    fn a_result_of_another_version_is_superseded() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        let mut extended = record("a", "3");
        extended.conditions.memory = Memory::Method("extended".into());
        for r in [
            record("a", "1"),
            record("b", "1"),
            extended,
            record("a", "2"),
        ] {
            store.put(&r).unwrap();
        }
        let keys: Vec<(String, String)> = { Store::all(dir.path()).unwrap().into_iter() }
            .map(|r| (r.program, r.key))
            .collect();
        let is = [("a", "2"), ("a", "3"), ("b", "1")].map(|(p, k)| (p.to_string(), k.to_string()));
        assert_eq!(keys, is);
        assert!(dir.path().join("old/a-1.json").is_file());
    }

    #[test]
    fn a_damaged_result_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        store.put(&record("a", "1")).unwrap();
        let path = dir.path().join("a-1.json");
        let whole = fs::read(&path).unwrap();
        fs::write(&path, &whole[..whole.len() / 2]).unwrap();
        let e = store.get("a", "1").unwrap_err().to_string();
        assert!(e.contains("a-1.json") && e.contains("remove it"), "{e}");
        let newer = String::from_utf8(whole)
            .unwrap()
            .replace("\"format\": 1", "\"format\": 2");
        fs::write(&path, newer).unwrap();
        let e = Store::all(dir.path()).unwrap_err().to_string();
        assert!(e.contains("version 2"), "{e}");
    }

    #[test]
    fn packed_results_are_the_same_in_any_order() {
        let (a, b) = (record("a", "1"), record("b", "2"));
        let packed = archive(&[b.clone(), a.clone()]).unwrap();
        assert_eq!(packed, archive(&[a.clone(), b.clone()]).unwrap());
        let path = Path::new("x");
        assert_eq!(read_archive(path, &packed).unwrap(), [a, b]);
        assert!(read_archive(path, &packed[..packed.len() / 2]).is_err());
        assert!(read_archive(path, b"no").is_err());
    }
}
