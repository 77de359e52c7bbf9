//! Numbers, exact.

/// A number that is not negative, as it was written: `12`, `7.25`, `1e6`, `1_000_000`, `0x40`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Number {
    /// Its digits as a whole number, and the power of ten that it is to be multiplied by.
    mantissa: u128,
    exponent: i32,
    /// The number in the form that [`f64`] reads; empty for hexadecimal ones.
    text: String,
}

/// Largest power of ten; no number needs more.
const MAX_POWER: i32 = 9999;

/// Why a number is no whole number of something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotWhole {
    /// It has a fraction.
    Fraction,
    /// It does not fit into 64 bits.
    Large,
}

/// Digits with single `_` between them, without the `_`, and what follows.
fn digits(text: &str, is: fn(&char) -> bool) -> Option<(String, &str)> {
    let mut found = String::new();
    let mut end = 0;
    let mut before = '_';
    for (i, c) in text.char_indices() {
        match c {
            '_' if before != '_' => {}
            c if is(&c) => {
                found.push(c);
                end = i + c.len_utf8();
            }
            _ => break,
        }
        before = c;
    }
    (!found.is_empty()).then(|| (found, &text[end..]))
}

/// Reads the number at the beginning of a text, behind blanks; returns it with what follows it and
/// further blanks. `None` if there is no number, or one of absurd length.
pub fn scan(text: &str) -> Option<(Number, &str)> {
    let text = text.trim_start();
    let hexadecimal = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    if let Some(rest) = hexadecimal {
        let (found, rest) = digits(rest, char::is_ascii_hexdigit)?;
        let number = Number {
            mantissa: u128::from_str_radix(&found, 16).ok()?,
            exponent: 0,
            text: String::new(),
        };
        return Some((number, rest.trim_start()));
    }
    let (whole, mut rest) = digits(text, char::is_ascii_digit)?;
    let mut written = whole.clone();
    let mut all = whole;
    let mut exponent = 0;
    if let Some(after) = rest.strip_prefix('.') {
        let (part, after) = digits(after, char::is_ascii_digit)?;
        exponent = -i32::try_from(part.len()).ok()?;
        written = format!("{written}.{part}");
        all += &part;
        rest = after;
    }
    // An `e` without digits is the beginning of a unit.
    let power = rest.strip_prefix(['e', 'E']).and_then(|after| {
        let (sign, after) = match after.strip_prefix('-') {
            Some(after) => (-1, after),
            None => (1, after.strip_prefix('+').unwrap_or(after)),
        };
        let (power, after) = digits(after, char::is_ascii_digit)?;
        let power = power.parse::<i32>().ok().filter(|p| *p <= MAX_POWER)?;
        Some((sign * power, after))
    });
    if let Some((power, after)) = power {
        exponent = exponent.checked_add(power)?;
        written = format!("{written}e{power}");
        rest = after;
    }
    let number = Number {
        mantissa: all.parse().ok()?,
        exponent,
        text: written,
    };
    Some((number, rest.trim_start()))
}

impl Number {
    /// The number as the nearest double.
    pub fn real(&self) -> f64 {
        if self.text.is_empty() {
            self.mantissa as f64
        } else {
            self.text.parse().unwrap_or(f64::INFINITY)
        }
    }

    /// The number times `scale`, which has to be a whole number.
    pub fn times(&self, scale: u64) -> Result<u64, NotWhole> {
        let (mut m, mut e) = (self.mantissa, self.exponent);
        if m == 0 {
            return Ok(0);
        }
        // Without zeros at its end the mantissa says itself whether there is a fraction.
        while m.is_multiple_of(10) {
            m /= 10;
            e += 1;
        }
        let ten = 10u128.checked_pow(e.unsigned_abs());
        let value = match (e < 0, ten) {
            (false, Some(ten)) => m
                .checked_mul(ten)
                .and_then(|v| v.checked_mul(scale.into()))
                .ok_or(NotWhole::Large)?,
            (false, None) => return Err(NotWhole::Large),
            (true, Some(ten)) => {
                let all = m.checked_mul(scale.into()).ok_or(NotWhole::Large)?;
                if all.is_multiple_of(ten) {
                    all / ten
                } else {
                    return Err(NotWhole::Fraction);
                }
            }
            (true, None) => return Err(NotWhole::Fraction),
        };
        u64::try_from(value).map_err(|_| NotWhole::Large)
    }

    /// The number as a fraction of whole numbers; `None` if they do not fit into 128 bits.
    pub fn fraction(&self) -> Option<(u128, u128)> {
        let ten = 10u128.checked_pow(self.exponent.unsigned_abs())?;
        if self.exponent < 0 {
            Some((self.mantissa, ten))
        } else {
            Some((self.mantissa.checked_mul(ten)?, 1))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_in_all_forms() {
        for (text, value, rest) in [
            ("12", 12, ""),
            (" 12 ns ", 12, "ns "),
            ("1e6", 1_000_000, ""),
            ("1.5e3KiB", 1500, "KiB"),
            ("25e-1e1", 0, "e1"),
            ("1_000_000", 1_000_000, ""),
            ("0x40", 64, ""),
            ("0XfF_00", 0xff00, ""),
            ("1E+2 s", 100, "s"),
            ("3e", 3, "e"),
            ("7__0", 7, "__0"),
            ("18446744073709551615", u64::MAX, ""),
            ("0e9999", 0, ""),
            ("1e10000", 1, "e10000"),
        ] {
            let (n, unit) = scan(text).unwrap_or_else(|| panic!("{text}"));
            let whole = n.times(1);
            match text {
                "25e-1e1" => assert_eq!(whole, Err(NotWhole::Fraction)),
                _ => assert_eq!(whole, Ok(value), "{text}"),
            }
            assert_eq!(unit, rest, "{text}");
        }
        for bad in [
            "", "x", "-1", "+1", ".5", "1.", "1.x", "0x", "0xg", "_1", "e5",
        ] {
            assert_eq!(scan(bad), None, "{bad}");
        }
    }

    #[test]
    fn what_is_not_whole_says_why() {
        let times = |text: &str, scale| scan(text).unwrap().0.times(scale);
        assert_eq!(times("0.5", 1000), Ok(500));
        assert_eq!(times("0.0005", 1000), Err(NotWhole::Fraction));
        assert_eq!(times("18446744073709551616", 1), Err(NotWhole::Large));
        assert_eq!(times("1e40", 1), Err(NotWhole::Large));
        assert_eq!(times("1e-40", 1), Err(NotWhole::Fraction));
        assert_eq!(times("1.50e1", 1), Ok(15));
    }

    proptest! {
        #[test]
        fn whole_numbers_are_themselves(n: u64) {
            for text in [n.to_string(), format!("{n:#x}"), format!("{n}.0"), format!("{n}0e-1")] {
                let (read, rest) = scan(&text).unwrap();
                prop_assert_eq!(read.times(1), Ok(n), "{}", text);
                prop_assert_eq!(rest, "");
            }
        }

        #[test]
        fn any_text_does_not_panic(text in ".*", scale: u64) {
            if let Some((n, _)) = scan(&text) {
                let _ = (n.times(scale), n.real(), n.fraction());
            }
        }

        #[test]
        fn near_numbers_do_not_panic(text in "[0-9_.eE+x-]{0,30}", scale: u64) {
            if let Some((n, _)) = scan(&text) {
                let _ = (n.times(scale), n.real(), n.fraction());
            }
        }
    }
}
