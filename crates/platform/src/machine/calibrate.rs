//! What lines of a machine's memories cost a hart, measured on the detailed model for the light mode: a pointer
//! chase for reads, the same with a store for write-backs, and with a flush for flushed lines. Lines come in random
//! order and, but for the board's memory, in ascending order without prefetchers; and several harts run at a time for what they
//! wait for one another.
//!
//! Each loop runs twice: in the detailed mode, and in the light mode with a memory that costs nothing. The difference,
//! divided by the number of lines moved, is what memory adds to a hart's time; cost of instructions and hits cancel out.

use super::light::costs::{
    begin_of, middle_of, Area, EpochLength, InOrder, LightError, LightModel, LineCosts, LineCounts,
    GAPS,
};
use super::{Engine, Machine, MachineError, Quiet, Stop};
use crate::config::epoch::LENGTHS;
use crate::config::{self, HintedStore};
use nagori_memtime::{Method, Ps};

/// Bytes of a line.
const LINE: u64 = 64;
/// Lines of a chase at least: enough for all banks and many rows.
const LEAST_LINES: u64 = 1 << 16;
/// Instructions that are measured, once caches are warm, for each gap.
const MEASURED: u64 = 1 << 15;
/// Lines after which what memories buffer is as in a long run.
const SETTLED: u64 = 1 << 12;
/// Empty instructions that make gaps.
const EMPTY_OPS: [u64; 12] = [0, 4, 10, 20, 40, 64, 90, 128, 180, 256, 360, 1400];
/// Offset of the code in the first memory, and of the data in each.
const CODE: u64 = 0x1000;
const DATA: u64 = 0x1_0000;

/// What gaps are made of, without branches, since predictions may differ between the modes: `mv a0, a0`, which waits for the line
/// where harts go on behind loads.
const EMPTY: u32 = 0x0005_0513;
/// The end of a loop, `jr a4`: the register says which loop follows.
const AGAIN: u32 = 0x0007_0067;
/// `ld a0, 0(a0)`.
const CHASE: &[u32] = &[0x0005_3503];
/// `ld a2, 0(a0)`, `sd a1, 8(a0)`, `mv a0, a2`.
const WRITE: &[u32] = &[0x0005_3603, 0x00b5_3423, 0x0006_0513];
/// The same with `cbo.flush (a0)` behind the store.
const FLUSH: &[u32] = &[0x0005_3603, 0x00b5_3423, 0x0025_200f, 0x0006_0513];
/// `add t3, t3, a5`, `and t3, t3, a6`, `add a0, t3, a7`: the next line, a step behind the last one.
const STEP: [u32; 3] = [0x00fe_0e33, 0x010e_7e33, 0x011e_0533];
/// `STEP`, `ld a2, 0(a0)`, `mv a2, a2`, which waits for the line.
const STREAM: &[u32] = &[STEP[0], STEP[1], STEP[2], 0x0005_3603, 0x0006_0613];
/// The same with `sd a2, 8(a0)`.
const STREAM_WRITE: &[u32] = &[
    STEP[0],
    STEP[1],
    STEP[2],
    0x0005_3603,
    0x0006_0613,
    0x00c5_3423,
];
/// Gaps between lines of a stream, of which there are many within the time that a line takes: how lines under way at a time come out
/// depends on their order, which is another one with each gap.
const STREAM_GAPS: usize = 10;
/// `sd a1, 0(a0)`.
const STORE: u32 = 0x00b5_3023;
/// `fence rw, rw`.
const FENCE: u32 = 0x0330_000f;
/// The step between lines in random order.
const A_STEP: u64 = 0x9e37_79b9 * LINE;
/// `wfi` and again, for the other harts.
const SLEEP: &[u32] = &[0x1050_0073, 0xffdf_f06f];

/// Harts that run at a time, at most, for what they wait for one another.
const CROWD: usize = 4;

/// `STEP`, and `sd a1, 8k(a0)` for all of a line behind a hint each, which has a register.
fn past(hint: u32) -> Vec<u32> {
    let stores = (0..64).step_by(8).flat_map(|offset: u32| {
        let store = 0x00b5_3023 | (offset & 31) << 7 | (offset >> 5) << 25;
        [0x0000_0033 | hint << 20, store]
    });
    STEP.into_iter().chain(stores).collect()
}

/// A loop to be measured.
#[derive(Clone, Copy)]
struct Loop<'a> {
    area: usize,
    method: Method,
    work: &'a [u32],
    harts: usize,
    in_order: bool,
}

/// A machine with a loop for each gap, and where these begin.
struct Prepared {
    machine: Machine<Quiet>,
    begins: Vec<u64>,
}

impl Prepared {
    /// So many instructions.
    fn go(&mut self, steps: u64) -> Result<(), MachineError> {
        let m = &mut self.machine;
        let until = m.steps() + steps;
        loop {
            match m.run(u64::MAX, Some(until)) {
                Stop::Instructions => return Ok(()),
                Stop::Slice => {}
                other => {
                    let why = format!("the loop ended: {other:?}");
                    return Err(MachineError::Calibration(why));
                }
            }
        }
    }

    /// Runs the loop with such a gap.
    fn measure(&mut self, what: Loop<'_>, gap: usize) -> Result<Run, MachineError> {
        for k in 0..what.harts {
            if let Some(h) = self.machine.hart_mut(k) {
                h.set_reg(14, self.begins[gap]);
            }
        }
        let (crowd, step) = (what.harts as u64, what.step() + what.gaps()[gap]);
        self.go(crowd * 256 * step)?;
        self.machine.reset_stats();
        let before = self.machine.report();
        self.go(crowd * what.measured(gap).0)?;
        let after = self.machine.report();
        let lines = |r: &super::Report| r.light.as_ref().map(|l| l.memories[what.area].1);
        let lines = |r| lines(r).unwrap_or_default();
        let cycles = |k: usize| after.harts[k].cycles - before.harts[k].cycles;
        Ok(Run {
            cycles: (0..what.harts).map(cycles).sum(),
            lines: lines(&after).minus(&lines(&before)),
        })
    }
}

/// What a loop took with one gap.
#[derive(Clone, Copy)]
struct Run {
    /// Core cycles.
    cycles: u64,
    /// Lines moved from and to the memory that it was about.
    lines: LineCounts,
}

/// What memory added to a loop with one gap.
struct Added {
    /// Core cycles of the loop without memory, for each line that is read, or written past the caches.
    gap: f64,
    /// Share of the time for which harts waited for memory.
    share: f64,
    /// Picoseconds that memory has added, and lines that it has moved.
    time: f64,
    lines: LineCounts,
}

impl Loop<'_> {
    /// Empty instructions of its gaps.
    fn gaps(&self) -> &'static [u64] {
        &EMPTY_OPS[..if self.harts > 1 { 1 } else { EMPTY_OPS.len() }]
    }

    /// Instructions of a hart that are measured with a gap, and how many lines these move.
    fn measured(&self, gap: usize) -> (u64, f64) {
        let step = self.step() + self.gaps()[gap];
        let all = MEASURED.max(256 * step);
        (all, all as f64 / step as f64)
    }

    /// Instructions for a line, without the gap.
    fn step(&self) -> u64 {
        self.work.len() as u64 + 1
    }
}

/// A calibration of a machine.
struct Bench<'a> {
    description: &'a config::Machine,
    areas: Vec<(String, u64, u64)>,
    /// Lines of a chase, and of all that caches can hold for a hart.
    lines: u64,
    cached: u64,
}

impl<'a> Bench<'a> {
    fn new(description: &'a config::Machine) -> Self {
        let config = &description.config;
        let levels = config.levels().into_iter();
        let cached = config.l1d.size.0 + levels.map(|(_, l)| l.size.0).sum::<u64>();
        Bench {
            description,
            areas: areas(config),
            lines: (4 * cached / LINE).max(LEAST_LINES),
            cached: cached / LINE,
        }
    }

    /// A model of these memories in which nothing costs anything.
    fn free(&self) -> LightModel {
        let area = |(name, base, end): &(String, u64, u64)| Area {
            name: name.clone(),
            base: *base,
            end: *end,
            board: false,
            costs: vec![LineCosts::default()],
        };
        LightModel {
            machine: self.description.config.name.clone(),
            key: key(self.description),
            last_hit: last_hit(&self.description.config),
            gap_bits: gap_bits(&self.description.config),
            areas: self.areas.iter().map(area).collect(),
        }
    }

    /// A machine in the light or in the detailed mode with a loop over lines of a memory, whose caches are full.
    fn prepared(&self, light: bool, what: Loop<'_>) -> Result<Prepared, MachineError> {
        let Loop { area, harts, .. } = what;
        // Loops with each gap, one behind the other, and where they begin.
        let (mut words, mut begins) = (SLEEP.to_vec(), Vec::new());
        for gap in what.gaps() {
            begins.push(CODE + 4 * words.len() as u64);
            words.extend(what.work);
            words.extend(vec![EMPTY; *gap as usize]);
            words.push(AGAIN);
        }
        let mut m = Machine::new(self.description, Quiet)?;
        m.set_engine(Engine::best())?;
        m.set_method(what.method)?;
        let length = EpochLength::default();
        let free = self.free();
        let failed = |e: LightError| MachineError::Calibration(e.to_string());
        // Caches are filled in the light mode.
        m.set_light(free.clone(), length).map_err(failed)?;
        let (ram, base) = (m.ram().clone(), m.config().memory.base);
        let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        ram.write_bytes(CODE, &bytes)?;
        let (_, from, end) = &self.areas[area];
        let first = from + DATA;
        let lines = self.lines.min(end.saturating_sub(first) / LINE);
        if lines < 2 * self.cached.max(64) {
            return Err(MachineError::Calibration(format!(
                "memory `{}` is too small for its lines to leave the caches",
                self.areas[area].0
            )));
        }
        link(lines, what.in_order, |line, next| {
            let address = base + first + next * LINE;
            ram.write_bytes(first + line * LINE, &address.to_le_bytes())
        })?;
        m.start_at(base + CODE, 0, 0);
        begins.iter_mut().for_each(|b| *b += base);
        for k in 0..harts {
            if let Some(h) = m.hart_mut(k) {
                h.pc = begins[0];
                h.set_reg(14, h.pc);
                h.set_reg(10, base + first + lines / harts as u64 * k as u64 * LINE);
                // For loops that do not follow the lines' links.
                h.set_reg(15, if what.in_order { LINE } else { A_STEP });
                h.set_reg(16, (1 << lines.ilog2()) * LINE - 1);
                h.set_reg(17, base + first);
            }
        }
        let mut p = Prepared { machine: m, begins };
        // All caches are full, and what they write back is what the loop has modified.
        let (crowd, step) = (harts as u64, what.step());
        p.go(crowd * 2 * self.cached * step)?;
        if !light {
            p.machine.count_epochs(free, length).map_err(failed)?;
            p.go(crowd * SETTLED * step)?;
        }
        Ok(p)
    }

    /// Runs a loop over lines of a memory, with each gap; with the first one only if several harts run.
    fn run(&self, light: bool, what: Loop<'_>) -> Result<Vec<Run>, MachineError> {
        let mut p = self.prepared(light, what)?;
        let gaps = 0..what.gaps().len();
        gaps.map(|gap| p.measure(what, gap)).collect()
    }

    /// What memory adds to a loop with each gap.
    fn added(&self, what: Loop<'_>) -> Result<Vec<Added>, MachineError> {
        let detailed = self.run(false, what)?;
        let free = self.run(true, Loop { harts: 1, ..what })?;
        let period = self.description.config.core_period().as_ps();
        let both = detailed.into_iter().zip(free);
        let added = both.map(|(d, f)| {
            // Both have executed the same instructions, but for a few at the ends. A loop reads, or writes past the caches.
            let moved = |l: &LineCounts| (l.reads() + l.nt_stores).max(1) as f64;
            let scale = moved(&d.lines) / moved(&f.lines);
            let without = f.cycles as f64 * scale;
            let time = d.cycles as f64 - without;
            Added {
                gap: without / moved(&d.lines),
                share: time / d.cycles.max(1) as f64,
                time: time * period,
                lines: d.lines,
            }
        });
        Ok(added.collect())
    }

    /// Costs by gap of reads, of write-backs and of flushed lines, in random order or not.
    fn measured(&self, what: Loop<'_>, flushes: bool) -> Result<[Points; 3], MachineError> {
        let of = |work: &'static [u32]| self.added(Loop { work, ..what });
        let read: Points = of(CHASE)?.iter().map(|a| (a.gap, a.per_read())).collect();
        let more = |added: Vec<Added>, of: fn(&LineCounts) -> u64| -> Points {
            let each = |a: &Added| {
                let more = a.time - at(&read, a.gap) * a.lines.reads() as f64;
                (a.gap, more / of(&a.lines).max(1) as f64)
            };
            added.iter().map(each).collect()
        };
        let flush = match flushes {
            true => more(of(FLUSH)?, |l| l.flushes),
            false => Points::new(),
        };
        let write_back = more(of(WRITE)?, |l| l.write_backs + l.posted);
        let flush = if flushes { flush } else { write_back.clone() };
        Ok([read, write_back, flush])
    }

    /// What reads, and lines written back, wait for each other hart that waits for such lines all the time, in picoseconds.
    fn queues(&self, alone: Loop<'_>) -> Result<(f64, f64), MachineError> {
        let harts = CROWD.min(self.description.config.harts as usize);
        let others = harts as f64 - 1.0;
        // What the crowd adds to each read of a loop; how long one waits alone; the share of time waited; lines.
        let more = |work: &'static [u32]| {
            let what = Loop { work, ..alone };
            let crowd = self.added(Loop { harts, ..what })?;
            let alone = self.added(what)?;
            let both = crowd.first().zip(alone.first());
            Ok::<_, MachineError>(both.map(|(c, a)| {
                let writes = (c.lines.write_backs + c.lines.posted) as f64;
                let per_read = writes / c.lines.reads().max(1) as f64;
                let more = c.per_read() - a.per_read();
                (more, a.per_read(), c.share, per_read)
            }))
        };
        let (Some((more_read, read, share, _)), Some((more_both, both, of_both, writes))) =
            (more(CHASE)?, more(WRITE)?)
        else {
            return Ok((0.0, 0.0));
        };
        let least = f64::MIN_POSITIVE;
        // Less of the time than this says nothing.
        const SHARE: f64 = 0.02;
        let q_read = (more_read / (others * share).max(least)).max(0.0);
        // The part of the time for which harts of the second loop wait for reads.
        let part = (read / both.max(least)).clamp(0.0, 1.0);
        let by_reads = q_read * others * of_both * part;
        let waits = others * of_both * (1.0 - part) * writes;
        let q_write = match waits > SHARE * others {
            true => ((more_both - by_reads) / waits).max(0.0),
            false => 0.0,
        };
        Ok((q_read, q_write))
    }

    /// What memory adds to each line of a loop's stores, by gap.
    fn stored(&self, what: Loop<'_>, work: &[u32]) -> Result<Points, MachineError> {
        let added = self.added(Loop { work, ..what })?;
        let moved = |a: &Added| (a.lines.reads() + a.lines.nt_stores).max(1) as f64;
        Ok(added.iter().map(|a| (a.gap, a.time / moved(a))).collect())
    }

    /// By class of gap: the time from one line to the next, where nobody waits for lines.
    fn apart(&self, stored: &Points) -> [u64; GAPS] {
        let bits = gap_bits(&self.description.config);
        let period = self.description.config.core_period().as_ps();
        // Where a gap hides all of it, the time to the next line is the gap: no class has that of a longer one.
        let unit = (1u64 << bits) as f64;
        std::array::from_fn(|class| {
            let begin = begin_of(class) * unit;
            let before = stored.iter().rev().find(|p| p.0 <= begin);
            let all = before
                .or(stored.first())
                .map_or(0.0, |p| p.0 * period + p.1);
            all.round().max(0.0) as u64
        })
    }

    /// What single lines cost, but those before fences and behind other harts. Lines of stores in a buffer are with their victims.
    fn lines(&self, what: Loop<'_>, flushes: bool) -> Result<LineCosts, MachineError> {
        let bits = gap_bits(&self.description.config);
        let [read, write_back, flush] = self.measured(what, flushes)?;
        let mut costs = LineCosts {
            read_ps: classes(&read, bits),
            write_back_ps: classes(&write_back, bits),
            flush_ps: classes(&flush, bits),
            ..LineCosts::default()
        };
        if let Some(work) = self.past_caches() {
            costs.past_ps = self.apart(&self.stored(what, &work)?);
        }
        if self.description.config.store_buffer.entries > 0 {
            let work = [&STEP[..], &[STORE]].concat();
            costs.stores_ps = self.apart(&self.stored(what, &work)?);
        }
        Ok(costs)
    }

    /// The loop of stores past the caches, if a hint makes them.
    fn past_caches(&self) -> Option<Vec<u32>> {
        let hints = self.description.config.nontemporal.hints();
        let mut hints = (2u32..).zip(hints);
        let hint = hints.find(|(_, h)| h.1.store != HintedStore::Temporal)?;
        Some(past(hint.0))
    }

    fn costs(
        &self,
        area: usize,
        method: Method,
        (flushes, board): (bool, bool),
    ) -> Result<LineCosts, MachineError> {
        let what = Loop {
            area,
            method,
            work: CHASE,
            harts: 1,
            in_order: false,
        };
        let mut costs = self.lines(what, flushes)?;
        without_victims(&mut costs.stores_ps, &costs.write_back_ps);
        if let Some(work) = self.past_caches() {
            let mut fenced = self.stored(what, &[&work[..], &[FENCE]].concat())?;
            // The fence follows a cycle after the line.
            let period = self.description.config.core_period().as_ps();
            fenced.iter_mut().for_each(|p| p.1 += period);
            costs.fenced_ps = classes(&fenced, gap_bits(&self.description.config));
        }
        // What lines in order, and those of other harts, do to one another on the board is by its controller's rules.
        if !board {
            let plain = self.without_prefetchers()?;
            let plain = Bench::new(&plain);
            let lines = plain.lines(
                Loop {
                    in_order: true,
                    ..what
                },
                flushes,
            )?;
            let mut o = InOrder {
                read_ps: lines.read_ps,
                ahead_ps: lines.read_ps[0],
                write_back_ps: lines.write_back_ps,
                flush_ps: lines.flush_ps,
                past_ps: lines.past_ps,
                stores_ps: lines.stores_ps,
            };
            if self.description.config.fetches_ahead() {
                self.fit_streams(what, &costs, &mut o)?;
            }
            without_victims(&mut o.stores_ps, &o.write_back_ps);
            costs.in_order = Some(o);
        }
        if self.description.config.harts > 1 && !board {
            let (read, write) = self.queues(what)?;
            costs.queue_read_ps = read.min(1e9).round() as u64;
            costs.queue_write_ps = write.min(1e9).round() as u64;
        }
        Ok(costs)
    }

    /// What lines in order take that the hart does not wait for where it asks, and what their victims take, so that loops over them take
    /// as long in the light mode as in the detailed one.
    fn fit_streams(
        &self,
        alone: Loop<'_>,
        costs: &LineCosts,
        in_order: &mut InOrder,
    ) -> Result<(), MachineError> {
        for (work, set) in [
            (STREAM, InOrder::set_ahead as fn(&mut InOrder, u64)),
            (STREAM_WRITE, InOrder::set_write_back),
        ] {
            let what = Loop {
                work,
                in_order: true,
                ..alone
            };
            // By line, so that each gap says as much.
            let all = |p: &mut Prepared| {
                let mut sum = 0.0;
                for gap in 0..STREAM_GAPS {
                    sum += p.measure(what, gap)?.cycles as f64 / what.measured(gap).1;
                }
                Ok::<_, MachineError>(sum)
            };
            let detailed = all(&mut self.prepared(false, what)?)?;
            // Many epochs end in each loop.
            let length = EpochLength {
                time: *LENGTHS.start(),
                instructions: None,
            };
            let mut p = self.prepared(true, what)?;
            let mut light = |o: InOrder| {
                let mut model = self.free();
                model.areas[what.area].costs = vec![LineCosts {
                    in_order: Some(o),
                    ..*costs
                }];
                let set = p.machine.set_light(model, length);
                set.map_err(|e| MachineError::Calibration(e.to_string()))?;
                all(&mut p)
            };
            // It takes longer the longer they take.
            let (mut from, mut to) = (0, 4 * costs.read_ps[0]);
            while to - from > costs.read_ps[0] / 256 {
                let middle = (from + to) / 2;
                set(in_order, middle);
                match light(*in_order)? < detailed {
                    true => from = middle,
                    false => to = middle,
                }
            }
            set(in_order, from);
        }
        Ok(())
    }

    /// The machine, whose caches ask for no line that the loop does not.
    fn without_prefetchers(&self) -> Result<config::Machine, MachineError> {
        let levels = self.description.config.levels().into_iter();
        let levels = levels.map(|(name, _)| format!("cache.{name}.prefetcher=none"));
        let settings: Vec<String> = levels.chain(["l1d.prefetcher=none".to_owned()]).collect();
        let plain = self.description.with(&settings);
        plain.map_err(|e| MachineError::Calibration(e.to_string()))
    }
}

/// What victims of stored lines take, of which each has one, is counted apart.
fn without_victims(stores: &mut [u64; GAPS], victims: &[u64; GAPS]) {
    for (line, victim) in stores.iter_mut().zip(victims) {
        *line = line.saturating_sub(*victim);
    }
}

/// Values by gap.
type Points = Vec<(f64, f64)>;

impl Added {
    /// Picoseconds for each line that is read.
    fn per_read(&self) -> f64 {
        self.time / self.lines.reads().max(1) as f64
    }
}

/// The value at a gap between those that were measured, linear in between and constant beyond.
fn at(points: &[(f64, f64)], gap: f64) -> f64 {
    let after = points.iter().position(|p| p.0 >= gap);
    match after {
        Some(0) => points[0].1,
        Some(i) => {
            let (a, b) = (points[i - 1], points[i]);
            a.1 + (b.1 - a.1) * (gap - a.0) / (b.0 - a.0).max(f64::MIN_POSITIVE)
        }
        None => points.last().map_or(0.0, |p| p.1),
    }
}

/// The values in the middle of the classes of gaps, as whole picoseconds.
fn classes(points: &[(f64, f64)], bits: u32) -> [u64; GAPS] {
    let unit = (1u64 << bits) as f64;
    std::array::from_fn(|class| at(points, middle_of(class) * unit).round().max(0.0) as u64)
}

/// The unit of gaps: an eighth of a memory's latency of 250 ns, or less.
fn gap_bits(config: &config::MachineConfig) -> u32 {
    let cycles = 31_000.0 / config.core_period().as_ps();
    cycles.max(1.0).log2() as u32
}

/// Measures what the light mode needs to know of a machine's memories.
///
/// # Errors
/// If the machine cannot be built, or one of its memories is too small to be measured.
pub fn calibrate(description: &config::Machine) -> Result<LightModel, MachineError> {
    // Nothing that the measured loops do is kept, and all of it is simulated.
    let settings = [
        "memory.track_persistence=false",
        "epoch.sampled_sets=1",
        "epoch.sampled_time=1",
    ];
    let description = &description
        .with(&settings.map(String::from))
        .map_err(|e| MachineError::Calibration(e.to_string()))?;
    let bench = Bench::new(description);
    let config = &description.config;
    let flushes = config.isa.iter().any(|e| *e == "zicbom");
    let mut model = bench.free();
    for (i, area) in model.areas.iter_mut().enumerate() {
        let named = config.regions().iter().any(|r| r.base == area.base);
        let methods: &[Method] = match !named && area.base >= config.memory.nvmm_boundary.0 {
            true => &Method::ALL,
            false => &[Method::Dram],
        };
        area.board = !named;
        let costs = methods
            .iter()
            .map(|m| bench.costs(i, *m, (flushes, !named)));
        area.costs = costs.collect::<Result<_, _>>()?;
    }
    Ok(model)
}

/// Identifies what costs of lines follow from in a description.
pub fn key(description: &config::Machine) -> String {
    let c = &description.config;
    let mut memory = c.memory.clone();
    // These change nothing about its time.
    memory.track_persistence = false;
    memory.expose = config::Expose::Hidden;
    let caches = (&c.l1d, &c.l1i, &c.cache, c.hub_cycles, &c.store_buffer);
    let text = serde_json::to_string(&(c.clock_hz, caches, &memory, &c.board, &description.core));
    let mut text = text.unwrap_or_default();
    if c.nontemporal != config::NontemporalConfig::default() {
        text += &serde_json::to_string(&c.nontemporal).unwrap_or_default();
    }
    format!("{:016x}", xxhash_rust::xxh3::xxh3_64(text.as_bytes()))
}

fn last_hit(config: &config::MachineConfig) -> Ps {
    let latency = config.levels().last().map_or(0, |(_, l)| l.latency);
    Ps(config.core_period().edge(latency.into()).0)
}

/// The memories of a machine by address, with their ends.
fn areas(config: &config::MachineConfig) -> Vec<(String, u64, u64)> {
    let (size, boundary) = (config.memory.size.0, config.memory.nvmm_boundary.0);
    let mut regions: Vec<_> = config
        .regions()
        .into_iter()
        .map(|r| (r.name.to_owned(), r.base, r.base + r.size))
        .collect();
    regions.sort_by_key(|r| r.1);
    let mut all: Vec<(String, u64, u64)> = Vec::new();
    let board = |from: u64, to: u64, all: &mut Vec<(String, u64, u64)>| {
        let parts = [
            ("dram", from, to.min(boundary)),
            ("nvmm", from.max(boundary), to),
        ];
        for (name, from, to) in parts {
            if from < to {
                all.push((name.to_owned(), from, to));
            }
        }
    };
    let mut at = 0;
    for r in regions {
        board(at, r.1, &mut all);
        at = r.2;
        all.push(r);
    }
    board(at, size, &mut all);
    all
}

/// Links lines to one cycle, in ascending order or in a random one, which is always the same.
fn link<E>(
    lines: u64,
    in_order: bool,
    mut to: impl FnMut(u64, u64) -> Result<(), E>,
) -> Result<(), E> {
    if in_order {
        return (0..lines).try_for_each(|line| to(line, (line + 1) % lines));
    }
    let mut order: Vec<u32> = (0..lines as u32).collect();
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    for i in (1..order.len()).rev() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        order.swap(i, (state % i as u64) as usize);
    }
    // A permutation in which every element is exchanged with an earlier one is one cycle.
    for (line, next) in order.iter().enumerate() {
        to(line as u64, u64::from(*next))?;
    }
    Ok(())
}
