//! What the front end's decoder knows of an instruction: whether and how it transfers control. It looks at
//! fewer bits than the pipeline, so that words that are no instructions may be jumps to it.

use nagori_isa::decode;

/// x1 and x5 hold return addresses by convention.
pub fn is_link(r: u8) -> bool {
    r == 1 || r == 5
}

/// What an instruction is to the front end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// A conditional branch.
    Branch,
    /// A direct jump, which may be a call.
    Jump(bool),
    /// An indirect jump, which may be a call.
    Indirect(bool),
    Return,
    Other,
}

fn indirect(rd: u8, rs1: u8) -> Kind {
    match (is_link(rd), is_link(rs1)) {
        (false, true) => Kind::Return,
        (call, _) => Kind::Indirect(call),
    }
}

/// What an instruction is. Of one of 32 bits the lower 16 tell whether it is a branch, a jump or neither.
pub(crate) fn kind(word: u32) -> Kind {
    let reg = |at: u32| (word >> at & 31) as u8;
    match (word & 3, word >> 13 & 7) {
        (3, _) => match word & 0x7f {
            0x63 => Kind::Branch,
            0x67 => indirect(reg(7), reg(15)),
            0x6f => Kind::Jump(is_link(reg(7))),
            _ => Kind::Other,
        },
        (1, 6 | 7) => Kind::Branch,
        (1, 5) => Kind::Jump(false),
        // c.jr and c.jalr.
        (2, 4) if word & 0x7c == 0 && reg(7) != 0 => indirect((word >> 12 & 1) as u8, reg(7)),
        _ => Kind::Other,
    }
}

/// Bits of a branch of 32 bits that say what it compares. Without them, all are `beq`, whose distance is decoded
/// alike; some with them are no instructions.
const COMPARISON: u32 = 7 << 12;

/// How far a branch or direct jump leads, to be added to its address.
pub(crate) fn distance(word: u32) -> u64 {
    let word = match word & 0x7f {
        0x63 => word & !COMPARISON,
        _ => word,
    };
    decode(word).map_or(0, |i| i.imm as i64 as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nagori_isa::{Format, Op};
    use proptest::prelude::*;

    /// What the decoder of the core finds.
    fn decoded(word: u32) -> Kind {
        let Some(i) = decode(word) else {
            return Kind::Other;
        };
        match (i.op, i.op.info().format) {
            (_, Format::B) => Kind::Branch,
            (Op::Jal, _) => Kind::Jump(is_link(i.rd)),
            (Op::Jalr, _) => indirect(i.rd, i.rs1),
            _ => Kind::Other,
        }
    }

    proptest! {
        #[test]
        fn jumps_are_what_the_decoder_says(word: u32, opcode in 0..3usize) {
            let word = word & !0x7f | [0x63, 0x67, 0x6f][opcode];
            // Some encodings are no instructions, which the front end does not see.
            if let Some(i) = decode(word) {
                prop_assert_eq!(kind(word), decoded(word));
                if i.op != Op::Jalr {
                    prop_assert_eq!(distance(word), i.imm as i64 as u64);
                }
            }
        }
    }

    #[test]
    fn compressed_jumps_are_what_the_decoder_says() {
        for word in (0..=0xffffu32).filter(|w| w & 3 != 3) {
            if let Some(i) = decode(word) {
                assert_eq!(kind(word), decoded(word), "{word:#x}");
                if let Kind::Branch | Kind::Jump(_) = kind(word) {
                    assert_eq!(distance(word), i.imm as i64 as u64, "{word:#x}");
                }
            }
        }
    }

    #[test]
    fn the_lower_half_of_an_instruction_tells_jumps() {
        for (half, expected) in [
            (0x0063, Kind::Branch),         // beq x0, x0, 0
            (0x006f, Kind::Jump(false)),    // jal x0, 0
            (0x8067, Kind::Return),         // jalr x0, 0(x1), of which this is the lower half
            (0x0013, Kind::Other),          // addi
            (0xc091, Kind::Branch),         // c.beqz
            (0xe091, Kind::Branch),         // c.bnez
            (0xa001, Kind::Jump(false)),    // c.j
            (0x8082, Kind::Return),         // c.jr ra
            (0x9082, Kind::Indirect(true)), // c.jalr ra
            (0x808a, Kind::Other),          // c.mv
            (0x9002, Kind::Other),          // c.ebreak
            (0x0001, Kind::Other),          // c.nop
        ] {
            assert_eq!(kind(half), expected, "{half:#x}");
        }
    }
}
