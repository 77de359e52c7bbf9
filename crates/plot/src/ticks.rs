//! Where axes have labels, and what these say.

/// Separates thousands; lines are not broken there.
const GROUP: char = '\u{a0}';

/// 1, 2 or 5 times a power of ten, so that a span has at most `count` such steps.
pub fn step(span: f64, count: f64) -> f64 {
    let least = (span / count.max(1.0)).max(f64::MIN_POSITIVE);
    let ten = 10f64.powf(least.log10().floor());
    let factor = [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .find(|f| f * ten >= least * (1.0 - 1e-9));
    factor.unwrap_or(10.0) * ten
}

/// The multiples of a step between two values.
pub fn multiples(from: f64, to: f64, step: f64) -> Vec<f64> {
    let slack = step * 1e-6;
    let first = ((from - slack) / step).ceil();
    let last = ((to + slack) / step).floor();
    if !(first.is_finite() && last - first < 1e4) {
        return Vec::new();
    }
    (0..=(last - first).max(-1.0) as i64)
        .map(|i| (first + i as f64) * step)
        .collect()
}

/// These multiples of powers of ten between two positive values.
pub fn powers(from: f64, to: f64, factors: &[f64]) -> Vec<f64> {
    let first = from.log10().floor() as i32;
    let last = to.log10().ceil() as i32;
    (first..=last)
        .flat_map(|e| factors.iter().map(move |f| f * 10f64.powi(e)))
        .filter(|t| *t >= from * (1.0 - 1e-9) && *t <= to * (1.0 + 1e-9))
        .collect()
}

/// A value with as many decimals as its neighbours at a distance of `step` need, thousands apart.
pub fn number(v: f64, step: f64) -> String {
    if v == 0.0 {
        return "0".into();
    }
    if v.abs() >= 1e7 || v.abs() < 1e-4 {
        let text = format!("{:.2e}", v);
        let (digits, power) = text.split_once('e').unwrap_or((&text, "0"));
        let digits = digits.trim_end_matches('0').trim_end_matches('.');
        return format!("{digits}e{power}");
    }
    let decimals = (-step.abs().max(1e-12).log10() - 1e-9)
        .ceil()
        .clamp(0.0, 9.0) as usize;
    // 2.5 needs one more than its power of ten.
    let short = |d: usize| (v - format!("{v:.d$}").parse::<f64>().unwrap_or(v)).abs() < step * 1e-3;
    let decimals = (decimals..=decimals + 1)
        .find(|d| short(*d))
        .unwrap_or(decimals);
    grouped(&format!("{v:.decimals$}"))
}

/// A value with as few digits as it needs, four after the point at most.
pub fn plain(v: f64) -> String {
    let text = format!("{v:.4}");
    let least =
        (0..=4).find(|d| (v - format!("{v:.d$}").parse().unwrap_or(v)).abs() < 1e-9 * v.abs());
    match least {
        Some(d) => number(v, 10f64.powi(-(d as i32))),
        None if v.abs() >= 1e3 => number(v, 1.0),
        None => grouped(text.trim_end_matches('0')),
    }
}

fn grouped(text: &str) -> String {
    let (sign, text) = text.strip_prefix('-').map_or(("", text), |t| ("-", t));
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    let mut out = String::from(sign);
    for (i, c) in whole.chars().enumerate() {
        if i > 0 && (whole.len() - i) % 3 == 0 && whole.len() > 4 {
            out.push(GROUP);
        }
        out.push(c);
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_round() {
        assert_eq!(step(1.2, 6.0), 0.2);
        assert_eq!(step(30000.0, 6.0), 5000.0);
        assert_eq!(step(0.38, 5.0), 0.1);
        assert_eq!(multiples(0.0, 1.0, 0.5), [0.0, 0.5, 1.0]);
        assert_eq!(multiples(-0.3, 0.3, 0.2).len(), 3);
        assert_eq!(
            powers(10.0, 210.0, &[1.0, 2.0, 5.0]),
            [10.0, 20.0, 50.0, 100.0, 200.0]
        );
    }

    #[test]
    fn numbers_have_the_digits_of_their_step() {
        assert_eq!(number(0.2 * 3.0, 0.2), "0.6");
        assert_eq!(number(30000.0, 5000.0), "30\u{a0}000");
        assert_eq!(number(2000.0, 500.0), "2000");
        assert_eq!(number(-0.25, 0.25), "-0.25");
        assert_eq!(number(2e9, 1e9), "2e9");
        assert_eq!(number(2.5e-7, 5e-8), "2.5e-7");
        assert_eq!(plain(64.0), "64");
        assert_eq!(plain(1.5), "1.5");
        assert_eq!(plain(0.001), "0.001");
        assert_eq!(plain(10000.0), "10\u{a0}000");
    }
}
