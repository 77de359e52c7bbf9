//! Changes over a read-only base: kept in a file, or thrown away.

use crate::file::{Access, HostFile};
use crate::map::{Header, Map, Place, CLUSTER, PAGE};
use crate::{Error, FileIdentity};
use std::path::Path;

/// Bytes over a base.
#[derive(Debug)]
pub(crate) struct Overlay {
    file: HostFile,
    map: Map,
    /// Offset of cluster 0 in the file.
    data: u64,
    size: u64,
    /// Whether the map is kept in the file.
    kept: bool,
    /// Whether data was written that may not be on the medium.
    unsynced: bool,
}

/// A piece of a request within one cluster.
struct Piece {
    cluster: u64,
    /// Offset on the disk.
    offset: u64,
    len: usize,
    /// Offset from the request's start.
    at: usize,
    /// Whether it covers the whole cluster, as far as the disk reaches.
    whole: bool,
}

fn pieces(size: u64, offset: u64, len: u64) -> impl Iterator<Item = Piece> {
    let mut at = 0u64;
    std::iter::from_fn(move || {
        let offset = offset + at;
        if at == len {
            return None;
        }
        let cluster = offset / CLUSTER;
        let start = cluster * CLUSTER;
        let end = (start + CLUSTER).min(size);
        let n = (end - offset).min(len - at);
        let piece = Piece {
            cluster,
            offset,
            len: n as usize,
            at: at as usize,
            whole: offset == start && offset + n == end,
        };
        at += n;
        Some(piece)
    })
}

impl Overlay {
    /// An overlay that is discarded when it is dropped.
    pub fn temporary(size: u64, base: FileIdentity) -> Result<Overlay, Error> {
        let header = Header { size, base };
        let file = HostFile::unnamed()?;
        file.set_len(size)?;
        Ok(Overlay {
            file,
            map: Map::new(&header),
            data: 0,
            size,
            kept: false,
            unsynced: false,
        })
    }

    /// An overlay in a file, which is created if it does not exist or is empty.
    pub fn kept(path: &Path, size: u64, base: FileIdentity) -> Result<Overlay, Error> {
        let file = HostFile::open(path, Access::Make)?;
        let header = Header { size, base };
        let mut overlay = Overlay {
            map: Map::new(&header),
            data: header.data_offset(),
            size,
            kept: true,
            unsynced: false,
            file,
        };
        let len = overlay.file.len()?;
        if len == 0 {
            overlay.format(header)?;
        } else {
            overlay.load(header, len)?;
        }
        Ok(overlay)
    }

    fn format(&mut self, header: Header) -> Result<(), Error> {
        // The header is written last: a file without one is refused, not misread.
        let end = header.data_offset() + header.clusters() * CLUSTER;
        self.file.set_len(end)?;
        self.file.sync()?;
        self.file.write(0, &header.to_page())?;
        self.file.sync()
    }

    fn load(&mut self, expected: Header, len: u64) -> Result<(), Error> {
        let path = self.file.path().to_path_buf();
        let damaged = |problem: String| Error::Damaged {
            path: path.clone(),
            problem,
        };
        if len < PAGE as u64 {
            return Err(damaged("it is too short for an overlay of a disk".into()));
        }
        let mut page = [0; PAGE];
        self.file.read(0, &mut page)?;
        let header = Header::of_page(&page).map_err(damaged)?;
        if header != expected {
            return Err(Error::Base {
                path: path.clone(),
                problem: format!(
                    "it was made over {}, the base is {}; use the old base, or another overlay",
                    header.base, expected.base
                ),
            });
        }
        if len < header.data_offset() + header.clusters() * CLUSTER {
            return Err(damaged(format!("it was cut off at {len} bytes")));
        }
        let mut copies = [[0; PAGE]; 2];
        for n in 0..header.map_pages() {
            for (copy, page) in copies.iter_mut().enumerate() {
                self.file.read(Header::map_offset(n, copy), page)?;
            }
            let [a, b] = &copies;
            self.map.load(n, [a, b]).map_err(damaged)?;
        }
        Ok(())
    }

    /// Reads bytes of the disk from `offset` on; `base` reads the base.
    pub fn read(&self, base: &HostFile, offset: u64, out: &mut [u8]) -> Result<(), Error> {
        // Adjacent clusters of the same kind are read together.
        let mut run: Option<(Place, u64, usize, usize)> = None;
        for p in pieces(self.size, offset, out.len() as u64) {
            let place = self.map.place(p.cluster);
            match &mut run {
                Some((of, _, _, end)) if *of == place => *end = p.at + p.len,
                _ => {
                    if let Some(run) = run.replace((place, p.offset, p.at, p.at + p.len)) {
                        self.read_run(base, run, out)?;
                    }
                }
            }
        }
        run.map_or(Ok(()), |run| self.read_run(base, run, out))
    }

    fn read_run(
        &self,
        base: &HostFile,
        (place, offset, from, to): (Place, u64, usize, usize),
        out: &mut [u8],
    ) -> Result<(), Error> {
        let out = &mut out[from..to];
        match place {
            Place::Base => base.read(offset, out),
            Place::Data => self.file.read(self.data + offset, out),
            Place::Zero => {
                out.fill(0);
                Ok(())
            }
        }
    }

    /// Copies a cluster into the overlay, with its present content.
    fn own(&mut self, base: &HostFile, cluster: u64) -> Result<(), Error> {
        let start = cluster * CLUSTER;
        let len = CLUSTER.min(self.size - start) as usize;
        match self.map.place(cluster) {
            Place::Data => return Ok(()),
            // Old content from before a discard may still be in the file.
            Place::Zero => self.file.hole(self.data + start, len as u64)?,
            Place::Base => {
                let mut bytes = vec![0; len];
                base.read(start, &mut bytes)?;
                self.file.write(self.data + start, &bytes)?;
            }
        }
        self.unsynced = true;
        self.map.set(cluster, Place::Data);
        Ok(())
    }

    pub fn write(&mut self, base: &HostFile, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        for p in pieces(self.size, offset, bytes.len() as u64).filter(|p| !p.whole) {
            self.own(base, p.cluster)?;
        }
        self.unsynced = true;
        self.file.write(self.data + offset, bytes)?;
        // Only now: if there was an error, clusters stay as they were.
        for p in pieces(self.size, offset, bytes.len() as u64) {
            self.map.set(p.cluster, Place::Data);
        }
        Ok(())
    }

    /// Writes zeros, which take no space if that is possible.
    pub fn zero(&mut self, base: &HostFile, offset: u64, len: u64) -> Result<(), Error> {
        for p in pieces(self.size, offset, len) {
            let place = self.map.place(p.cluster);
            match (place, p.whole) {
                (Place::Zero, _) => {}
                (Place::Base, true) => self.map.set(p.cluster, Place::Zero),
                (Place::Data, true) => {
                    // A hole reads as zeros with the old map and with the new one.
                    self.file.hole(self.data + p.offset, p.len as u64)?;
                    self.unsynced = true;
                    self.map.set(p.cluster, Place::Zero);
                }
                (_, false) => {
                    self.own(base, p.cluster)?;
                    self.file.hole(self.data + p.offset, p.len as u64)?;
                    self.unsynced = true;
                }
            }
        }
        Ok(())
    }

    /// The data first, then the map that refers to it.
    pub fn flush(&mut self) -> Result<(), Error> {
        if !self.kept {
            return Ok(());
        }
        if self.unsynced {
            self.file.sync()?;
            self.unsynced = false;
        }
        if self.map.clean() {
            return Ok(());
        }
        let pages = self.map.dirty_pages();
        for (_, offset, page) in &pages {
            self.file.write(*offset, &page[..])?;
        }
        self.file.sync()?;
        for (n, ..) in pages {
            self.map.written(n);
        }
        Ok(())
    }

    pub fn identity(&self) -> Result<FileIdentity, Error> {
        self.file.identity()
    }

    pub fn is_kept(&self) -> bool {
        self.kept
    }

    /// Offsets and lengths of everything that differs from the base, cluster by cluster; `None`:
    /// zeros.
    pub fn changes(&self) -> impl Iterator<Item = Result<(u64, u64, Option<Vec<u8>>), Error>> + '_ {
        self.map.changed().map(|cluster| {
            let start = cluster * CLUSTER;
            let len = CLUSTER.min(self.size - start);
            if self.map.place(cluster) == Place::Zero {
                return Ok((start, len, None));
            }
            let mut bytes = vec![0; len as usize];
            self.file.read(self.data + start, &mut bytes)?;
            let zeros = bytes.iter().all(|b| *b == 0);
            Ok((start, len, (!zeros).then_some(bytes)))
        })
    }

    /// Restores the state in which nothing had been written.
    pub fn clear(&mut self) -> Result<(), Error> {
        let changed: Vec<u64> = self.map.changed().collect();
        for cluster in changed {
            let start = cluster * CLUSTER;
            let len = CLUSTER.min(self.size - start);
            self.file.hole(self.data + start, len)?;
            self.map.set(cluster, Place::Base);
        }
        Ok(())
    }
}
