//! Mapping of a byte offset in the memory to bank, row and column.

use serde::{Deserialize, Serialize};

use crate::error::Error;

/// A field of consecutive address bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct BitField {
    /// Lowest bit.
    pub low: u32,
    /// Number of bits, at least 1.
    pub bits: u32,
}

impl BitField {
    /// Bits `high..=low`.
    pub const fn new(high: u32, low: u32) -> BitField {
        BitField {
            low,
            bits: high - low + 1,
        }
    }

    /// The field's value in `addr`.
    #[inline]
    pub const fn of(self, addr: u64) -> u64 {
        (addr >> self.low) & ((1 << self.bits) - 1)
    }

    const fn mask(self) -> u64 {
        ((1 << self.bits) - 1) << self.low
    }
}

/// Positions of bank, row and column in the offset. Together they cover the bits from 0 up without
/// gap or overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct AddressMapping {
    /// Bank number.
    pub bank: BitField,
    /// Row number inside the bank.
    pub row: BitField,
    /// Byte inside the row.
    pub column: BitField,
}

/// A decoded address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Bank.
    pub bank: u8,
    /// Row.
    pub row: u32,
}

/// Most banks a controller of this crate handles.
pub const MAX_BANKS: usize = 16;

impl AddressMapping {
    /// Bank and row of `addr`. Bits above the mapping are ignored: callers
    /// check the capacity first.
    #[inline]
    pub const fn decode(&self, addr: u64) -> Place {
        Place {
            bank: self.bank.of(addr) as u8,
            row: self.row.of(addr) as u32,
        }
    }

    /// First byte of a row.
    pub const fn encode(&self, place: Place) -> u64 {
        ((place.bank as u64) << self.bank.low) | ((place.row as u64) << self.row.low)
    }

    /// Number of banks.
    pub const fn banks(&self) -> usize {
        1 << self.bank.bits
    }

    /// Bytes that the mapping can address.
    pub const fn span(&self) -> u64 {
        1 << (self.bank.bits + self.row.bits + self.column.bits)
    }

    /// Checks the fields.
    pub fn validate(&self) -> Result<(), Error> {
        let fail = |value: String, expected: &str| {
            Err(Error::Param {
                field: "mapping",
                value,
                expected: expected.to_owned(),
            })
        };
        let text = format!("{self:?}");
        let mut seen = 0u64;
        let mut total = 0;
        for f in [self.bank, self.row, self.column] {
            if f.bits == 0 || f.bits > 32 || f.low > 47 {
                return fail(text, "each field needs 1 to 32 bits below bit 48");
            }
            if seen & f.mask() != 0 {
                return fail(text, "bank, row and column must not share bits");
            }
            seen |= f.mask();
            total += f.bits;
        }
        if total > 48 || seen != (1 << total) - 1 {
            return fail(text, "bank, row and column must cover bits 0 up to the highest without gap, at most 48 bits");
        }
        if self.banks() > MAX_BANKS {
            return fail(text, "at most 4 bank bits (16 banks)");
        }
        if self.column.bits < 6 || self.column.low != 0 {
            return fail(
                text,
                "the column must hold the lowest bits, a 64-byte line at least",
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOARD: AddressMapping = AddressMapping {
        bank: BitField::new(31, 29),
        row: BitField::new(28, 13),
        column: BitField::new(12, 0),
    };

    #[test]
    fn decodes_and_encodes() {
        BOARD.validate().unwrap();
        assert_eq!(BOARD.span(), 1 << 32);
        let p = BOARD.decode(0x4000_0000 + 3 * 8192 + 17);
        assert_eq!(p, Place { bank: 2, row: 3 });
        assert_eq!(BOARD.encode(p), 0x4000_0000 + 3 * 8192);
        assert_eq!(
            BOARD.decode(0xffff_ffff),
            Place {
                bank: 7,
                row: 0xffff
            }
        );
    }

    #[test]
    fn bad_fields() {
        let mut m = BOARD;
        m.row = BitField::new(29, 13);
        assert!(m.validate().unwrap_err().to_string().contains("share"));
        m.row = BitField::new(27, 13);
        assert!(m.validate().unwrap_err().to_string().contains("gap"));
        m.row.bits = 0;
        assert!(m.validate().is_err());
        m = BOARD;
        m.bank = BitField { low: 60, bits: 9 };
        assert!(m.validate().is_err());
    }
}
