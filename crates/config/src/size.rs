//! Byte counts that may be written with a binary unit.

use schemars::{gen::SchemaGenerator, schema::Schema, JsonSchema};
use serde::{de, Deserialize, Deserializer, Serialize};
use std::fmt;

/// A number of bytes; in a file an integer, or a string such as `"4 GiB"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize)]
#[serde(transparent)]
pub struct Size(pub u64);

/// Names of the units in which sizes are written out, smallest first.
const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];

impl Size {
    /// Whether it is no byte.
    pub fn is_zero(&self) -> bool {
        self.0 == 0
    }

    /// Reads `"4 GiB"`, `"1.5MiB"`, `"4096"`, `"0x1000"` or `"1e6"`.
    pub fn parse(text: &str) -> Result<Size, String> {
        nagori_values::SIZE.read(text, Some(1)).map(Size)
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let zeros = match self.0 {
            0 => 0,
            n => (n.trailing_zeros() / 10).min(UNITS.len() as u32 - 1),
        };
        write!(f, "{} {}", self.0 >> (10 * zeros), UNITS[zeros as usize])
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Size, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Size;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number of bytes, or a string such as \"4 GiB\"")
            }
            fn visit_u64<E: de::Error>(self, v: u64) -> Result<Size, E> {
                Ok(Size(v))
            }
            fn visit_i64<E: de::Error>(self, v: i64) -> Result<Size, E> {
                u64::try_from(v)
                    .map(Size)
                    .map_err(|_| E::invalid_value(de::Unexpected::Signed(v), &self))
            }
            fn visit_str<E: de::Error>(self, v: &str) -> Result<Size, E> {
                Size::parse(v).map_err(E::custom)
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

impl JsonSchema for Size {
    fn schema_name() -> String {
        "Size".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let schema = serde_json::json!({
            "description": "A number of bytes, or a string with a binary unit such as \"4 GiB\".",
            "oneOf": [
                { "type": "integer", "minimum": 0 },
                { "type": "string", "pattern": "^[0-9][0-9_]*(\\.[0-9_]+)?([eE][+-]?[0-9]+)? *(B|KiB|MiB|GiB|TiB)?$" }
            ]
        });
        serde_json::from_value(schema).expect("a fixed schema")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes_are_read_with_units() {
        assert_eq!(Size::parse("4 GiB"), Ok(Size(4 << 30)));
        assert_eq!(Size::parse("512MiB"), Ok(Size(512 << 20)));
        assert_eq!(Size::parse("7"), Ok(Size(7)));
        assert_eq!(Size::parse("1.5 GiB"), Ok(Size(3 << 29)));
        for bad in [
            "",
            "GiB",
            "-1",
            "4 GB",
            "0.1 KiB",
            "99999999999 TiB",
            "4 gib",
            "4 GiB x",
        ] {
            assert!(Size::parse(bad).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn what_is_shown_can_be_read(bytes: u64) {
            prop_assert_eq!(Size::parse(&Size(bytes).to_string()), Ok(Size(bytes)));
        }

        #[test]
        fn any_text_does_not_panic(text in ".*") {
            let _ = Size::parse(&text);
        }
    }
}
