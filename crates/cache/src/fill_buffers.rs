//! Line fill buffers: registers of L1D whose load's hart goes on.
//!
//! A buffer is a miss status holding register of L1D ([`super::mshr`]), shared with prefetches. The place in the caches
//! is taken when the line is asked for, as for a miss that the hart waits for; what takes time is only the line itself,
//! of which the hart knows.

use super::ahead::{ForLoad, UnderWay};
use super::coherence::Coherence;
use super::Side;

/// A prefetch that a load has met.
pub enum Met {
    /// Its line arrives at a cycle; the load has taken it over.
    Comes(u64),
    /// The load has taken over the request of a number.
    Asked(u64),
}

impl Coherence {
    /// A load of a hart has missed all levels; its registers are occupied until memory has answered.
    /// Returns the number of its request.
    pub fn load_asks(&mut self, (hart, pc): (usize, u64), line: u64) -> u64 {
        let n = self.levels.levels.len();
        self.each_passed((Some(Side::Data), 0..n, hart), |_, m| m.goes_on(hart));
        let token = self.levels.ahead.number();
        self.levels.ahead.under_way.push(UnderWay::for_load(
            token,
            n as u32,
            (hart as u32, pc),
            line,
        ));
        token
    }

    /// A load of a hart has met a prefetch, for which it would wait; it can use the line at a cycle at the
    /// earliest. It takes the prefetch over: the place of the line is taken already.
    pub fn load_meets(&mut self, hart: usize, line: u64, from: u64) -> Option<Met> {
        let mut all = self.levels.ahead.under_way.iter();
        let i = all.position(|p| p.line == line && p.waits(hart))?;
        let p = self.levels.ahead.under_way[i];
        let met = match p.known() {
            Some(comes) => {
                self.levels.ahead.under_way.remove(i);
                self.miss_ends(hart, comes.max(from));
                Met::Comes(comes)
            }
            None => {
                let own = p.first == Some(Side::Data) && p.hart as usize == hart;
                // The levels in front of the one to which it comes have given a register, too.
                let levels = match p.first {
                    Some(_) => 0,
                    None => p.level(),
                };
                let first = (!own).then_some(Side::Data);
                self.each_passed((first, 0..levels, hart), |_, m| m.goes_on(hart));
                let taken = ForLoad {
                    hart: hart as u32,
                    levels: levels as u32,
                    first: !own,
                };
                self.levels.ahead.under_way[i].taken_over(taken);
                Met::Asked(p.token())
            }
        };
        self.find_due();
        Some(met)
    }

    /// A load has met a line that is on its way.
    pub fn load_merged(&mut self) {
        self.levels.first[Side::Data as usize].stats.load_merges += 1;
    }

    /// Cycles have passed with a load under way.
    pub fn loads_passed(&mut self, cycles: u64) {
        self.levels.first[Side::Data as usize].stats.pending_cycles += cycles;
    }
}
