//! Frequencies that need not be whole numbers of Hz.

use nagori_memtime::period::{frequency, Period};
use schemars::{gen::SchemaGenerator, schema::Schema, JsonSchema};
use serde::{de, Deserialize, Deserializer, Serialize, Serializer};
use std::cmp::Ordering;
use std::fmt;

/// A frequency, exact; in a file a number of Hz, or text such as `"3 GHz"`, `"66.666666 MHz"`
/// or `"200/3 MHz"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frequency {
    num: u64,
    den: u64,
}

impl Frequency {
    /// A whole number of Hz.
    pub const fn hz(hz: u64) -> Frequency {
        Frequency { num: hz, den: 1 }
    }

    /// Reads text.
    pub fn parse(text: &str) -> Result<Frequency, String> {
        let plain = || nagori_values::count(text, ..).ok().map(|hz| (hz, 1));
        let (num, den) = frequency(text).or_else(plain).ok_or_else(|| {
            format!("`{text}` is no frequency: expected a number of Hz, or a number, decimal or fraction with one of \
                Hz, kHz, MHz, GHz, such as \"200/3 MHz\"")
        })?;
        Ok(Frequency { num, den })
    }

    /// Its period; `None` unless it is from 1 Hz to 1 THz.
    pub fn period(self) -> Option<Period> {
        let at_least_one = self.num >= self.den;
        at_least_one
            .then(|| Period::of_hz(self.num, self.den))
            .flatten()
    }

    /// The nearest whole number of Hz, for interfaces that only take whole numbers.
    pub fn nearest_hz(self) -> u64 {
        let (num, den) = (u128::from(self.num), u128::from(self.den));
        ((num + den / 2) / den) as u64
    }
}

impl Ord for Frequency {
    fn cmp(&self, o: &Frequency) -> Ordering {
        let wide = u128::from;
        (wide(self.num) * wide(o.den)).cmp(&(wide(o.num) * wide(self.den)))
    }
}

impl PartialOrd for Frequency {
    fn partial_cmp(&self, o: &Frequency) -> Option<Ordering> {
        Some(self.cmp(o))
    }
}

impl fmt::Display for Frequency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.den {
            1 => write!(f, "{} Hz", self.num),
            den => write!(f, "{}/{den} Hz", self.num),
        }
    }
}

impl Serialize for Frequency {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match self.den {
            1 => s.serialize_u64(self.num),
            _ => s.collect_str(self),
        }
    }
}

impl<'de> Deserialize<'de> for Frequency {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Frequency, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Frequency;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a whole number of Hz, or text such as \"3 GHz\" or \"200/3 MHz\"")
            }
            fn visit_u64<E: de::Error>(self, v: u64) -> Result<Frequency, E> {
                Ok(Frequency::hz(v))
            }
            fn visit_i64<E: de::Error>(self, v: i64) -> Result<Frequency, E> {
                u64::try_from(v)
                    .map(Frequency::hz)
                    .map_err(|_| E::invalid_value(de::Unexpected::Signed(v), &self))
            }
            fn visit_str<E: de::Error>(self, v: &str) -> Result<Frequency, E> {
                Frequency::parse(v).map_err(E::custom)
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

impl JsonSchema for Frequency {
    fn schema_name() -> String {
        "Frequency".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let schema = serde_json::json!({
            "description": "A whole number of Hz, or a decimal or fraction with its unit, such as \"3 GHz\" or \"200/3 \
                MHz\".",
            "oneOf": [
                { "type": "integer", "minimum": 1 },
                { "type": "string", "pattern": "^[0-9.]+(/[0-9.]+)? *(Hz|kHz|MHz|GHz|THz)$" }
            ]
        });
        serde_json::from_value(schema).expect("a fixed schema")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_numbers() {
        for (text, shown, nearest) in [
            ("50000000", "50000000 Hz", 50_000_000),
            ("3 GHz", "3000000000 Hz", 3_000_000_000),
            ("66.666666 MHz", "66666666 Hz", 66_666_666),
            ("200/3 MHz", "200000000/3 Hz", 66_666_667),
            ("1/3 Hz", "1/3 Hz", 0),
        ] {
            let f = Frequency::parse(text).unwrap();
            assert_eq!((f.to_string().as_str(), f.nearest_hz()), (shown, nearest));
            let json = serde_json::to_string(&f).unwrap();
            assert_eq!(serde_json::from_str::<Frequency>(&json).unwrap(), f);
        }
        assert!(Frequency::parse("1/3 Hz").unwrap().period().is_none());
        assert!(Frequency::hz(0).period().is_none());
        assert!(Frequency::parse("2 THz").unwrap().period().is_none());
        for bad in ["", "fast", "5 ns", "1/0 MHz", "-3", "3 ghz"] {
            assert!(Frequency::parse(bad).is_err(), "{bad}");
        }
        assert!(serde_json::from_str::<Frequency>("-1").is_err());
        assert!(serde_json::from_str::<Frequency>("66666666.7").is_err());
    }
}
