//! The RISC-V instruction set as data: one table of instructions, and the decoder, encoder and
//! disassembler that read it.
//!
//! ```
//! let inst = nagori_isa::decode(0x0015_0513).unwrap();
//! assert_eq!(inst.op, nagori_isa::Op::Addi);
//! assert_eq!((inst.rd, inst.rs1, inst.imm), (10, 10, 1));
//! assert_eq!(nagori_isa::disassemble(&inst, 0x8000_0000), "addi a0,a0,1");
//! assert_eq!(nagori_isa::encode(&inst), Some(0x0015_0513));
//! ```

mod compressed;
pub mod csr;
mod decode;
mod disasm;
mod encode;
mod ext;
mod format;
mod inst;
mod ops;
pub mod reg;

pub use decode::{decode, decode_with};
pub use disasm::disassemble;
pub use encode::encode;
pub use ext::{Ext, Extensions};
pub use format::Format;
pub use inst::{inst_len, Inst};
pub use ops::{Op, OpInfo, ALL, OPS};
