//! Lines are moved in the light mode: what each costs, and what is counted.

use super::board::{Group, Moved};
use super::classes::{class_of, Then, CLASSES};
use super::costs::GAPS;
use super::Light;
use nagori_hart::world::{LineKind, LineRequest};

impl Light {
    /// A hart reads a line or writes one back. Returns when it goes on.
    #[inline]
    pub fn transfer(&mut self, req: &LineRequest, offset: u64, write: bool) -> u64 {
        let area = self.area(offset);
        if self.hides_stores && !write && req.kind == LineKind::Store {
            self.stores(req, (area, offset));
            return req.cycle;
        }
        let lines = self.stands_for(req);
        if self.some.weight > 1 && !write && req.kind.is_sampled() && self.awake.all(req.hart) {
            self.awake.reads(req.hart, self.some.has(req.line));
        }
        let moved = match (write, req.kind) {
            (false, _) => Moved::Read,
            (true, LineKind::Flush) => Moved::Flush,
            (true, _) => Moved::WriteBack,
        };
        let cost = if write {
            self.at_once.1
        } else {
            self.at_once.0
        };
        let end = req.cycle + cost * u64::from(lines);
        self.settle(req.hart, req.cycle);
        match self.board.has(area) {
            true => self.on_board(req, (area, offset), moved),
            false => self.by_class(req, (area, offset), moved),
        }
        let h = &mut self.harts[req.hart];
        h.last = end;
        h.any = true;
        let n = &mut h.now[area];
        let lines = u64::from(lines);
        match (moved, req.kind) {
            (Moved::Flush, _) => n.flushes += lines,
            (Moved::WriteBack | Moved::Past, _) => n.write_backs += lines,
            (Moved::Read, LineKind::Store) => n.stores += lines,
            (Moved::Read, _) => n.loads += lines,
        }
        end
    }

    /// What a line costs follows from its class.
    #[inline]
    fn by_class(&mut self, req: &LineRequest, (area, offset): (usize, u64), moved: Moved) {
        let (gap, lines) = (self.class(req), self.stands_for(req));
        let order = self.order(req, (area, offset), moved != Moved::Read);
        let class = class_of(gap, order);
        let h = &mut self.harts[req.hart];
        if let Some(Some(rest)) = self.rest.get(area * CLASSES + class as usize) {
            let (full, paid) = match moved {
                Moved::Read => (rest.costs.0, self.paid.0),
                _ => (rest.costs.1, self.paid.1),
            };
            let more = full.saturating_sub(paid) * u64::from(lines);
            let owed = &mut self.owed[req.hart];
            *owed = owed.saturating_add(more);
            // What an instruction writes back costs what it does by the gap behind it.
            if moved != Moved::Flush {
                h.due = h.due.saturating_add(more);
            }
        }
        match moved {
            Moved::Flush => {
                h.behind[area][order].flushed += lines;
                h.is_behind = true;
            }
            Moved::WriteBack | Moved::Past => {
                h.count(area, class).write_back += lines;
                if req.kind != LineKind::Probe {
                    h.victim = Some(gap);
                }
            }
            Moved::Read => {
                // The gap before it is that before its victim.
                let gap = h.victim.take().unwrap_or(gap);
                h.count(area, class_of(gap, order)).read += lines;
            }
        }
    }

    /// A line is written back, and nobody waits.
    #[inline]
    pub fn post(&mut self, req: &LineRequest, offset: u64) {
        let area = self.area(offset);
        let lines = self.stands_for(req);
        let h = &mut self.harts[req.hart];
        h.any = true;
        h.now[area].posted += u64::from(lines);
        if self.board.has(area) {
            self.nobody_waits(req, (area, offset), Moved::WriteBack);
            return;
        }
        self.writes_behind(req);
        let order = self.order(req, (area, offset), true);
        self.harts[req.hart].behind[area][order].posted += lines;
    }

    /// A line is written that non-temporal stores have filled; if only a part of it is there, memory may have to read it
    /// before. Nobody waits but at the next fence, or if no buffer is free.
    pub fn write_ahead(&mut self, req: &LineRequest, offset: u64, reads: bool) {
        let area = self.area(offset);
        let h = &mut self.harts[req.hart];
        h.any = true;
        h.now[area].nt_stores += 1;
        if reads && self.board.has(area) {
            self.nobody_waits(req, (area, offset), Moved::Read);
        }
        self.goes_on(req, (area, offset), Moved::Past);
        if reads && !self.board.has(area) {
            self.adds(req.hart, self.each[area].open[GAPS - 1]);
        }
    }

    /// A store in a store buffer asks for its line. Nobody waits but at the next fence, or if no line fill buffer is free.
    fn stores(&mut self, req: &LineRequest, line: (usize, u64)) {
        let h = &mut self.harts[req.hart];
        h.any = true;
        h.now[line.0].ahead += 1;
        self.goes_on(req, line, Moved::Read);
    }

    /// A hart goes on while a line is read for a store, or written past the caches.
    fn goes_on(&mut self, req: &LineRequest, line: (usize, u64), moved: Moved) {
        if self.board.has(line.0) {
            let at = self.estimated(req.hart, req.cycle);
            let on = &mut self.harts[req.hart].on_board;
            let waits = self.board.past(on, at, (line, moved), self.buffers);
            if let Some(m) = &mut self.meeting {
                m.asks(req.hart, at, line, (moved, 0), 0);
            }
            self.adds(req.hart, waits);
            return;
        }
        let before = self.then(req.hart, req.cycle).gap;
        self.writes_behind(req);
        let order = self.order(req, line, moved == Moved::Past);
        let h = &mut self.harts[req.hart];
        let b = &mut h.behind[line.0][order];
        match moved {
            Moved::Past => b.past += 1,
            _ => b.stored += 1,
        }
        h.before = before;
    }

    /// The class of the transfer that follows the written lines of a hart is known.
    #[inline]
    fn settle(&mut self, hart: usize, cycle: u64) {
        if self.harts[hart].is_behind {
            let then = self.then(hart, cycle);
            self.harts[hart].settle_behind(then, &self.rest, &self.each);
        }
    }

    /// What a hart does at a cycle, behind its last transfer.
    #[inline]
    pub(super) fn then(&self, hart: usize, cycle: u64) -> Then {
        let gap = cycle.saturating_sub(self.harts[hart].last);
        Then {
            gap: self.gap(gap),
            ps: gap.saturating_mul(self.period.0) / self.period.1,
            waits: false,
        }
    }

    /// A line is written that costs what it does by the gap behind it.
    #[inline]
    fn writes_behind(&mut self, req: &LineRequest) {
        self.settle(req.hart, req.cycle);
        let h = &mut self.harts[req.hart];
        h.last = h.last.max(req.cycle);
        h.is_behind = true;
    }

    /// A prefetcher reads a line, or a load that does not wait for it. Returns when it comes.
    pub fn prefetch(&mut self, req: &LineRequest, offset: u64) -> u64 {
        let area = self.area(offset);
        let h = &mut self.harts[req.hart];
        h.any = true;
        match req.kind {
            LineKind::Prefetch => h.now[area].prefetches += 1,
            _ => h.now[area].ahead += 1,
        }
        if !self.board.has(area) {
            let order = self.order(req, (area, offset), false);
            let since = req.cycle.saturating_sub(self.harts[req.hart].order.came);
            let gap = self.gap(since);
            let each = &self.each[area];
            let takes = match &each.in_order {
                Some(o) if order == 1 => o.ahead(gap),
                _ => each.open[gap as usize],
            };
            let (num, den) = self.period;
            let comes = req.cycle + takes.max(self.paid.0) * den / num;
            let came = &mut self.harts[req.hart].order.came;
            *came = comes.max(*came);
            return comes;
        }
        let ps = self.nobody_waits(req, (area, offset), Moved::Read);
        req.cycle + ps * self.period.1 / self.period.0
    }

    /// Whether a line that is read, or written, comes in order (1) or not (0).
    #[inline]
    fn order(&mut self, req: &LineRequest, (area, offset): (usize, u64), written: bool) -> usize {
        if self.each[area].in_order.is_none() {
            return 0;
        }
        let lines = self.stands_for(req);
        let order = &mut self.harts[req.hart].order;
        let streams = match written {
            true => &mut order.writes,
            false => &mut order.reads,
        };
        streams.order(offset, lines, req.cycle)
    }

    /// The class of a transfer at a cycle.
    #[inline]
    fn class(&self, req: &LineRequest) -> u8 {
        let since = req.cycle.saturating_sub(self.harts[req.hart].last);
        // A power of two.
        self.gap(since >> self.stands_for(req).trailing_zeros())
    }

    /// A hart reads a line of the board or writes one back.
    #[inline]
    fn on_board(&mut self, req: &LineRequest, line: (usize, u64), moved: Moved) {
        let at = self.estimated(req.hart, req.cycle);
        match self.stands_for(req) {
            1 => {
                self.waits_on_board(req.hart, (at, 1), line, moved, Some(1));
            }
            lines => self.sampled_on_board(req, (at, lines.into()), line, moved),
        }
    }

    /// A hart waits for a line of the board at an estimated time, which stands for so many that cost the same; other harts' lines may meet
    /// it, and (`asks`) it waits longer then for so many. Returns when it has them.
    #[inline]
    fn waits_on_board(
        &mut self,
        hart: usize,
        (at, lines): (u64, u64),
        line: (usize, u64),
        moved: Moved,
        asks: Option<u32>,
    ) -> u64 {
        let h = &mut self.harts[hart];
        let cost = self.board.cost(&mut h.on_board.busy, at, line, moved);
        if let (Some(m), Some(waits)) = (&mut self.meeting, asks) {
            m.asks(hart, at, line, (moved, waits), cost);
        }
        let more = match moved {
            Moved::Read => {
                let more = cost.saturating_sub(self.paid.0) * lines;
                h.extra.0 = h.extra.0.saturating_add(more);
                h.reads = h.reads.saturating_add(cost * lines);
                more
            }
            Moved::WriteBack | Moved::Flush | Moved::Past => {
                h.extra.1 = h.extra.1.saturating_add(cost * lines);
                cost.saturating_sub(self.paid.1) * lines
            }
        };
        h.due = h.due.saturating_add(more);
        self.owed[hart] = self.owed[hart].saturating_add(more);
        at + cost * lines
    }

    /// A line that stands for several comes: each of these makes room for itself, and is flushed before the next one comes if the
    /// line is flushed next.
    #[cold]
    fn sampled_on_board(
        &mut self,
        req: &LineRequest,
        (at, lines): (u64, u64),
        line: (usize, u64),
        moved: Moved,
    ) {
        let (hart, paid) = (req.hart, self.paid.1 * lines);
        let h = &mut self.harts[hart];
        let gap = self.core.edge(req.cycle.saturating_sub(h.last)).0;
        if moved == Moved::WriteBack && req.kind != LineKind::Probe {
            h.on_board.victim = Some((line.0, line.1, gap));
            return;
        }
        let last = h.on_board.last.take();
        match moved {
            Moved::Read => {
                let victim = h.on_board.victim.take();
                let (at, gap) = match victim {
                    Some(v) => (at.saturating_sub(paid), v.2),
                    None => (at, gap),
                };
                let group = Group {
                    victim: victim.map(|v| (v.0, v.1)),
                    read: Some(line),
                    ..Group::new(at, gap)
                };
                if !self.board.by_rows {
                    self.moves_group(hart, &group, lines);
                    return;
                }
                let (amounts, before) = (h.amounts(), h.on_board.clone());
                self.moves_group(hart, &group, lines);
                let h = &mut self.harts[hart];
                let now = h.amounts();
                let added = std::array::from_fn(|i| now[i].saturating_sub(amounts[i]));
                h.on_board.last = Some(Box::new((group, added, before)));
            }
            _ => {
                let group = match last.filter(|l| moved == Moved::Flush && l.0.read == Some(line)) {
                    // Its read again, now that it is known what follows.
                    Some(last) => {
                        let (group, added, before) = *last;
                        h.takes_back(added);
                        self.owed[hart] = self.owed[hart].saturating_sub(added[3]);
                        h.on_board = before;
                        Group { then: gap, ..group }
                    }
                    None => Group::new(at, gap),
                };
                let group = Group {
                    written: Some((line, moved)),
                    ..group
                };
                self.moves_group(hart, &group, lines);
            }
        }
    }

    /// All lines are moved for which those of a group stand.
    fn moves_group(&mut self, hart: usize, g: &Group, lines: u64) {
        // Where rows do not matter, all cost the same.
        let (parts, times) = match self.board.by_rows {
            true => (lines, 1),
            false => (1, lines),
        };
        // A line is written as soon behind its read as the simulated one was; what is left of the time is divided.
        let then = g.then.min((g.gap + g.then) / parts);
        let each = (g.gap + g.then) / parts - then;
        let mut at = (g.at + each).saturating_sub(g.gap);
        // What was asked for once is not asked for again.
        let again = g.read.is_some() && g.written.is_some();
        let moves = [
            g.victim.map(|l| (l, Moved::WriteBack, 0, !again)),
            g.read.map(|l| (l, Moved::Read, 0, !again)),
            g.written.map(|(l, moved)| (l, moved, then, true)),
        ];
        for part in 0..parts {
            for ((area, offset), moved, then, asks) in moves.into_iter().flatten() {
                let on = &mut self.harts[hart].on_board;
                let line = (area, self.board.other(on, offset, (part, parts), moved));
                let waits = if again { 0 } else { times };
                let asks = asks.then_some(waits as u32);
                at = self.waits_on_board(hart, (at + then, times), line, moved, asks);
            }
            at += each;
        }
    }

    /// A line of the board is moved, and the hart goes on. Returns the picoseconds that it takes.
    fn nobody_waits(&mut self, req: &LineRequest, line: (usize, u64), moved: Moved) -> u64 {
        let at = self.estimated(req.hart, req.cycle);
        let busy = &mut self.harts[req.hart].on_board.busy;
        let cost = self.board.cost(busy, at, line, moved);
        if let Some(m) = &mut self.meeting {
            m.asks(req.hart, at, line, (moved, 0), cost);
        }
        cost
    }
}
