//! Correlation of ranks.

/// Ranks from 1 on; equal values share the mean of theirs.
fn ranks(values: &[f64]) -> Vec<f64> {
    let less = |v: f64| values.iter().filter(|w| **w < v).count() as f64;
    let equal = |v: f64| values.iter().filter(|w| **w == v).count() as f64;
    values
        .iter()
        .map(|v| less(*v) + (equal(*v) + 1.0) / 2.0)
        .collect()
}

/// Pearson's correlation; nothing if one side does not vary, or with fewer than three pairs.
fn pearson(a: &[f64], b: &[f64]) -> Option<f64> {
    let n = a.len() as f64;
    if a.len() != b.len() || a.len() < 3 {
        return None;
    }
    let mean = |v: &[f64]| v.iter().sum::<f64>() / n;
    let (ma, mb) = (mean(a), mean(b));
    let sum =
        |f: &dyn Fn(f64, f64) -> f64| a.iter().zip(b).map(|(x, y)| f(x - ma, y - mb)).sum::<f64>();
    let (ab, aa, bb) = (sum(&|x, y| x * y), sum(&|x, _| x * x), sum(&|_, y| y * y));
    (aa > 0.0 && bb > 0.0).then(|| ab / (aa * bb).sqrt())
}

/// Spearman's rank correlation.
pub fn spearman(a: &[f64], b: &[f64]) -> Option<f64> {
    pearson(&ranks(a), &ranks(b))
}

/// Kendall's rank correlation (tau-b).
pub fn kendall(a: &[f64], b: &[f64]) -> Option<f64> {
    if a.len() != b.len() || a.len() < 3 {
        return None;
    }
    let (mut sum, mut in_a, mut in_b) = (0.0, 0.0, 0.0);
    for i in 0..a.len() {
        for j in 0..i {
            let sign = |v: &[f64]| {
                (v[i] - v[j])
                    .partial_cmp(&0.0)
                    .map_or(0.0, |o| f64::from(o as i8))
            };
            let (x, y) = (sign(a), sign(b));
            sum += x * y;
            in_a += x * x;
            in_b += y * y;
        }
    }
    (in_a > 0.0 && in_b > 0.0).then(|| sum / f64::sqrt(in_a * in_b))
}

/// The pairs that `b` puts in another order than `a`, by places, those with the greatest ratio in `a` first; a pair
/// counts if both differ by more than `least` (a ratio, such as 0.01).
pub fn wrong_pairs(a: &[f64], b: &[f64], least: f64) -> Vec<(usize, usize)> {
    let apart = |x: f64, y: f64| (x / y).max(y / x) > 1.0 + least;
    let mut all: Vec<(usize, usize)> = Vec::new();
    for i in 0..a.len().min(b.len()) {
        for j in 0..a.len().min(b.len()) {
            if a[i] < a[j] && b[i] > b[j] && apart(a[i], a[j]) && apart(b[i], b[j]) {
                all.push((i, j));
            }
        }
    }
    let ratio = |p: &(usize, usize)| a[p.1] / a[p.0];
    all.sort_by(|p, q| ratio(q).total_cmp(&ratio(p)).then(p.cmp(q)));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_correlations() {
        let close = |a: Option<f64>, b: f64| a.is_some_and(|a| (a - b).abs() < 1e-12);
        assert!(close(spearman(&[1.0, 2.0, 3.0], &[10.0, 20.0, 40.0]), 1.0));
        assert!(close(spearman(&[1.0, 2.0, 3.0], &[3.0, 2.0, 1.0]), -1.0));
        // 1 - 6 * (1 + 1) / (4 * 15).
        assert!(close(
            spearman(&[1.0, 2.0, 3.0, 4.0], &[1.0, 3.0, 2.0, 4.0]),
            0.8
        ));
        assert!(close(
            kendall(&[1.0, 2.0, 3.0, 4.0], &[1.0, 3.0, 2.0, 4.0]),
            4.0 / 6.0
        ));
        assert_eq!(ranks(&[5.0, 5.0, 1.0]), [2.5, 2.5, 1.0]);
        assert_eq!(spearman(&[1.0, 1.0, 1.0], &[1.0, 2.0, 3.0]), None);
        assert_eq!(kendall(&[1.0, 2.0], &[1.0, 2.0]), None);
    }

    #[test]
    fn wrong_pairs_are_those_in_another_order() {
        let (a, b) = ([1.0, 1.2, 1.5], [1.3, 1.2, 1.25]);
        assert_eq!(wrong_pairs(&a, &b, 0.0), [(0, 2), (0, 1)]);
        assert_eq!(wrong_pairs(&a, &b, 0.05), [(0, 1)]);
        assert!(wrong_pairs(&a, &a, 0.0).is_empty());
    }

    proptest! {
        #[test]
        fn correlations_depend_on_ranks_only(values in prop::collection::vec((0.1f64..9.0, 0.1f64..9.0), 3..20)) {
            let (a, b): (Vec<f64>, Vec<f64>) = values.into_iter().unzip();
            let grown: Vec<f64> = a.iter().map(|v| v.exp()).collect();
            prop_assert_eq!(spearman(&a, &b), spearman(&grown, &b));
            prop_assert_eq!(kendall(&a, &b), kendall(&grown, &b));
            if let (Some(s), Some(k)) = (spearman(&a, &b), kendall(&a, &b)) {
                prop_assert!(s.abs() <= 1.0 + 1e-9 && k.abs() <= 1.0 + 1e-9);
            }
        }
    }
}
