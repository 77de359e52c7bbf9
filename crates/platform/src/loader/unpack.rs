//! Compressed parts of images.

use std::io::Read;

/// Greatest memory, in KiB, for an LZMA dictionary.
const MAX_DICTIONARY_KIB: u32 = 256 << 10;

/// Compression of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packing {
    /// Not at all.
    None,
    /// gzip.
    Gzip,
    /// bzip2.
    Bzip2,
    /// LZMA without a container, the older format.
    Lzma,
    /// xz.
    Xz,
    /// Frames of LZ4.
    Lz4,
    /// Zstandard.
    Zstd,
}

/// All with their names, as in U-Boot's and the kernel's tools.
const NAMES: [(Packing, &str); 8] = [
    (Packing::None, "none"),
    (Packing::Gzip, "gzip"),
    (Packing::Bzip2, "bzip2"),
    (Packing::Lzma, "lzma"),
    (Packing::Xz, "xz"),
    (Packing::Xz, "xzkern"),
    (Packing::Lz4, "lz4"),
    (Packing::Zstd, "zstd"),
];

impl Packing {
    /// By its name.
    pub fn named(name: &str) -> Option<Packing> {
        let name = name.strip_suffix("22").unwrap_or(name);
        NAMES.iter().find(|n| n.1 == name).map(|n| n.0)
    }

    /// By its number in the header of a uImage.
    pub fn numbered(number: u8) -> Option<Packing> {
        Some(match number {
            0 => Packing::None,
            1 => Packing::Gzip,
            2 => Packing::Bzip2,
            3 => Packing::Lzma,
            5 => Packing::Lz4,
            6 => Packing::Zstd,
            _ => return None,
        })
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        NAMES.iter().find(|n| n.0 == self).map_or("", |n| n.1)
    }

    /// Unpacks to at most `limit` bytes; errors are the end of a sentence that begins with "it".
    pub fn unpack(self, packed: &[u8], limit: u64) -> Result<Vec<u8>, String> {
        let damaged = |e: &dyn std::fmt::Display| {
            format!("is {} data that cannot be unpacked ({e})", self.name())
        };
        let reader: Box<dyn Read + '_> = match self {
            Packing::None => Box::new(packed),
            Packing::Gzip => Box::new(flate2::read::GzDecoder::new(packed)),
            Packing::Bzip2 => Box::new(bzip2_rs::DecoderReader::new(packed)),
            Packing::Lzma => Box::new(
                lzma_rust2::LzmaReader::new_mem_limit(packed, MAX_DICTIONARY_KIB, None)
                    .map_err(|e| damaged(&e))?,
            ),
            Packing::Xz => Box::new(lzma_rust2::XzReader::new(packed, true)),
            Packing::Lz4 => Box::new(lz4_flex::frame::FrameDecoder::new(packed)),
            Packing::Zstd => {
                Box::new(zstd::stream::read::Decoder::new(packed).map_err(|e| damaged(&e))?)
            }
        };
        let mut out = Vec::new();
        // One more byte than fits shows that it is too long.
        let mut bounded = reader.take(limit.saturating_add(1));
        bounded.read_to_end(&mut out).map_err(|e| damaged(&e))?;
        if out.len() as u64 > limit {
            return Err(format!(
                "unpacks to more than {limit} bytes, the size of memory"
            ));
        }
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::process::{Command, Stdio};

    const TEXT: &[u8] = b"the same text again and again, the same text again and again";

    fn packed_by(program: &'static str, args: &[&str]) -> Option<Vec<u8>> {
        use std::io::Write;
        let mut child = Command::new(crate::tool(program)?)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(TEXT).unwrap();
        Some(child.wait_with_output().unwrap().stdout)
    }

    #[test]
    fn what_the_usual_tools_pack_is_unpacked() {
        let mut seen = 0;
        for (packing, program, args) in [
            (Packing::Gzip, "gzip", &["-c"][..]),
            (Packing::Bzip2, "bzip2", &["-c"]),
            (Packing::Xz, "xz", &["-c"]),
            (Packing::Lzma, "xz", &["-c", "--format=lzma"]),
        ] {
            let Some(packed) = packed_by(program, args) else {
                continue;
            };
            seen += 1;
            assert_eq!(packing.unpack(&packed, 1000).unwrap(), TEXT, "{program}");
            let e = packing.unpack(&packed, 20).unwrap_err();
            assert_eq!(e, "unpacks to more than 20 bytes, the size of memory");
            let e = packing
                .unpack(&packed[..packed.len() / 2], 1000)
                .unwrap_err();
            assert!(e.contains("cannot be unpacked"), "{e}");
        }
        assert!(seen > 0, "gzip is everywhere");
        let zstd = zstd::bulk::compress(TEXT, 3).unwrap();
        assert_eq!(Packing::Zstd.unpack(&zstd, 1000).unwrap(), TEXT);
        let mut lz4 = lz4_flex::frame::FrameEncoder::new(Vec::new());
        std::io::Write::write_all(&mut lz4, TEXT).unwrap();
        let lz4 = lz4.finish().unwrap();
        assert_eq!(Packing::Lz4.unpack(&lz4, 1000).unwrap(), TEXT);
        assert_eq!(Packing::named("zstd22"), Some(Packing::Zstd));
        assert_eq!(Packing::named("lzo"), None);
    }

    proptest! {
        #[test]
        fn damaged_data_never_panics(
            bytes in prop::collection::vec(any::<u8>(), 0..200),
            which in 0usize..NAMES.len(),
        ) {
            let _ = NAMES[which].0.unpack(&bytes, 1 << 16);
        }

        #[test]
        fn changed_data_never_panics(at in 0usize..60, to: u8) {
            for packing in [Packing::Gzip, Packing::Zstd] {
                let mut packed = match packing {
                    Packing::Zstd => zstd::bulk::compress(TEXT, 3).unwrap(),
                    _ => super::super::tests::gzip(TEXT),
                };
                let n = packed.len();
                packed[at % n] = to;
                let _ = packing.unpack(&packed, 1 << 16);
            }
        }
    }
}
