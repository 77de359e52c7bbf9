//! `nagori disasm`: blocks with their cycles, and the translator's code for them.

use anyhow::{bail, Context};
use clap::Args;
use iced_x86::{
    Decoder, DecoderOptions, Formatter, Instruction, NasmFormatter, OpKind, Register,
    SymbolResolver, SymbolResult,
};
use nagori_hart::flat::Flat;
use nagori_hart::pipeline::{divides_fp, is_long, pending_pairs};
use nagori_hart::world::Bus;
use nagori_hart::{CodeCache, Hart, HartConfig, PreOp};
use nagori_isa::reg::{f_name, x_name};
use nagori_isa::{decode_with, disassemble, inst_len};
use nagori_platform::loader::{self, FileData, RamRange, Role, Segment, Symbols};
use nagori_terminal::args::MachineArgs;
use nagori_terminal::numbers::{count, size};
use nagori_terminal::output::{self, Exit, SUCCESS};
use nagori_translator::listing::{self, HostCode, Listing};
use serde_json::{json, Value};
use std::fmt::Write;
use std::io::Read;
use std::path::Path;
use std::path::PathBuf;

const DISASM_EXAMPLES: &str = "\
Examples:
  nagori disasm program.elf
  nagori disasm --at main --blocks 8 program.elf
  nagori disasm --at 0x80000040 --functional --host program.elf
      What the translator makes of the block, beside it
  echo 00b50533 0000006f | nagori disasm --host -";

/// Show blocks of a program: instructions, their cycles, and the host's code for them.
///
/// A block is a run of instructions up to the next jump: what the translator translates at once.
/// With timing every instruction has the cycle in which it is issued, counted from the block's
/// start, if all its loads and fetches hit. Nothing is executed.
#[derive(Debug, Args)]
#[command(after_long_help = DISASM_EXAMPLES)]
pub struct DisasmArgs {
    #[command(flatten)]
    pub machine: MachineArgs,
    /// The program: a static riscv64 ELF; or `-`: instructions as hexadecimal words from stdin,
    /// of 4 digits (compressed) or 8, for the start of memory.
    #[arg(value_name = "ELF|-")]
    pub program: PathBuf,
    /// Where the block starts: a symbol, symbol+offset, or an address [default: the entry].
    #[arg(long, value_name = "SYMBOL|ADDRESS")]
    pub at: Option<String>,
    /// How many blocks, one behind the other in memory.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = count::<u32>(1..))]
    pub blocks: u32,
    /// With cycles, as in timed mode; this is the default.
    #[arg(long, conflicts_with = "functional")]
    pub timed: bool,
    /// As in functional mode: without cycles.
    #[arg(long)]
    pub functional: bool,
    /// Show the translator's code for this host beside the instructions.
    #[arg(long)]
    pub host: bool,
    /// A list of blocks as JSON.
    #[arg(long)]
    pub json: bool,
}

const PAGE: u64 = 4096;

/// Runs the command.
pub fn command(a: &DisasmArgs) -> anyhow::Result<Exit> {
    let description = a.machine.resolve(&[])?;
    let config = description.hart()?;
    let memory = &description.config.memory;
    let range = RamRange {
        start: memory.base,
        end: memory.end(),
    };
    let program = if a.program == Path::new("-") {
        words(range)?
    } else {
        file(&a.program, range)?
    };
    let start = match &a.at {
        Some(text) => place(text, &program.symbols)?,
        None => program.entry,
    };
    let mut guest = Guest::new(program, config, !a.functional)?;
    guest.check(start)?;
    let mut blocks = Vec::new();
    let mut pc = start;
    while blocks.len() < a.blocks as usize && guest.check(pc).is_ok() {
        let block = guest.block(pc, a.host)?;
        pc += block.listing.block.bytes as u64;
        blocks.push(block);
    }
    if a.json {
        let list: Vec<Value> = blocks.iter().map(Shown::json).collect();
        output::print_json(&json!(list))?;
    } else {
        let texts: Vec<String> = blocks.iter().map(Shown::text).collect();
        output::print(&texts.join("\n"))?;
    }
    Ok(SUCCESS)
}

/// A program and its place in memory.
struct Program {
    segments: Vec<Segment>,
    entry: u64,
    symbols: Symbols,
}

fn file(path: &Path, range: RamRange) -> anyhow::Result<Program> {
    let file = FileData::read(Role::Program, path)?;
    let elf = loader::load_elf(&file, range)?;
    Ok(Program {
        entry: elf.plan.entry.pc,
        segments: elf.plan.segments,
        symbols: elf.symbols,
    })
}

/// Instructions from stdin, for the start of memory.
fn words(range: RamRange) -> anyhow::Result<Program> {
    let mut text = String::new();
    std::io::stdin()
        .read_to_string(&mut text)
        .context("cannot read instructions from stdin")?;
    let bytes = parse_words(&text)?;
    if bytes.is_empty() {
        bail!("stdin: no instructions (expected hexadecimal words, such as 00b50533)");
    }
    let memory_size = bytes.len() as u64;
    let segment = Segment {
        role: Role::Program,
        addr: range.start,
        bytes,
        memory_size,
    };
    Ok(Program {
        segments: vec![segment],
        entry: range.start,
        symbols: Symbols::default(),
    })
}

fn parse_words(text: &str) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    for word in text.split_whitespace() {
        let digits = word.strip_prefix("0x").unwrap_or(word);
        let wrong = || {
            format!("stdin: {word:?} is no instruction: expected 4 hexadecimal digits (compressed) or 8")
        };
        let value = u32::from_str_radix(digits, 16).ok();
        let value = value
            .filter(|_| !digits.starts_with('+'))
            .with_context(wrong)?;
        match (digits.len(), inst_len(value as u16)) {
            (4, 2) => bytes.extend((value as u16).to_le_bytes()),
            (8, 4) => bytes.extend(value.to_le_bytes()),
            (4, _) => bail!("stdin: {word:?} is half of an instruction of 8 digits"),
            (8, _) => bail!("stdin: {word:?} is a compressed instruction and more: give the halves on their own, the \
                lower one first"),
            _ => bail!(wrong()),
        }
    }
    Ok(bytes)
}

/// The address that a symbol, symbol+offset or number names.
fn place(text: &str, symbols: &Symbols) -> anyhow::Result<u64> {
    let number = |t: &str| size(t).ok();
    let parts = match text.split_once('+') {
        Some((name, more)) => symbols.address(name).zip(number(more)),
        None => symbols.address(text).or(number(text)).map(|a| (a, 0)),
    };
    parts
        .and_then(|(start, more)| start.checked_add(more))
        .with_context(|| {
            format!(
                "--at {text}: there is no such symbol, and it is no address (such as 0x80000000)"
            )
        })
}

/// A hart with a program in memory that is never run.
struct Guest {
    hart: Hart,
    code: CodeCache,
    world: Flat,
    program: Program,
}

/// A block with the details that are shown.
struct Shown {
    listing: Listing,
    timed: bool,
    symbol: Option<String>,
    lines: Vec<Line>,
    host: Vec<HostPart>,
}

/// An instruction of the guest.
struct Line {
    pc: u64,
    word: String,
    text: String,
    /// Cycle of its issue, and cycles until the next instruction's.
    cycle: u32,
    cycles: u32,
    /// The register of a multiplication, division or root, numbered as the scoreboard does.
    long: Option<u8>,
}

struct HostPart {
    op: Option<usize>,
    cold: bool,
    lines: Vec<HostLine>,
}

/// An instruction of the host.
struct HostLine {
    offset: u64,
    bytes: String,
    text: String,
}

impl Guest {
    fn new(program: Program, config: HartConfig, timed: bool) -> anyhow::Result<Guest> {
        let ends = program.segments.iter().map(|s| s.addr + s.memory_size);
        let starts = program.segments.iter().map(|s| s.addr);
        let base = starts.min().unwrap_or(0) & !(PAGE - 1);
        let end = ends.max().unwrap_or(0).next_multiple_of(PAGE);
        let world = Flat::new(base, end - base, 1, &config)?;
        for s in &program.segments {
            let inside = world.ram().write_bytes(s.addr - base, &s.bytes);
            inside.context("the program does not fit into its own memory")?;
        }
        let mut hart = Hart::new(0, config)?;
        hart.set_timed(timed);
        Ok(Guest {
            hart,
            code: CodeCache::default(),
            world,
            program,
        })
    }

    /// Whether there can be an instruction.
    fn check(&self, pc: u64) -> anyhow::Result<()> {
        if !pc.is_multiple_of(2) {
            bail!("{pc:#x} is odd: instructions are at even addresses");
        }
        let holds = |s: &Segment| (s.addr..s.addr + s.memory_size).contains(&pc);
        if !self.program.segments.iter().any(holds) {
            let all = self.program.segments.iter();
            let all = all.map(|s| format!("{:#x}..{:#x}", s.addr, s.addr + s.memory_size));
            let all = all.collect::<Vec<_>>().join(", ");
            bail!("{pc:#x} is not in the program, which has {all}");
        }
        Ok(())
    }

    fn block(&mut self, pc: u64, host: bool) -> anyhow::Result<Shown> {
        let found = listing::list(&mut self.hart, &mut self.code, &mut self.world, pc, host)?;
        let listing = found.with_context(|| format!("the instruction at {pc:#x} is cut off"))?;
        let next = |i: usize| match listing.ops.get(i + 1) {
            Some(p) => p.cost as u32,
            None => listing.block.cost,
        };
        let ops = listing.ops.iter().enumerate();
        let lines = ops.map(|(i, p)| self.line(pc, p, next(i))).collect();
        let host = listing.host.as_ref().map(parts).unwrap_or_default();
        let symbol = self.program.symbols.lookup(pc);
        let symbol = symbol.map(|(name, more)| match more {
            0 => name.to_string(),
            _ => format!("{name}+{more:#x}"),
        });
        Ok(Shown {
            timed: self.hart.timed(),
            symbol,
            lines,
            host,
            listing,
        })
    }

    fn line(&self, start: u64, p: &PreOp, next: u32) -> Line {
        let pc = start + p.off as u64;
        let half = |at: u64| {
            let offset = at.wrapping_sub(self.world.ram_base());
            self.world.ram().read_u16(offset).unwrap_or(0) as u32
        };
        let low = half(pc);
        let long = inst_len(low as u16) == 4;
        let word = if long { low | half(pc + 2) << 16 } else { low };
        let text = match decode_with(self.hart.config().isa, word) {
            Some(i) => disassemble(&i, pc),
            None => "(illegal)".into(),
        };
        Line {
            pc,
            word: if long {
                format!("{word:08x}")
            } else {
                format!("{word:04x}")
            },
            text,
            cycle: p.cost as u32,
            cycles: next.saturating_sub(p.cost as u32),
            long: match p.op {
                op if is_long(op) => Some(p.rd & 31),
                op if divides_fp(op) => Some(p.rd & 31 | 32),
                _ => None,
            },
        }
    }
}

/// Symbolic names in host code.
struct Names(HostCode);

impl SymbolResolver for Names {
    fn symbol(
        &mut self,
        i: &Instruction,
        _: u32,
        operand: Option<u32>,
        address: u64,
        _: u32,
    ) -> Option<SymbolResult<'_>> {
        let kind = i.op_kind(operand?);
        let name = if kind == OpKind::NearBranch64 {
            let inside = self.0.start..self.0.start + self.0.bytes.len() as u64;
            let shared = self.0.shared.iter().find(|s| s.0 == address);
            match shared {
                Some((_, name)) => name.to_string(),
                None if inside.contains(&address) => format!("+{:x}", address - self.0.start),
                None => return None,
            }
        } else if kind == OpKind::Memory && i.memory_base() == Register::RBP {
            listing::place_name(address as i32)?
        } else {
            return None;
        };
        Some(SymbolResult::with_string(address, name))
    }
}

/// The host code as text.
fn parts(code: &HostCode) -> Vec<HostPart> {
    let names = Box::new(Names(code.clone()));
    let mut formatter = NasmFormatter::with_options(Some(names), None);
    let options = formatter.options_mut();
    options.set_space_after_operand_separator(true);
    options.set_show_branch_size(false);
    options.set_rip_relative_addresses(true);
    options.set_hex_prefix("0x");
    options.set_hex_suffix("");
    options.set_small_hex_numbers_in_decimal(true);
    let mut out = Vec::new();
    for part in &code.parts {
        let bytes = &code.bytes[part.range.clone()];
        let ip = code.start + part.range.start as u64;
        let mut lines = Vec::new();
        for i in &mut Decoder::with_ip(64, bytes, ip, DecoderOptions::NONE) {
            let mut text = String::new();
            formatter.format(&i, &mut text);
            let at = (i.ip() - ip) as usize;
            let raw = &bytes[at..at + i.len()];
            lines.push(HostLine {
                offset: i.ip() - code.start,
                bytes: raw.iter().map(|b| format!("{b:02x}")).collect(),
                text,
            });
        }
        out.push(HostPart {
            op: part.op,
            cold: part.cold,
            lines,
        });
    }
    out
}

/// A register or unit by its number in the scoreboard.
fn scoreboard_name(r: u8) -> String {
    let name = match r {
        0..32 => x_name(r),
        32..64 => f_name(r - 32),
        _ => Some("the multiplier"),
    };
    name.unwrap_or("?").into()
}

impl Shown {
    /// What is under way at the end, and for how many cycles if the operands do not decide that.
    fn pending(&self) -> Vec<(String, Option<u32>)> {
        let b = &self.listing.block;
        let pairs = pending_pairs(b.pending).filter(|p| p.1 > 0);
        let known = pairs.map(|(r, n)| (scoreboard_name(r), Some(n)));
        let open = |half: u32, fp: bool| {
            let mut all = self.lines.iter().rev().filter_map(|l| l.long);
            let last = all.find(|r| (*r >= 32) == fp);
            last.filter(|_| b.open & half != 0)
                .map(|r| (scoreboard_name(r), None))
        };
        let open = [open(0xffff, false), open(0xffff << 16, true)];
        known.chain(open.into_iter().flatten()).collect()
    }

    fn text(&self) -> String {
        let b = &self.listing.block;
        let symbol = match &self.symbol {
            Some(s) => format!(" <{s}>"),
            None => String::new(),
        };
        let cost = if self.timed {
            format!("timed, {} cycles", b.cost)
        } else {
            "functional".into()
        };
        let mut out = format!(
            "block {:#x}{symbol}: {cost}, {} instructions, {} bytes",
            self.listing.pc, b.count, b.bytes
        );
        if let Some(h) = &self.listing.host {
            // Writing to a string does not fail.
            let _ = write!(out, "; {} bytes of host code", h.bytes.len());
        }
        out.push('\n');
        let left: Vec<String> = self.lines.iter().map(|l| self.left(l)).collect();
        if self.listing.host.is_none() {
            for l in left {
                let _ = writeln!(out, "{l}");
            }
        } else {
            self.beside(&mut out, &left);
        }
        for (register, cycles) in self.pending() {
            let cycles = match cycles {
                Some(n) => format!("{n} cycles more"),
                None => "more cycles, by the operands".into(),
            };
            let _ = writeln!(
                out,
                "; behind the last instruction, {register} takes {cycles}"
            );
        }
        out
    }

    fn left(&self, l: &Line) -> String {
        let cycle = if self.timed {
            format!("{:5}  ", l.cycle)
        } else {
            "  ".into()
        };
        format!("{cycle}{:8x}  {:8}  {}", l.pc, l.word, l.text)
    }

    fn beside(&self, out: &mut String, left: &[String]) {
        let width = left.iter().map(|l| l.len()).max().unwrap_or(0).max(40);
        let mut rows = |label: &str, lines: &[&HostLine]| {
            let mut label = label;
            for l in lines {
                let _ = writeln!(out, "{label:width$} | {:>4x}  {}", l.offset, l.text);
                label = "";
            }
            if lines.is_empty() {
                let _ = writeln!(out, "{label:width$} |");
            }
        };
        let find = |op: Option<usize>| {
            let of = self.host.iter().filter(move |p| !p.cold && p.op == op);
            of.flat_map(|p| p.lines.iter()).collect::<Vec<_>>()
        };
        if !find(None).is_empty() {
            rows("; the block's start", &find(None));
        }
        for (i, label) in left.iter().enumerate() {
            rows(label, &find(Some(i)));
        }
        for part in self.host.iter().filter(|p| p.cold) {
            let label = match part.op {
                Some(i) => format!("; rare, for {:x}", self.lines[i].pc),
                None => "; rare, for the block's start".into(),
            };
            rows(&label, &part.lines.iter().collect::<Vec<_>>());
        }
        let registers = listing::registers().iter().map(|&(g, h)| {
            let names = ["rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi"];
            let host = names
                .get(h as usize)
                .map_or(format!("r{h}"), |n| n.to_string());
            format!("{} {host}", x_name(g).unwrap_or("?"))
        });
        let registers = registers.collect::<Vec<_>>().join(", ");
        let _ = writeln!(
            out,
            "; {registers}; r14 memory, r15 cycle less the end of the budget"
        );
    }

    fn json(&self) -> Value {
        let b = &self.listing.block;
        let part = |p: &HostPart| {
            let line = |l: &HostLine| json!({"offset": l.offset, "bytes": l.bytes, "text": l.text});
            json!({
                "instruction": p.op,
                "rare": p.cold,
                "code": p.lines.iter().map(line).collect::<Vec<_>>(),
            })
        };
        let instruction = |l: &Line| {
            let mut v = json!({"pc": l.pc, "word": l.word, "text": l.text});
            if self.timed {
                v["cycle"] = json!(l.cycle);
                v["cycles"] = json!(l.cycles);
            }
            v
        };
        let mut v = json!({
            "pc": self.listing.pc,
            "symbol": self.symbol,
            "timed": self.timed,
            "bytes": b.bytes,
            "instructions": self.lines.iter().map(instruction).collect::<Vec<_>>(),
        });
        if self.timed {
            let pending = self.pending().into_iter();
            let pending = pending.map(|(r, n)| json!({"register": r, "cycles": n}));
            v["cycles"] = json!(b.cost);
            v["pending"] = json!(pending.collect::<Vec<_>>());
        }
        if let Some(h) = &self.listing.host {
            v["host"] = json!({
                "bytes": h.bytes.len(),
                "entries": {
                    "all_checks": h.entries[0] - h.start,
                    "nothing_pending": h.entries[1] - h.start,
                    "line_fetched": h.entries[2] - h.start,
                },
                "parts": self.host.iter().map(part).collect::<Vec<_>>(),
            });
        }
        v
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_as_long_as_their_instructions() {
        assert_eq!(
            parse_words("0x00b50533 4505\n").unwrap(),
            [0x33, 0x05, 0xb5, 0x00, 0x05, 0x45]
        );
        for (text, what) in [
            ("00b5053", "expected 4"),
            ("hello", "expected 4"),
            ("+0b50533", "expected 4"),
            ("0533", "half of an instruction"),
            ("00004505", "the halves on their own"),
        ] {
            let e = parse_words(text).unwrap_err().to_string();
            assert!(e.contains(what), "{text}: {e}");
        }
    }
}
