//! Makers of inputs: equal sizes and seeds give equal bytes.

mod data;
mod problems;
mod random;

use crate::error::Result;
use crate::library::Library;
use crate::program::{Input, Maker, Program, Size};
use crate::Error;

/// The content of a program's input in a size.
pub fn make(library: &Library, p: &Program, input: &Input, size: Size) -> Result<Vec<u8>> {
    if let Some(text) = &input.text {
        return Ok(p.filled(text, size).into_bytes());
    }
    if let Some(from) = &input.from {
        return Ok(library.file(&format!("files/{from}"))?.into_owned());
    }
    let n = p.amount(input, size).map_err(Error::Request)?;
    let maker = input.make.ok_or_else(|| {
        Error::Request(format!("{}: input {} has no content", p.name, input.file))
    })?;
    Ok(made(maker, n, input.seed))
}

fn made(maker: Maker, n: u64, seed: u64) -> Vec<u8> {
    match maker {
        Maker::Text => data::text(n, seed),
        Maker::Xml => data::xml(n, seed),
        Maker::Video => data::video(n, seed),
        Maker::Genome => data::genome(n, seed),
        Maker::Reads => data::reads(n, seed),
        Maker::Pairs => data::pairs(n, seed),
        Maker::Flow => problems::flow(n, seed),
        Maker::Formula => problems::formula(n, seed),
        Maker::Linear => problems::linear(n, seed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sha2::{Digest, Sha256};

    const ALL: [Maker; 9] = [
        Maker::Text,
        Maker::Xml,
        Maker::Video,
        Maker::Genome,
        Maker::Reads,
        Maker::Flow,
        Maker::Formula,
        Maker::Linear,
        Maker::Pairs,
    ];

    #[test]
    fn inputs_follow_from_size_and_seed() {
        for maker in ALL {
            let a = made(maker, 40, 1);
            assert!(!a.is_empty() && a == made(maker, 40, 1), "{maker:?}");
            assert_ne!(a, made(maker, 40, 2), "{maker:?}");
            assert!(made(maker, 80, 1).len() > a.len(), "{maker:?}");
        }
    }

    /// The checksums of the programs' outputs hold for these bytes only.
    #[test]
    fn inputs_stay_as_they_are() {
        let mut h = Sha256::new();
        for maker in ALL {
            h.update(made(maker, 50, 7));
        }
        let sum: String = h.finalize().iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(sum, include_str!("inputs.sha256").trim());
    }
}
