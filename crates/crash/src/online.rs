//! Mistakes that the stream of steps shows by itself, without a crash.

use crate::model::{Domain, Mode, Model, Order};
use crate::step::{line_of, At, FenceSet, Sink, SiteId, Step, LINE};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// What is wrong, or needless.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum WarningKind {
    /// Stored, and not flushed until the end.
    NeverFlushed,
    /// Flushed, and no fence came before an operation was done or the end.
    FenceMissing,
    /// Output before what the hart had stored was durable.
    OutputTooEarly,
    /// Flushed although nothing had been stored to the line since it was flushed last, or since the beginning.
    FlushNeedless,
    /// A fence behind a fence: the hart did nothing to NVMM in between.
    FenceNeedless,
}

/// A mistake at a place in the code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// What is wrong.
    pub kind: WarningKind,
    /// The store, flush or fence.
    pub site: SiteId,
    /// Where it showed first (the output, the marker), if not at the end.
    pub seen_at: Option<SiteId>,
    /// How often.
    pub count: u64,
    /// A line for which it is so, the first one.
    pub line: Option<u64>,
    /// To whom output went that was too early.
    pub sink: Option<Sink>,
}

/// Watches a stream of steps. Only domains in which flushes matter have warnings (`adr`, `gpf`).
pub struct Online {
    model: Model,
    /// What was stored to each line and has not been flushed, by place and hart.
    stored: BTreeMap<u64, BTreeSet<(SiteId, u16)>>,
    /// Flushes for which no fence has waited, by hart: what they flushed is not durable for certain.
    sent: BTreeMap<u16, Vec<Sent>>,
    /// Harts whose last step was a fence, and whether that one had something to wait for.
    fenced: BTreeMap<u16, bool>,
    /// Harts that have stored since their last output.
    fresh: BTreeSet<u16>,
    found: BTreeMap<(WarningKind, SiteId, Option<Sink>), Warning>,
}

struct Sent {
    flush: SiteId,
    line: u64,
    stores: BTreeSet<(SiteId, u16)>,
    told: bool,
}

impl Online {
    /// Nothing seen yet.
    pub fn new(model: Model) -> Online {
        Online {
            model,
            stored: BTreeMap::new(),
            sent: BTreeMap::new(),
            fenced: BTreeMap::new(),
            fresh: BTreeSet::new(),
            found: BTreeMap::new(),
        }
    }

    /// Takes the next step.
    pub fn step(&mut self, step: &Step) {
        let matters = matches!(self.model.domain, Domain::Adr | Domain::Gpf { .. });
        if !matters || self.model.mode == Mode::AsBuilt {
            return;
        }
        match *step {
            Step::Store {
                at,
                paddr,
                bytes,
                order,
            } => {
                if order.release {
                    self.wait(at.hart);
                }
                self.fenced.remove(&at.hart);
                self.fresh.insert(at.hart);
                let end = paddr.saturating_add(bytes.len().max(1) as u64 - 1);
                for line in (line_of(paddr)..=end).step_by(LINE as usize) {
                    if order.combined {
                        self.combined(at, line);
                        continue;
                    }
                    self.stored
                        .entry(line)
                        .or_default()
                        .insert((at.site, at.hart));
                }
            }
            Step::Flush {
                at,
                paddr,
                to_memory: true,
                ..
            } => self.flush(at, line_of(paddr)),
            Step::FlushAll {
                at,
                to_memory: true,
            } => {
                let mine = |s: &BTreeSet<(SiteId, u16)>| s.iter().any(|(_, hart)| *hart == at.hart);
                let lines: Vec<u64> = self
                    .stored
                    .iter()
                    .filter(|(_, s)| mine(s))
                    .map(|(l, _)| *l)
                    .collect();
                lines.into_iter().for_each(|line| self.flush(at, line));
            }
            Step::Fence { at, pred, succ } if pred.has(FenceSet::W) && succ.has(FenceSet::W) => {
                self.fence(at)
            }
            Step::Marker {
                at,
                operation: true,
                ..
            } => self.unfenced(Some(at.site)),
            Step::Output { at, sink } => self.output(at, sink),
            Step::DeviceRead {
                at,
                sink,
                paddr,
                len,
            } => self.sent_from(at, sink, paddr, len),
            _ => {}
        }
    }

    /// A combined store needs no flush, but a fence. In the order in which stores were committed, what the hart has
    /// stored to the line before goes to memory before it (a page fault between a hint and its store leaves such a
    /// store in a cache).
    fn combined(&mut self, at: At, line: u64) {
        let mut stores = BTreeSet::from([(at.site, at.hart)]);
        if self.model.order == Order::Commit {
            if let Some(stored) = self.stored.get_mut(&line) {
                let own: BTreeSet<_> = stored.iter().filter(|s| s.1 == at.hart).copied().collect();
                stored.retain(|s| s.1 != at.hart);
                stores.extend(own);
                if stored.is_empty() {
                    self.stored.remove(&line);
                }
            }
        }
        let sent = self.sent.entry(at.hart).or_default();
        match sent.last_mut().filter(|s| s.line == line && !s.told) {
            Some(last) => last.stores.extend(stores),
            None => sent.push(Sent {
                flush: at.site,
                line,
                stores,
                told: false,
            }),
        }
    }

    fn flush(&mut self, at: At, line: u64) {
        self.fenced.remove(&at.hart);
        match self.stored.remove(&line) {
            Some(_) if self.model.flush_waits => {}
            Some(stores) => {
                let sent = Sent {
                    flush: at.site,
                    line,
                    stores,
                    told: false,
                };
                self.sent.entry(at.hart).or_default().push(sent);
            }
            None => self.warn(WarningKind::FlushNeedless, at.site, None, Some(line)),
        }
    }

    fn fence(&mut self, at: At) {
        let waited = self.wait(at.hart);
        match self.fenced.insert(at.hart, waited) {
            // Only behind one that waited: whatever else a fence is for is not seen here.
            Some(true) => {
                self.warn(WarningKind::FenceNeedless, at.site, None, None);
                self.fenced.insert(at.hart, false);
            }
            Some(false) => {
                self.fenced.insert(at.hart, false);
            }
            None => {}
        }
    }

    /// The hart has waited for its flushes; whether there were any.
    fn wait(&mut self, hart: u16) -> bool {
        self.sent.remove(&hart).is_some_and(|s| !s.is_empty())
    }

    fn unfenced(&mut self, seen_at: Option<SiteId>) {
        let mut new = Vec::new();
        for sent in self.sent.values_mut().flatten().filter(|s| !s.told) {
            sent.told = true;
            new.push((sent.flush, sent.line));
        }
        for (flush, line) in new {
            self.warn(WarningKind::FenceMissing, flush, seen_at, Some(line));
        }
    }

    fn output(&mut self, at: At, sink: Sink) {
        if self.fresh.remove(&at.hart) {
            self.early(at, sink, |_, hart| hart == at.hart);
        }
    }

    /// A device has sent what it has read from NVMM, whichever hart has stored it.
    fn sent_from(&mut self, at: At, sink: Sink, paddr: u64, len: u64) {
        if len > 0 {
            let lines = line_of(paddr)..=line_of(paddr.saturating_add(len - 1));
            self.early(at, sink, |line, _| lines.contains(&line));
        }
    }

    /// Output that depends on some of the stores that are not durable, by line and hart.
    fn early(&mut self, at: At, sink: Sink, depends: impl Fn(u64, u16) -> bool) {
        let sent = self.sent.values().flatten().map(|s| (s.line, &s.stores));
        let open = self.stored.iter().map(|(l, s)| (*l, s)).chain(sent);
        let mut early: BTreeMap<SiteId, u64> = BTreeMap::new();
        for (line, stores) in open {
            for (site, _) in stores.iter().filter(|(_, hart)| depends(line, *hart)) {
                early.entry(*site).or_insert(line);
            }
        }
        for (site, line) in early {
            let new = Warning {
                kind: WarningKind::OutputTooEarly,
                site,
                seen_at: Some(at.site),
                count: 0,
                line: Some(line),
                sink: Some(sink),
            };
            self.enter(new);
        }
    }

    fn warn(
        &mut self,
        kind: WarningKind,
        site: SiteId,
        seen_at: Option<SiteId>,
        line: Option<u64>,
    ) {
        let new = Warning {
            kind,
            site,
            seen_at,
            count: 0,
            line,
            sink: None,
        };
        self.enter(new);
    }

    fn enter(&mut self, new: Warning) {
        let key = (new.kind, new.site, new.sink);
        self.found.entry(key).or_insert(new).count += 1;
    }

    /// What was found, by kind and site.
    pub fn finish(mut self) -> Vec<Warning> {
        self.unfenced(None);
        for (line, stores) in std::mem::take(&mut self.stored) {
            for (site, _) in stores {
                self.warn(WarningKind::NeverFlushed, site, None, Some(line));
            }
        }
        self.found.into_values().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::step::{FlushOp, Sink, StoreOrder};

    /// Steps as words, each with a place of its own: the number of the word.
    fn warnings(text: &str) -> Vec<(WarningKind, u32, Option<u32>, u64)> {
        warnings_in(Order::Rvwmo, text)
    }

    fn warnings_in(order: Order, text: &str) -> Vec<(WarningKind, u32, Option<u32>, u64)> {
        let mut model = Model::new(Domain::Adr);
        model.order = order;
        let mut online = Online::new(model);
        for (i, word) in text.split(' ').enumerate() {
            let (hart, word) = word
                .split_once(':')
                .map_or((0, word), |(h, w)| (h.parse().unwrap(), w));
            let at = At {
                hart,
                site: SiteId(i as u32),
                time: 0,
            };
            let paddr = word.bytes().last().map_or(0, |c| u64::from(c % 16) * 64);
            online.step(&match &word[..word.len() - 1] {
                "s" => Step::Store {
                    at,
                    paddr,
                    bytes: &[1],
                    order: StoreOrder::default(),
                },
                "n" => Step::Store {
                    at,
                    paddr,
                    bytes: &[1],
                    order: StoreOrder {
                        combined: true,
                        ..StoreOrder::default()
                    },
                },
                "f" => Step::Flush {
                    at,
                    paddr,
                    op: FlushOp::Clean,
                    to_memory: true,
                },
                "l" => Step::Flush {
                    at,
                    paddr,
                    op: FlushOp::L1,
                    to_memory: false,
                },
                "al" => Step::FlushAll {
                    at,
                    to_memory: true,
                },
                "fenc" => Step::Fence {
                    at,
                    pred: FenceSet::RW,
                    succ: FenceSet::RW,
                },
                "don" => Step::Marker {
                    at,
                    label: "op",
                    operation: true,
                },
                "ou" => Step::Output {
                    at,
                    sink: Sink::Console,
                },
                "rea" => Step::DeviceRead {
                    at,
                    sink: Sink::Disk,
                    paddr: paddr + 8,
                    len: 56,
                },
                _ => panic!("{word}"),
            });
        }
        let number = |s: SiteId| s.0;
        online
            .finish()
            .iter()
            .map(|w| (w.kind, w.site.0, w.seen_at.map(number), w.count))
            .collect()
    }

    use WarningKind::*;

    #[test]
    fn a_correct_stream_has_no_warnings() {
        assert_eq!(
            warnings("s1 s2 f1 f2 fence done out s1 f1 fence done out"),
            []
        );
        assert_eq!(warnings("s1 s2 all fence out"), []);
        assert_eq!(warnings("fence fence fence s1 f1 fence"), []);
        assert_eq!(warnings("0:s1 1:out 0:f1 0:fence"), []);
        assert_eq!(warnings("s1 f1 fence rea1 s1 rea2 f1 fence"), []);
        // Combined stores need a fence, but no flush.
        assert_eq!(warnings("n1 n1 n2 fence done out"), []);
        // In the order of commit they take with them what the hart has stored to the line before.
        assert_eq!(warnings_in(Order::Commit, "s1 n1 fence done out"), []);
    }

    #[test]
    fn each_mistake_is_seen() {
        assert_eq!(warnings("s1 s2 f1 fence"), [(NeverFlushed, 1, None, 1)]);
        assert_eq!(warnings("s1 l1 fence"), [(NeverFlushed, 0, None, 1)]);
        assert_eq!(warnings("0:s1 1:all 1:fence"), [(NeverFlushed, 0, None, 1)]);
        assert_eq!(
            warnings("s1 f1 done fence"),
            [(FenceMissing, 1, Some(2), 1)]
        );
        assert_eq!(warnings("s1 f1"), [(FenceMissing, 1, None, 1)]);
        assert_eq!(warnings("n1 n1 done"), [(FenceMissing, 0, Some(2), 1)]);
        assert_eq!(
            warnings("n1 out"),
            [(FenceMissing, 0, None, 1), (OutputTooEarly, 0, Some(1), 1)]
        );
        assert_eq!(warnings("s1 n1 fence"), [(NeverFlushed, 0, None, 1)]);
        assert_eq!(
            warnings_in(Order::Commit, "n1 s1 fence"),
            [(NeverFlushed, 1, None, 1)]
        );
        assert_eq!(
            warnings_in(Order::Commit, "0:s1 1:n1 1:fence"),
            [(NeverFlushed, 0, None, 1)]
        );
        assert_eq!(warnings("0:s1 0:f1 1:fence"), [(FenceMissing, 1, None, 1)]);
        assert_eq!(
            warnings("s1 f1 out fence out"),
            [(OutputTooEarly, 0, Some(2), 1)]
        );
        assert_eq!(
            warnings("s1 out f1 fence"),
            [(OutputTooEarly, 0, Some(1), 1)]
        );
        // Whoever has stored what a device sends.
        assert_eq!(
            warnings("0:s1 1:rea1 0:f1 0:fence"),
            [(OutputTooEarly, 0, Some(1), 1)]
        );
        assert_eq!(
            warnings("s1 f1 rea1 rea1 fence"),
            [(OutputTooEarly, 0, Some(2), 2)]
        );
        assert_eq!(
            warnings("s1 f1 fence f1 fence"),
            [(FlushNeedless, 3, None, 1)]
        );
        assert_eq!(warnings("f3 fence"), [(FlushNeedless, 0, None, 1)]);
        assert_eq!(
            warnings("s1 f1 fence fence fence"),
            [(FenceNeedless, 3, None, 1)]
        );
    }
}
