//! Sets of counters that are declared once: the fields of a structure, with all that follows from them.

/// Declares a structure whose fields are counters, and what follows from the list: their names, their values in order,
/// the sum, difference or comparison of two sets, and a limit for all.
///
/// Attributes stay where they are, so a set is serialised as its attributes say.
///
/// ```
/// nagori_counters::counters! {
///     /// What a cache does.
///     #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
///     pub struct Cache {
///         /// Requests that hit.
///         pub hits: u64,
///         /// Requests that missed.
///         pub misses: u64,
///     }
/// }
/// let (before, after) = (Cache { hits: 1, misses: 2 }, Cache { hits: 5, misses: 2 });
/// assert_eq!(after.zip(&before, |a, b| a - b), Cache { hits: 4, misses: 0 });
/// assert_eq!(Cache::NAMES, ["hits", "misses"]);
/// assert_eq!(after.values(), [5, 2]);
/// assert!(after.below(6) && !after.below(5));
/// ```
#[macro_export]
macro_rules! counters {
    ($(#[$attr:meta])* $vis:vis struct $name:ident {
        $($(#[$field_attr:meta])* $field_vis:vis $field:ident: u64,)*
    }) => {
        $(#[$attr])*
        $vis struct $name {
            $($(#[$field_attr])* $field_vis $field: u64,)*
        }

        #[allow(dead_code)]
        impl $name {
            /// The names of all counters, in the order of their declaration.
            $vis const NAMES: [&'static str; [$(stringify!($field)),*].len()] = [$(stringify!($field)),*];

            /// All counters, in the order of their declaration.
            $vis fn values(&self) -> [u64; Self::NAMES.len()] {
                [$(self.$field),*]
            }

            /// All counters with their names.
            $vis fn named(&self) -> impl Iterator<Item = (&'static str, u64)> {
                Self::NAMES.into_iter().zip(self.values())
            }

            /// Combines two sets, counter by counter.
            $vis fn zip(&self, other: &Self, f: impl Fn(u64, u64) -> u64) -> Self {
                Self { $($field: f(self.$field, other.$field),)* }
            }

            /// Whether every counter is below a value.
            $vis fn below(&self, limit: u64) -> bool {
                self.values().iter().all(|n| *n < limit)
            }
        }
    };
}

/// For `#[serde(skip_serializing_if = "nagori_counters::is_zero")]`.
pub fn is_zero(n: &u64) -> bool {
    *n == 0
}
