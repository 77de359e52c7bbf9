use super::*;
use proptest::prelude::*;

/// Remembers what it was told.
#[derive(Default)]
struct Port {
    method: u64,
    actions: Vec<StatsAction>,
}

impl ControlPort for Port {
    fn get(&mut self, reg: Reg) -> u64 {
        match reg {
            Reg::Fixed(Fixed::Method) => self.method,
            Reg::Fixed(Fixed::MemoryBase) => 0x8000,
            Reg::Fixed(Fixed::MemorySize) => 0x4000,
            Reg::Fixed(Fixed::NvmmBoundary) => 0xa000,
            Reg::Hart(h, HartStat::Cycles) => 0x1_0000_0000 + u64::from(h),
            _ => 0,
        }
    }

    fn set(&mut self, reg: Reg, value: u64) -> Result<(), ControlError> {
        match reg {
            Reg::Fixed(Fixed::Method) => {
                method_from_number(value).ok_or(ControlError::Value)?;
                self.method = value;
                Ok(())
            }
            _ => Err(ControlError::State),
        }
    }

    fn stats(&mut self, action: StatsAction) {
        self.actions.push(action);
    }
}

fn at(offset: u64, size: u8) -> ControlAccess {
    access(offset, size).unwrap()
}

fn offset(reg: Fixed) -> u64 {
    FIXED.iter().find(|r| r.reg == reg).unwrap().offset
}

#[test]
fn every_offset_and_name_is_used_once() {
    let offsets: std::collections::BTreeSet<u64> = FIXED.iter().map(|r| r.offset).collect();
    assert_eq!(offsets.len(), FIXED.len());
    let names: std::collections::BTreeSet<&str> = FIXED.iter().map(|r| r.name).collect();
    assert_eq!(names.len(), FIXED.len());
    for r in FIXED {
        assert!(r.offset % 8 == 0 && r.offset < table::REGION_BASE);
        assert_eq!(Reg::at(r.offset), Some(Reg::Fixed(r.reg)));
    }
    for (i, r) in MEM_STATS.iter().enumerate() {
        assert_eq!(r.offset, 8 * i as u64);
    }
    for (i, r) in HART_STATS.iter().enumerate() {
        assert_eq!(r.offset, 8 * i as u64);
    }
}

#[test]
fn arrays_are_found() {
    assert_eq!(Reg::at(0x1100), Some(Reg::Region(1, MemStat::Reads)));
    assert_eq!(Reg::at(0x1200), None);
    assert_eq!(Reg::at(0x2730), Some(Reg::Bank(7, MemStat::Activations)));
    assert_eq!(Reg::at(0x4308), Some(Reg::Hart(3, HartStat::Cycles)));
    assert_eq!(Reg::at(0x4f08), Some(Reg::Hart(15, HartStat::Cycles)));
    assert_eq!(Reg::at(0x5008), None, "there are sixteen");
    assert_eq!(
        Reg::at(0x8200),
        Some(Reg::LatencyCount {
            region: 0,
            write: true
        })
    );
    assert_eq!(
        Reg::at(0x8508),
        Some(Reg::LatencyBucket {
            region: 1,
            write: false,
            bucket: 1
        })
    );
    assert_eq!(
        Reg::at(0x85f8),
        Some(Reg::LatencyBucket {
            region: 1,
            write: false,
            bucket: 31
        })
    );
    assert_eq!(Reg::at(0x8010), None);
}

#[test]
fn halves_and_whole_registers() {
    let (mut block, mut port) = (ControlBlock::new(), Port::default());
    assert_eq!(block.read(at(0, 8), &mut port), MAGIC);
    assert_eq!(
        block.read(at(0, 4), &mut port),
        u64::from(u32::from_le_bytes(*b"NAGO"))
    );
    assert_eq!(
        block.read(at(4, 4), &mut port),
        u64::from(u32::from_le_bytes(*b"RI\0\0"))
    );
    assert_eq!(
        block.read(at(offset(Fixed::NvmmSize), 8), &mut port),
        0x2000
    );
    assert_eq!(
        block.read(at(0x410c, 4), &mut port),
        1,
        "upper half of the cycles of hart 1"
    );
    block.write(at(offset(Fixed::Method), 4), 3, &mut port);
    assert_eq!(port.method, 3);
    assert!(access(0, 2).is_err() && access(1, 1).is_err());
}

#[test]
fn rejected_writes_are_told_and_cleared() {
    let (mut block, mut port) = (ControlBlock::new(), Port::default());
    let method = offset(Fixed::Method);
    for (at, value, error) in [
        (at(method, 8), 4, ControlError::Value),
        (at(method + 4, 4), 0, ControlError::UpperHalf),
        (at(0, 8), 1, ControlError::ReadOnly),
        (at(0x4000, 8), 1, ControlError::ReadOnly),
        (at(0xfff8, 8), 1, ControlError::Unknown),
        (at(offset(Fixed::BaseRp), 8), 1, ControlError::State),
        (at(offset(Fixed::StatsControl), 8), 3, ControlError::Value),
    ] {
        block.write(at, value, &mut port);
        let mut read = |reg| block.read(access(offset(reg), 8).unwrap(), &mut port);
        assert_eq!(read(Fixed::Error), error as u64);
        assert_eq!(read(Fixed::ErrorOffset), at.offset);
        assert_eq!(read(Fixed::ErrorValue), value);
    }
    block.write(at(offset(Fixed::Error), 8), 1, &mut port);
    assert_eq!(block.read(at(offset(Fixed::Error), 8), &mut port), 0);
    assert_eq!(block.read(at(offset(Fixed::ErrorCount), 8), &mut port), 7);
    assert!(port.actions.is_empty());
}

#[test]
fn a_label_may_have_a_text() {
    let (mut block, mut port) = (ControlBlock::new(), Port::default());
    let mut write = |block: &mut ControlBlock, reg, bytes: &[u8; 8]| {
        block.write(at(offset(reg), 8), u64::from_le_bytes(*bytes), &mut port);
        block.read(at(offset(Fixed::Error), 8), &mut port)
    };
    let first = u64::from_le_bytes(*b"after wa");
    assert_eq!(write(&mut block, Fixed::Label, b"after wa"), 0);
    assert_eq!(block.label_text(first), None);
    assert_eq!(write(&mut block, Fixed::LabelText, b"after wa"), 0);
    assert_eq!(write(&mut block, Fixed::LabelText, b"rm-up\0\0\0"), 0);
    assert_eq!(block.label_text(first).as_deref(), Some("after warm-up"));
    // A marker has a value of its own.
    assert_eq!(block.label_text(7), None);
    let mut other = ControlBlock::new();
    other.load(&block.save()).unwrap();
    assert_eq!(other, block);
    for bad in [b"\0\0\0\0\0\0\0\0", b"a\0b\0\0\0\0\0", b"a\x07\0\0\0\0\0\0"] {
        assert_ne!(write(&mut block, Fixed::LabelText, bad), 0);
        block.write(at(offset(Fixed::Error), 8), 0, &mut Port::default());
    }
    assert_eq!(
        write(&mut block, Fixed::Label, &[7, 0, 0, 0, 0, 0, 0, 0]),
        0
    );
    assert_eq!(block.label_text(7), None);
    for _ in 0..8 {
        assert_eq!(write(&mut block, Fixed::LabelText, b"12345678"), 0);
    }
    assert_ne!(write(&mut block, Fixed::LabelText, b"9\0\0\0\0\0\0\0"), 0);
    assert_eq!(block.label_text(7).map(|t| t.len()), Some(64));
}

#[test]
fn statistics_are_reset_and_recorded_with_a_label() {
    let (mut block, mut port) = (ControlBlock::new(), Port::default());
    block.write(at(offset(Fixed::Label), 8), 42, &mut port);
    block.write(
        at(offset(Fixed::StatsControl), 8),
        StatsAction::DUMP,
        &mut port,
    );
    block.write(
        at(offset(Fixed::StatsControl), 4),
        StatsAction::RESET,
        &mut port,
    );
    assert_eq!(
        port.actions,
        [StatsAction::Dump { label: 42 }, StatsAction::Reset]
    );
    let mut other = ControlBlock::new();
    other.load(&block.save()).unwrap();
    assert_eq!(other, block);
    block.reset();
    assert_eq!(block, ControlBlock::new());
}

#[test]
fn numbers_of_methods() {
    for m in Method::ALL {
        assert_eq!(method_from_number(method_number(m)), Some(m));
    }
    assert_eq!(method_number(Method::Extended), 3);
    assert_eq!(method_from_number(4), None);
}

#[test]
fn header_and_documentation_are_up_to_date() {
    nagori_golden::golden(
        crate::kept("../../../../guest/include/nagori_regs.h"),
        &c_header(),
    );
    nagori_golden::golden(crate::kept("../../../../docs/registers.md"), &markdown());
    nagori_golden::golden(
        crate::kept("../../../../rtl/nvmm_regs_pkg.sv"),
        &sv_package(),
    );
    nagori_golden::golden(
        crate::kept("../../../../rtl/nvmm_regs_decode.sv"),
        &sv_decoder(),
    );
}

#[test]
fn the_header_is_c() {
    use std::io::Write as _;
    let Some(gcc) = crate::tool("riscv64-linux-gnu-gcc") else {
        return;
    };
    let mut child = std::process::Command::new(gcc)
        .args([
            "-Wall",
            "-Wextra",
            "-Werror",
            "-std=c99",
            "-fsyntax-only",
            "-xc",
            "-",
        ])
        .stdin(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let text = c_header()
        + "int main(void) { return NAGORI_CTL_HART(3) + NAGORI_HART_CYCLES == 0x4308; }\n";
    child
        .stdin
        .take()
        .unwrap()
        .write_all(text.as_bytes())
        .unwrap();
    assert!(child.wait().unwrap().success());
}

proptest! {
    #[test]
    fn any_access_is_answered(offset in 0u64..SIZE / 4, value: u64, wide: bool) {
        let (mut block, mut port) = (ControlBlock::new(), Port::default());
        let access = if wide { at((offset * 4) & !7, 8) } else { at(offset * 4, 4) };
        block.write(access, value, &mut port);
        let read = block.read(access, &mut port);
        prop_assert!(wide || read <= u64::from(u32::MAX));
    }
}
