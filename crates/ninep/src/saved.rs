//! State that survives the process: fids as names below the root.

use crate::fid::{open_flags, SavedFid};
use crate::folder::Folder;
use crate::message::number::open;
use crate::numbers::SavedNumbers;
use crate::server::{Fid, Held, Open, Server, MIN_MSIZE};
use crate::Error;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A server's state, without its folder.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Saved {
    msize: u32,
    fids: Vec<SavedFid>,
    numbers: SavedNumbers,
}

/// The file of a fid that was saved.
fn find(fid: &SavedFid, folder: &Folder) -> Result<Held, Errno> {
    let node = folder.descend(fid.names.as_ref().ok_or(Errno::STALE)?)?;
    if node.kind != fid.kind {
        return Err(Errno::STALE);
    }
    let open = match fid.open {
        None => None,
        Some(flags) => {
            if flags & open::ACCESS != 0 && !folder.writable {
                return Err(Errno::ROFS);
            }
            // The file was truncated when it was opened the first time.
            let flags = flags & !open::TRUNCATE;
            Some(Open {
                file: folder.open_node(&node, open_flags(flags)?)?,
                flags,
                listing: None,
            })
        }
    };
    Ok(Held::Here { node, open })
}

impl Server {
    /// The whole state except the folder.
    pub fn save(&self) -> Saved {
        let names = |node: &Arc<_>| {
            let folder = self.folder.as_ref()?;
            if Arc::ptr_eq(node, &folder.root) || node.identity == folder.root.identity {
                return Some(Vec::new());
            }
            // Only the names by which it will be found again.
            folder.place(node).ok()?;
            folder.names_to(node).ok()
        };
        let fids = self.fids.iter().map(|(&fid, f)| match &f.held {
            Held::Away(saved) => saved.clone(),
            Held::Here { node, open } => SavedFid {
                fid,
                names: names(node),
                kind: node.kind,
                number: f.number,
                open: open.as_ref().map(|o| o.flags),
            },
        });
        Saved {
            msize: self.msize,
            fids: fids.collect(),
            numbers: self.numbers.save(),
        }
    }

    /// Loads a state and discards the previous one. If there is a folder, fids are looked up as in
    /// [`connect`](Server::connect), and the names of those that are not found are returned.
    pub fn restore(&mut self, saved: &Saved) -> Result<Vec<String>, Error> {
        if saved.msize != 0 && !(MIN_MSIZE..=self.limits.msize).contains(&saved.msize) {
            return Err(Error::State("a message size out of range"));
        }
        if saved.fids.len() > self.limits.fids {
            return Err(Error::State("too many fids"));
        }
        if !saved.fids.windows(2).all(|w| w[0].fid < w[1].fid) {
            return Err(Error::State("fids out of order"));
        }
        if !self.numbers.load(&saved.numbers) {
            return Err(Error::State("numbers of files that were never given"));
        }
        self.msize = saved.msize;
        let away = |s: &SavedFid| Fid {
            number: s.number,
            held: Held::Away(s.clone()),
        };
        self.fids = saved.fids.iter().map(|s| (s.fid, away(s))).collect();
        Ok(self.find_again())
    }

    /// Looks up what restored fids refer to; returns the names of those that are not found.
    pub(crate) fn find_again(&mut self) -> Vec<String> {
        let Some(folder) = &self.folder else {
            return Vec::new();
        };
        let mut lost = Vec::new();
        for fid in self.fids.values_mut() {
            let Held::Away(saved) = &fid.held else {
                continue;
            };
            match find(saved, folder) {
                Ok(held) => {
                    if let Held::Here { node, .. } = &held {
                        // The folder may be a copy.
                        self.numbers.keep(node.identity, fid.number);
                    }
                    fid.held = held;
                }
                Err(_) => lost.push(saved.name()),
            }
        }
        lost
    }
}
