//! Texts that are signed in the clear, and OpenPGP's ASCII armor (RFC 9580, 6 and 7).

use base64::engine::general_purpose::STANDARD;
use base64::Engine;

const MESSAGE: &str = "-----BEGIN PGP SIGNED MESSAGE-----";
const SIGNATURE: &str = "-----BEGIN PGP SIGNATURE-----";
const SIGNATURE_END: &str = "-----END PGP SIGNATURE-----";
const KEYS: &str = "-----BEGIN PGP PUBLIC KEY BLOCK-----";
const KEYS_END: &str = "-----END PGP PUBLIC KEY BLOCK-----";

/// A signed text, taken apart. Nothing is verified.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Signed {
    /// What was signed, as a text for readers.
    pub text: String,
    /// What was signed, as the bytes that the signatures cover.
    pub covered: Vec<u8>,
    /// Packets with the signatures.
    pub signatures: Vec<u8>,
}

/// Takes a signed text apart. Nothing may stand before or behind it, or a reader could take unsigned lines for signed
/// ones.
pub(crate) fn parse(bytes: &[u8]) -> Result<Signed, String> {
    let whole = std::str::from_utf8(bytes).map_err(|_| "it is not UTF-8")?;
    if whole.contains('\0') {
        return Err("it contains NUL".into());
    }
    let mut lines = whole.lines();
    if lines.next().map(str::trim_end) != Some(MESSAGE) {
        return Err(format!("its first line is not `{MESSAGE}`"));
    }
    loop {
        match lines.next().map(str::trim_end) {
            None => return Err("it ends in its head".into()),
            Some("") => break,
            Some(line) if line.starts_with("Hash: ") => {}
            Some(_) => return Err("its head has a line other than `Hash:`".into()),
        }
    }
    let (mut text, mut covered) = (String::new(), Vec::new());
    let mut first = true;
    loop {
        let line = lines.next().ok_or("it has no signature")?;
        if line.trim_end() == SIGNATURE {
            break;
        }
        let line = match line.strip_prefix("- ") {
            Some(escaped) => escaped,
            None if line.starts_with('-') => {
                return Err("a line begins with a dash that is not escaped".into())
            }
            None => line,
        };
        // A carriage return within a line would end it for some readers.
        let line = line.trim_end_matches([' ', '\t', '\r']);
        if line.contains('\r') {
            return Err("a line contains a carriage return".into());
        }
        if !first {
            covered.extend(b"\r\n");
        }
        first = false;
        covered.extend(line.as_bytes());
        text.push_str(line);
        text.push('\n');
    }
    let signatures = armored(&mut lines, SIGNATURE_END)?;
    if lines.any(|l| !l.trim().is_empty()) {
        return Err("something stands behind its signature".into());
    }
    Ok(Signed {
        text,
        covered,
        signatures,
    })
}

/// The packets of keys: binary, or blocks in ASCII armor.
pub(crate) fn keys(bytes: &[u8]) -> Result<Vec<u8>, String> {
    // The first bit of a packet is set.
    if bytes.first().is_none_or(|b| b & 0x80 != 0) {
        return Ok(bytes.to_vec());
    }
    let text = std::str::from_utf8(bytes).map_err(|_| "it is neither binary nor text")?;
    let mut lines = text.lines();
    let mut packets = Vec::new();
    while let Some(line) = lines.next() {
        if line.trim_end() == KEYS {
            packets.extend(armored(&mut lines, KEYS_END)?);
        }
    }
    if packets.is_empty() {
        Err("it holds no key".into())
    } else {
        Ok(packets)
    }
}

/// The bytes of a block whose first line has been read.
fn armored<'a>(lines: &mut impl Iterator<Item = &'a str>, end: &str) -> Result<Vec<u8>, String> {
    let mut coded = String::new();
    let mut head = true;
    for line in lines {
        let line = line.trim();
        if line == end {
            return STANDARD
                .decode(coded)
                .map_err(|e| format!("its ASCII armor is damaged: {e}"));
        }
        if head {
            head = !line.is_empty();
            // Blocks without head need no empty line.
            if line.contains(": ") || !head {
                continue;
            }
            head = false;
        }
        // The checksum is optional, and the signature says more.
        if !line.starts_with('=') {
            coded.push_str(line);
        }
    }
    Err("its ASCII armor has no end".into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn signed(text: &str) -> String {
        format!("{MESSAGE}\nHash: SHA256\n\n{text}{SIGNATURE}\nVersion: x\n\nAQID\n=abcd\n{SIGNATURE_END}\n")
    }

    #[test]
    fn parts() {
        let s = parse(signed("a \nb: c\t\r\n- -d\n\n").as_bytes()).unwrap();
        assert_eq!(s.text, "a\nb: c\n-d\n\n");
        assert_eq!(s.covered, b"a\r\nb: c\r\n-d\r\n");
        assert_eq!(s.signatures, [1, 2, 3]);
    }

    #[test]
    fn what_is_not_signed_is_not_read() {
        for (text, why) in [
            (format!("Suite: x\n{}", signed("a\n")), "first line"),
            (format!("{}Suite: x\n", signed("a\n")), "behind"),
            (signed("-a\n"), "dash"),
            (signed("a\rb\n"), "carriage return"),
            (signed("a\0\n"), "NUL"),
            (format!("{MESSAGE}\nSuite: x\n\na\n"), "head"),
            (format!("{MESSAGE}\n\na\n"), "no signature"),
            (format!("{MESSAGE}\n\na\n{SIGNATURE}\n\nAQ\n"), "no end"),
            (signed("a\n").replace("AQID", "A*ID"), "damaged"),
            (String::new(), "first line"),
        ] {
            let e = parse(text.as_bytes()).unwrap_err();
            assert!(e.contains(why), "{text}: {e}");
        }
        assert!(parse(&[0xff]).is_err());
    }

    #[test]
    fn blocks_of_keys() {
        let block = format!("{KEYS}\nComment: x\n\nAQID\n=abcd\n{KEYS_END}\n");
        assert_eq!(
            keys(format!("text\n{block}\n{block}").as_bytes()).unwrap(),
            [1, 2, 3, 1, 2, 3]
        );
        assert_eq!(keys(&[0x99, 1]).unwrap(), [0x99, 1]);
        assert!(keys(b"nothing\n").is_err());
    }

    proptest! {
        #[test]
        fn any_text_does_not_panic(text in "[-a: \r\n=]{0,60}") {
            let _ = (parse(text.as_bytes()), parse(signed(&text).as_bytes()), keys(text.as_bytes()));
        }
    }
}
