//! What harts have stored, and holds back from memory in buffers: when it is made visible at once, and when it is
//! lost.

use super::Machine;

impl Machine {
    /// Whether what harts have stored was due in a cache or in memory by now, and gets there only when the machine goes
    /// on. A power cut carries that out first. An image of NVMM has the state before, which is as good: no fence has
    /// waited for it yet.
    pub fn stores_due(&self) -> bool {
        let now = self.harts.iter().map(|h| h.state.cycle).max().unwrap_or(0);
        self.world.timed
            && self.world.coherence.has_stores()
            && self.world.coherence.next_due() <= now
    }

    /// Lets everything take effect that was due in the caches up to now, also where a turn is not over: before a power
    /// cut takes what is still in buffers of stores.
    pub(super) fn settle_stores(&mut self) {
        if !self.world.timed || !self.world.coherence.has_stores() {
            return;
        }
        let now = self.harts.iter().map(|h| h.state.cycle).max().unwrap_or(0);
        let mut roster = std::mem::take(&mut self.roster);
        roster.look(&self.harts);
        loop {
            self.settle_memory();
            if self.world.coherence.next_due() > now {
                break;
            }
            self.settle_due(now, &mut roster);
        }
        self.roster = roster;
    }

    /// What harts have stored and is in no cache yet gets to memory, for changes of mode.
    pub(super) fn write_stored(&mut self) {
        let w = &mut *self.world;
        for (line, bytes) in w.coherence.take_stored() {
            for (at, size, value) in bytes.pieces() {
                let value = &value.to_le_bytes()[..usize::from(size)];
                // Lines are in memory.
                let _ = w.ram.write_bytes(line - w.ram_base + at, value);
            }
            w.memory_written(line, 64);
        }
    }

    /// Tells the harts that the host wrote guest memory.
    pub fn memory_written(&mut self, paddr: u64, len: u64) {
        self.world.coherence.forget_stored(paddr, len);
        self.world.memory_written(paddr, len);
    }
}
