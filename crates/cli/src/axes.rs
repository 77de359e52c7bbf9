//! Values to vary: `--vary KEY=VALUE,VALUE...`.

use anyhow::{bail, Context};

/// A key, and what it is set to, one after the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Axis<'a> {
    /// The key.
    pub key: &'a str,
    /// At least one.
    pub values: Vec<&'a str>,
}

/// All that are asked for.
///
/// # Errors
/// If one has no values, or is given twice.
pub fn read(vary: &[String]) -> anyhow::Result<Vec<Axis<'_>>> {
    let mut axes: Vec<Axis> = Vec::new();
    for v in vary {
        let (key, values) = v
            .split_once('=')
            .with_context(|| format!("--vary {v}: expected key=value,value..."))?;
        let values: Vec<&str> = values.split(',').map(str::trim).collect();
        if values.iter().any(|v| v.is_empty()) {
            bail!("--vary {v}: an empty value");
        }
        if let Some(twice) = (1..values.len()).find(|i| values[..*i].contains(&values[*i])) {
            bail!("--vary {v}: {} is given twice", values[twice]);
        }
        if axes.iter().any(|a| a.key == key) {
            bail!("--vary {key}: given twice; put all values into one list");
        }
        axes.push(Axis { key, values });
    }
    Ok(axes)
}

/// Every combination of values, the last key's varying fastest.
pub fn combinations<'a>(axes: &[Axis<'a>]) -> Vec<Vec<&'a str>> {
    axes.iter().fold(vec![Vec::new()], |all, axis| {
        let with = |c: Vec<&'a str>| {
            { axis.values.iter() }
                .map(|v| [&c[..], &[*v]].concat())
                .collect::<Vec<_>>()
        };
        all.into_iter().flat_map(with).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strings(v: &[&str]) -> Vec<String> {
        v.iter().map(|s| s.to_string()).collect()
    }

    #[test]
    fn axes_are_checked() {
        let of = |v: &[&str]| read(&strings(v)).map(|a| a.len());
        assert_eq!(of(&["a=1,2", "b=3"]).unwrap(), 2);
        assert!(of(&["a"]).is_err());
        assert!(of(&["a=1,,2"]).is_err());
        let twice = |v: &[&str]| of(v).unwrap_err().to_string().contains("twice");
        assert!(twice(&["a=1", "a=2"]) && twice(&["a=1,1"]));
    }

    #[test]
    fn all_combinations_in_order() {
        let given = strings(&["a=1,2", "b=x,y"]);
        let axes = read(&given).unwrap();
        let all = combinations(&axes);
        assert_eq!(all, [["1", "x"], ["1", "y"], ["2", "x"], ["2", "y"]]);
        assert_eq!(combinations(&[]), [[""; 0]]);
    }
}
