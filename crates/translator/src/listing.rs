//! Blocks for human readers: guest instructions, and the code into which they are translated.
//! Nothing is executed.

use nagori_hart::world::World;
use nagori_hart::{Block, CodeCache, Hart, PreOp};

/// A block at an address.
#[derive(Clone, Debug)]
pub struct Listing {
    /// Address of the first instruction.
    pub pc: u64,
    /// The block: its length, its cycles, what is under way at its end.
    pub block: Block,
    /// Its instructions with their issue cycles.
    pub ops: Vec<PreOp>,
    /// Its code; `None` where there is no translator for this host.
    pub host: Option<HostCode>,
}

/// Code of a block. Addresses count from the first byte of the memory for code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostCode {
    /// Address of the first byte.
    pub start: u64,
    /// The code.
    pub bytes: Vec<u8>,
    /// The instructions to which it belongs: adjacent parts without gaps.
    pub parts: Vec<Part>,
    /// Entries: with all checks; no older results are under way; and the line is fetched.
    pub entries: [u64; 3],
    /// Addresses and names of what all blocks share.
    pub shared: Vec<(u64, &'static str)>,
}

/// A stretch of code that belongs together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Its bytes, counted from the block's first.
    pub range: std::ops::Range<usize>,
    /// The instruction that it belongs to; `None`: what the block does before the first.
    pub op: Option<usize>,
    /// Whether it stands out of the way, for rare cases.
    pub cold: bool,
}

/// Guest registers that live in registers of the host: both numbers. Empty where there is
/// no translator for this host.
pub fn registers() -> &'static [(u8, u8)] {
    #[cfg(target_arch = "x86_64")]
    return &crate::regs::PINNED;
    #[cfg(not(target_arch = "x86_64"))]
    &[]
}

/// Name of what stands at a distance from `rbp` in translated code.
pub fn place_name(distance: i32) -> Option<String> {
    #[cfg(target_arch = "x86_64")]
    return crate::regs::place_name(distance);
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = distance;
        None
    }
}

/// The block at `pc` in the mode of the hart; `None` if nothing can be fetched there.
/// With `host`, its code, too.
pub fn list<W: World>(
    hart: &mut Hart,
    code: &mut CodeCache,
    w: &mut W,
    pc: u64,
    host: bool,
) -> Result<Option<Listing>, crate::Error> {
    let Ok(id) = hart.find_block(code, w, pc) else {
        return Ok(None);
    };
    let block = *code.block(id);
    let ops = code.ops(&block).to_vec();
    let host = if host {
        host_code(hart, block, id, &ops)?
    } else {
        None
    };
    Ok(Some(Listing {
        pc,
        block,
        ops,
        host,
    }))
}

#[cfg(not(target_arch = "x86_64"))]
fn host_code(_: &Hart, _: Block, _: u32, _: &[PreOp]) -> Result<Option<HostCode>, crate::Error> {
    Err(crate::Error::Host)
}

#[cfg(target_arch = "x86_64")]
fn host_code(
    hart: &Hart,
    block: Block,
    id: u32,
    ops: &[PreOp],
) -> Result<Option<HostCode>, crate::Error> {
    use crate::arena::Arena;
    use crate::calls::Calls;
    use crate::emit::{self, Host, Setting};
    let config = hart.config();
    let mut arena = Arena::new(crate::Options::LEAST_BYTES)?;
    // The code is shown, and not run.
    let stubs = crate::stubs::write(&mut arena, &Calls::default(), hart.config())?;
    let start = arena.used();
    let setting = Setting {
        config,
        stubs: &stubs,
        host: Host::detect(),
        parallel: false,
        arena: 0,
        at: start,
        first_link: 0,
        marks: true,
    };
    let Some(out) = emit::block(&setting, block, id, ops, hart.timed()) else {
        return Ok(None);
    };
    let ends = out.marks.iter().skip(1).map(|m| m.at);
    let ends = ends.chain([out.code.len()]);
    let parts = out.marks.iter().zip(ends).map(|(m, end)| Part {
        range: m.at..end,
        op: m.op,
        cold: m.cold,
    });
    let at = |offset: usize| (start + offset) as u64;
    Ok(Some(HostCode {
        start: start as u64,
        parts: parts.filter(|p| !p.range.is_empty()).collect(),
        entries: [at(0), at(out.fetch), at(out.body)],
        shared: stubs.names().map(|(at, n)| (at as u64, n)).to_vec(),
        bytes: out.code,
    }))
}
