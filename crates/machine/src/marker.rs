//! Markers: what programs tell the machine about regions of interest, labels and requests.
//!
//! A marker takes effect between instructions, after the marker itself, so at the same cycle with
//! every engine.

use super::memory::RegionReport;
use super::stats::{self, Baseline};
use super::view::HartView;
use super::{Machine, Report, Stop};
use nagori_config::Method;
use nagori_hart::world::Marker;
use nagori_memtime::Stats;
use nagori_platform::clock::Ps;
use nagori_platform::control::method_from_number;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Number of labels and dumps that are kept; a program may make any number.
const KEPT: usize = 1 << 14;

/// A label, and when it was met.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Label {
    /// The value that the program gave.
    pub value: u64,
    /// Machine time in picoseconds.
    pub time_ps: u64,
    /// Hart index.
    pub hart: usize,
    /// Instructions retired by all harts.
    pub instructions: u64,
}

impl Label {
    /// The value as text: up to eight printable ASCII characters, the first in the lowest byte.
    pub fn text(&self) -> Option<String> {
        let bytes = self.value.to_le_bytes();
        let len = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
        let (text, rest) = bytes.split_at(len);
        let plain = |b: &u8| b.is_ascii_graphic() || *b == b' ';
        (len > 0 && text.iter().all(plain) && rest.iter().all(|b| *b == 0))
            .then(|| String::from_utf8_lossy(text).into_owned())
    }
}

/// Regions of interest so far.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Regions {
    /// How many have ended.
    pub count: u64,
    /// Whether one has begun that has not ended; what it has cost is in the report.
    pub open: bool,
    /// What they have cost together: times and counts are sums.
    pub report: Report,
}

/// Where a region began.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct RegionStart {
    harts: Baseline,
    memory: Stats,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    memories: Vec<RegionReport>,
}

/// What markers have left.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Markers {
    labels: Vec<Label>,
    /// Labels and marks that were too many to be kept.
    lost: u64,
    /// Markers that asked for something impossible.
    refused: u64,
    open: Option<Box<RegionStart>>,
    done: Option<Box<(u64, Report)>>,
    /// Whether the timing model is on inside regions only.
    timed_regions: bool,
    /// What the run has to end with.
    #[serde(skip)]
    pub(super) stop: Option<Stop>,
}

impl Markers {
    /// Where the harts were when the open region began.
    pub(super) fn opened(&self) -> Vec<HartView> {
        self.open.as_deref().map_or(Vec::new(), |o| o.harts.views())
    }

    /// Whether all counts leave room for more: of what was read from outside.
    pub(super) fn sane(&self) -> bool {
        fn small(v: &Value) -> bool {
            match v {
                Value::Array(a) => a.iter().all(small),
                Value::Object(m) => m.values().all(small),
                Value::Number(n) => n.as_u64().is_none_or(|n| n <= 1 << 60),
                _ => true,
            }
        }
        let counts = serde_json::to_value((&self.open, &self.done, self.lost, self.refused));
        counts.is_ok_and(|v| small(&v))
    }
}

impl Machine {
    /// Times only regions of interest: the timing model is turned on where one begins, and off
    /// where it ends. Between them the machine runs in functional mode.
    pub fn set_timed_regions(&mut self, on: bool) {
        self.markers.timed_regions = on;
    }

    /// Labels that the guest has set, in order, at most 16384.
    pub fn labels(&self) -> &[Label] {
        &self.markers.labels
    }

    /// The text that the guest's kernel has given a label, such as that of [`Stop::Snapshot`].
    pub fn label_text(&self, label: u64) -> Option<String> {
        self.world.control.block.label_text(label)
    }

    /// Labels and marks beyond those that are kept.
    pub fn labels_lost(&self) -> u64 {
        self.markers.lost
    }

    /// Markers that asked for something impossible, such as a method that does not exist.
    pub fn markers_refused(&self) -> u64 {
        self.markers.refused
    }

    /// The regions of interest so far; `None` if none has begun.
    pub fn regions(&self) -> Option<Regions> {
        let done = self.markers.done.as_deref();
        let open = self.markers.open.as_deref().map(|s| self.since(s));
        let (count, report) = match (done, &open) {
            (Some((n, total)), Some(r)) => (*n, total.clone().plus(r)),
            (Some((n, total)), None) => (*n, total.clone()),
            (None, Some(r)) => (0, r.clone()),
            (None, None) => return None,
        };
        Some(Regions {
            count,
            open: open.is_some(),
            report,
        })
    }

    pub(super) fn since(&self, start: &RegionStart) -> Report {
        let mut r = stats::report(
            &self.config,
            &self.harts,
            &self.world.coherence,
            (&self.world.memory, self.settled_memories()),
            self.now(),
            &start.harts,
            (self.was_parallel, self.world.epochs.as_deref()),
        );
        r.memory = r.memory.since(&start.memory);
        for (now, start) in r.memories.iter_mut().zip(&start.memories) {
            now.stats = now.stats.since(&start.stats);
        }
        r
    }

    /// What memories have done for certain: requests that come later change nothing of it. So what one of these
    /// reports has counted, later ones have, too.
    fn settled_memories(&self) -> Vec<RegionReport> {
        let due = self.world.ps(self.world.coherence.next_due());
        let next = self.next_time().min(due).min(self.now());
        let coming = self.world.memory.next_coming(next);
        let next = coming.map_or(next, |c| c.at);
        let certain = Ps(next.0.saturating_sub(1));
        self.world.memory.reports(certain)
    }

    pub(super) fn region_start(&self) -> Box<RegionStart> {
        let now = self.now();
        Box::new(RegionStart {
            harts: Baseline::of(
                &self.harts,
                &self.world.coherence,
                self.world.epochs.as_deref(),
                now,
            ),
            memory: self.world.memory.board.stats(now),
            memories: self.settled_memories(),
        })
    }

    /// Statistics have started anew: so does the region that is open.
    pub(super) fn restart_region(&mut self) {
        if self.markers.open.is_some() {
            self.markers.open = Some(self.region_start());
        }
    }

    /// Keeps the statistics so far under a label.
    pub fn mark(&mut self, label: u64) {
        if self.marks.len() < KEPT {
            let r = self.report();
            self.marks.push((label, r));
        } else {
            self.markers.lost += 1;
        }
    }

    pub(super) fn apply_marker(&mut self, hart: usize, marker: Marker, value: u64) {
        match marker {
            // Regions do not nest: the first begin and the first end count.
            Marker::RoiBegin if self.markers.open.is_some() => {}
            Marker::RoiBegin => {
                if self.markers.timed_regions {
                    self.set_timed(true);
                }
                self.markers.open = Some(self.region_start());
            }
            Marker::RoiEnd => {
                let Some(start) = self.markers.open.take() else {
                    return;
                };
                let report = self.since(&start);
                self.markers.done = Some(Box::new(match self.markers.done.take() {
                    Some(done) => (done.0 + 1, done.1.plus(&report)),
                    None => (1, report),
                }));
                if self.markers.timed_regions {
                    self.set_timed(false);
                }
            }
            Marker::StatsReset => self.reset_stats(),
            Marker::StatsDump => self.mark(value),
            Marker::Method => {
                let set =
                    method_from_number(value).is_some_and(|m: Method| self.set_method(m).is_ok());
                self.markers.refused += !set as u64;
            }
            Marker::Label => {
                if self.markers.labels.len() < KEPT {
                    let label = Label {
                        value,
                        time_ps: self.hart_time(hart).0,
                        hart,
                        instructions: self.instructions(),
                    };
                    self.markers.labels.push(label);
                } else {
                    self.markers.lost += 1;
                }
                self.label_set(value);
            }
            Marker::Snapshot => self.markers.stop = Some(Stop::Snapshot(value)),
            Marker::Stop => self.markers.stop = Some(Stop::PowerOff(value as u32)),
        }
    }

    fn hart_time(&self, hart: usize) -> Ps {
        let cycle = self.harts.get(hart).map_or(0, |h| h.state.cycle);
        self.world.ps(cycle)
    }
}
