//! Linear regression by least squares.

/// A model of some figures of a program.
#[derive(Debug, Clone, PartialEq)]
pub struct Regression {
    /// What it explains the figure by, besides a constant.
    pub names: Vec<String>,
    /// One row of these for each program.
    pub rows: Vec<Vec<f64>>,
    /// The figure.
    pub values: Vec<f64>,
}

/// A regression's result.
#[derive(Debug, Clone, PartialEq)]
pub struct Fit {
    /// The constant, then the factors in the order of the names.
    pub factors: Vec<f64>,
    /// Share of the variance that is explained.
    pub r2: f64,
    /// What is not explained, by program.
    pub residuals: Vec<f64>,
    /// Share of the variance that is explained where each program is predicted by a fit to the others; may be negative.
    pub r2_left_out: f64,
    /// Root of the mean square of these errors.
    pub error_left_out: f64,
}

impl Regression {
    /// The fit; nothing where there are too few programs, or where figures depend on each other.
    pub fn fit(&self) -> Option<Fit> {
        let n = self.values.len();
        if n != self.rows.len() || n < self.names.len() + 3 {
            return None;
        }
        let all: Vec<usize> = (0..n).collect();
        let factors = self.solve(&all)?;
        let residuals: Vec<f64> = all
            .iter()
            .map(|i| self.values[*i] - predict(&factors, &self.rows[*i]))
            .collect();
        let mut errors = Vec::new();
        for left in 0..n {
            let others: Vec<usize> = all.iter().copied().filter(|i| *i != left).collect();
            let f = self.solve(&others)?;
            errors.push(self.values[left] - predict(&f, &self.rows[left]));
        }
        let mean = self.values.iter().sum::<f64>() / n as f64;
        let total: f64 = self.values.iter().map(|v| (v - mean).powi(2)).sum();
        let squares = |e: &[f64]| e.iter().map(|e| e * e).sum::<f64>();
        (total > 0.0).then(|| Fit {
            r2: 1.0 - squares(&residuals) / total,
            r2_left_out: 1.0 - squares(&errors) / total,
            error_left_out: (squares(&errors) / n as f64).sqrt(),
            factors,
            residuals,
        })
    }

    /// Least squares over some rows, by Gram and Schmidt's orthogonal vectors (in the modified order, which is stable).
    fn solve(&self, rows: &[usize]) -> Option<Vec<f64>> {
        let width = self.names.len() + 1;
        let column = |c: usize| -> Vec<f64> {
            let of = |i: &usize| if c == 0 { 1.0 } else { self.rows[*i][c - 1] };
            rows.iter().map(of).collect()
        };
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f64>();
        let mut q: Vec<Vec<f64>> = Vec::new();
        // By column: its shares of the vectors before, and the length of what is left.
        let mut r: Vec<Vec<f64>> = Vec::new();
        for c in 0..width {
            let mut v = column(c);
            let before = dot(&v, &v).sqrt();
            let mut shares = Vec::new();
            for unit in &q {
                let share = dot(unit, &v);
                shares.push(share);
                v.iter_mut().zip(unit).for_each(|(x, u)| *x -= share * u);
            }
            let length = dot(&v, &v).sqrt();
            // What is left of a column that depends on the others is noise.
            if length <= before * 1e-9 || length == 0.0 {
                return None;
            }
            shares.push(length);
            r.push(shares);
            v.iter_mut().for_each(|x| *x /= length);
            q.push(v);
        }
        let values: Vec<f64> = rows.iter().map(|i| self.values[*i]).collect();
        let mut factors: Vec<f64> = q.iter().map(|unit| dot(unit, &values)).collect();
        for c in (0..width).rev() {
            for k in c + 1..width {
                factors[c] -= r[k][c] * factors[k];
            }
            factors[c] /= r[c][c];
        }
        Some(factors)
    }
}

fn predict(factors: &[f64], row: &[f64]) -> f64 {
    let (constant, others) = factors
        .split_first()
        .map_or((0.0, &[][..]), |(c, o)| (*c, o));
    constant + others.iter().zip(row).map(|(f, x)| f * x).sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn regression(rows: &[[f64; 2]], values: &[f64]) -> Regression {
        Regression {
            names: vec!["a".into(), "b".into()],
            rows: rows.iter().map(|r| r.to_vec()).collect(),
            values: values.to_vec(),
        }
    }

    #[test]
    fn an_exact_relation_is_found() {
        let rows = [
            [1.0, 2.0],
            [2.0, 1.0],
            [3.0, 5.0],
            [4.0, 4.0],
            [6.0, 1.0],
            [7.0, 3.0],
        ];
        let values: Vec<f64> = rows.iter().map(|r| 3.0 + 2.0 * r[0] - 0.5 * r[1]).collect();
        let fit = regression(&rows, &values).fit().unwrap();
        for (f, is) in fit.factors.iter().zip([3.0, 2.0, -0.5]) {
            assert!((f - is).abs() < 1e-9, "{fit:?}");
        }
        assert!(fit.r2 > 1.0 - 1e-12 && fit.r2_left_out > 1.0 - 1e-12);
        assert!(fit.error_left_out < 1e-9);
    }

    #[test]
    fn noise_is_not_predicted() {
        let rows = [
            [1.0, 2.0],
            [2.0, 1.0],
            [3.0, 5.0],
            [4.0, 4.0],
            [6.0, 1.0],
            [7.0, 3.0],
        ];
        let fit = regression(&rows, &[1.0, -1.0, 1.0, -1.0, 1.0, -1.0])
            .fit()
            .unwrap();
        assert!(fit.r2 >= 0.0 && fit.r2_left_out < fit.r2, "{fit:?}");
    }

    #[test]
    fn what_cannot_be_fitted_has_no_fit() {
        let dependent = [
            [1.0, 2.0],
            [2.0, 4.0],
            [3.0, 6.0],
            [4.0, 8.0],
            [5.0, 10.0],
            [6.0, 12.0],
        ];
        assert_eq!(
            regression(&dependent, &[1.0, 2.0, 2.0, 3.0, 1.0, 0.0]).fit(),
            None
        );
        assert_eq!(
            regression(&[[1.0, 2.0], [2.0, 1.0]], &[1.0, 2.0]).fit(),
            None
        );
        let rows = [[1.0, 2.0], [2.0, 1.0], [3.0, 5.0], [4.0, 4.0], [6.0, 1.0]];
        assert_eq!(regression(&rows, &[1.0; 5]).fit(), None);
    }
}
