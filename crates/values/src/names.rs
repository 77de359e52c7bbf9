//! The name that somebody meant.

/// Longest name that is compared; what is longer was no slip.
const LONGEST: usize = 64;

/// Insertions, deletions, changes and swaps of neighbours that make one name the other.
fn distance(a: &[char], b: &[char]) -> usize {
    let width = b.len() + 1;
    let mut d = vec![0; (a.len() + 1) * width];
    (0..=a.len()).for_each(|i| d[i * width] = i);
    (0..width).for_each(|j| d[j] = j);
    for i in 1..=a.len() {
        for j in 1..width {
            let at = i * width + j;
            let change = usize::from(a[i - 1] != b[j - 1]);
            let mut least = (d[at - width] + 1)
                .min(d[at - 1] + 1)
                .min(d[at - width - 1] + change);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(d[at - 2 * width - 2] + 1);
            }
            d[at] = least;
        }
    }
    d[a.len() * width + b.len()]
}

/// The one of `known` that `name` was most likely meant to be: it differs in a third of its letters
/// at most. The first of several.
pub fn nearest<'k>(name: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    let letters = |text: &str| -> Vec<char> {
        let lower = text.chars().flat_map(char::to_lowercase);
        lower.map(|c| if c == '_' { '-' } else { c }).collect()
    };
    let name = letters(name);
    if name.len() > LONGEST {
        return None;
    }
    let all = known.into_iter().filter(|k| k.len() <= LONGEST);
    let with = all.map(|k| (distance(&name, &letters(k)), k));
    let fits = with.filter(|(d, k)| *d <= name.len().max(k.len()) / 3);
    fits.min_by_key(|(d, _)| *d).map(|(_, k)| k)
}

/// The end of a message about an unknown name: "; did you mean `harts`?", or nothing.
pub fn hint<'k>(name: &str, known: impl IntoIterator<Item = &'k str>) -> String {
    match nearest(name, known) {
        Some(k) => format!("; did you mean `{k}`?"),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const KNOWN: [&str; 6] = ["run", "resume", "compare", "harts", "store_buffer", "ddr4"];

    #[test]
    fn slips_are_found() {
        for (name, meant) in [
            ("rnu", Some("run")),
            ("compaer", Some("compare")),
            ("hart", Some("harts")),
            ("Harts", Some("harts")),
            ("store-bufer", Some("store_buffer")),
            ("ddr5", Some("ddr4")),
            ("x", None),
            ("optane", None),
            ("", None),
        ] {
            assert_eq!(nearest(name, KNOWN), meant, "{name}");
        }
        assert_eq!(hint("rnu", KNOWN), "; did you mean `run`?");
        assert_eq!(hint("completely", KNOWN), "");
    }

    proptest! {
        #[test]
        fn a_name_is_nearest_to_itself(name in "[a-z]{1,20}", more in "[a-z]{1,20}") {
            prop_assert_eq!(nearest(&name, [more.as_str(), name.as_str()]), Some(name.as_str()));
        }

        #[test]
        fn any_text_does_not_panic(name in ".*", known in ".*") {
            let _ = nearest(&name, [known.as_str()]);
        }
    }
}
