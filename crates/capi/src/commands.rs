//! The log of device commands.

use std::ffi::c_char;

use nagori_memtime::dram::Issued;
use nagori_memtime::Period;

use crate::pointers::put;
use crate::{failure, null, with, NagoriMemory, NAGORI_ERROR_ARGUMENT, NAGORI_OK};

/// A command that a controller sent to a device.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NagoriCommand {
    /// When it was sent, in ps.
    pub at: u64,
    /// When it was sent, in clocks of its channel.
    pub clock: u64,
    /// Its name with a zero byte: ACT, PRE, PREab, RD, WR, RDA, WRA, REFab, REFpb, PAUSE, RESUM.
    pub name: [c_char; 8],
    /// Channel, counted over all controllers of the memory.
    pub channel: u32,
    /// Rank.
    pub rank: u32,
    /// Bank group; 0 for commands that concern the rank.
    pub bank_group: u32,
    /// Bank in its group; 0 for commands that concern the rank.
    pub bank: u32,
    /// Row; 0 where there is none.
    pub row: u32,
    /// Column in bursts; 0 except for reads and writes.
    pub column: u32,
}

/// Commands that were fetched from the model.
#[derive(Default)]
pub(crate) struct Log {
    pub on: bool,
    waiting: Vec<Issued>,
    taken: usize,
}

impl Log {
    pub fn clear(&mut self) {
        self.waiting.clear();
        self.taken = 0;
    }
}

/// Keeps every device command from now on (`on` is 1), or stops that and discards the log (0).
/// NAGORI_ERROR_UNSUPPORTED for a memory without device commands ("xpoint").
///
/// # Safety
/// See the top of this header.
#[no_mangle]
pub unsafe extern "C" fn nagori_memory_set_command_log(memory: *mut NagoriMemory, on: u32) -> i32 {
    with(memory, |m| {
        if on > 1 {
            let e = format!("on = {on}: 0 or 1 is possible");
            return Err((NAGORI_ERROR_ARGUMENT, e));
        }
        m.model.set_command_log(on == 1).map_err(failure)?;
        m.log.on = on == 1;
        m.log.clear();
        Ok(NAGORI_OK)
    })
}

/// Moves up to `capacity` logged commands, in the order of their times, into `out` and sets
/// `*count`; what does not fit stays for the next call. None if nothing is logged.
///
/// # Safety
/// `out` has room for `capacity` commands.
#[no_mangle]
pub unsafe extern "C" fn nagori_memory_take_commands(
    memory: *mut NagoriMemory,
    out: *mut NagoriCommand,
    capacity: usize,
    count: *mut usize,
) -> i32 {
    with(memory, |m| {
        if capacity > 0 && (out.is_null() || !out.is_aligned()) {
            return Err(null("out"));
        }
        if count.is_null() || !count.is_aligned() {
            return Err(null("count"));
        }
        m.model.take_commands(&mut m.log.waiting);
        let parts = m.model.command_parts();
        let periods: Vec<Period> = parts
            .iter()
            .flat_map(|p| std::iter::repeat_n(p.clock, p.channels.into()))
            .collect();
        let waiting = &m.log.waiting[m.log.taken..];
        let n = capacity.min(waiting.len());
        for (i, c) in waiting[..n].iter().enumerate() {
            // SAFETY: not null and aligned (checked); i < capacity, the
            // length that the caller guarantees.
            unsafe { out.add(i).write(command(c, &periods)) };
        }
        m.log.taken += n;
        if m.log.taken == m.log.waiting.len() {
            m.log.clear();
        }
        // SAFETY: `put` checks null and alignment.
        unsafe { put(count, n) };
        Ok(NAGORI_OK)
    })
}

fn command(c: &Issued, periods: &[Period]) -> NagoriCommand {
    let mut name = [0; 8];
    let text = c.op.name().bytes().take(7);
    name.iter_mut()
        .zip(text)
        .for_each(|(n, b)| *n = b as c_char);
    let period = periods.get(usize::from(c.channel));
    NagoriCommand {
        at: period.map_or(0, |p| p.edge(c.clock).0),
        clock: c.clock,
        name,
        channel: c.channel.into(),
        rank: c.rank.into(),
        bank_group: c.bank_group.into(),
        bank: c.bank.into(),
        row: c.row,
        column: c.column,
    }
}
