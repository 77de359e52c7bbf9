//! Packets as bytes: `$content#checksum`, with acknowledgements and interrupts between them.

use super::PACKET;

/// What a debugger has sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A packet's content; its escapes are still there.
    Packet(Vec<u8>),
    /// A packet with a wrong checksum.
    Damaged,
    /// A packet with more than [`PACKET`] bytes.
    TooLong,
    /// The last packet came damaged.
    Again,
    /// The machine is to stop: Ctrl-C.
    Interrupt,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Place {
    #[default]
    Between,
    Content,
    /// Behind `#`, and behind the first digit.
    Checksum(Option<u8>),
}

/// Finds packets in a stream of bytes.
#[derive(Debug, Clone, Default)]
pub struct Framer {
    place: Place,
    content: Vec<u8>,
    too_long: bool,
}

impl Framer {
    /// Takes the next byte.
    pub fn take(&mut self, byte: u8) -> Option<Event> {
        match (self.place, byte) {
            (Place::Between, b'-') => Some(Event::Again),
            (Place::Between, 3) => Some(Event::Interrupt),
            // No content has an unescaped `$`: the packet before it was cut.
            (Place::Between | Place::Content, b'$') => {
                *self = Framer {
                    place: Place::Content,
                    ..Framer::default()
                };
                None
            }
            (Place::Between, _) => None,
            (Place::Content, b'#') => {
                self.place = Place::Checksum(None);
                None
            }
            (Place::Content, _) => {
                self.too_long |= self.content.len() == PACKET;
                if !self.too_long {
                    self.content.push(byte);
                }
                None
            }
            (Place::Checksum(None), _) => {
                self.place = Place::Checksum(Some(byte));
                None
            }
            (Place::Checksum(Some(first)), _) => {
                let Framer {
                    content, too_long, ..
                } = std::mem::take(self);
                let want = digit(first).zip(digit(byte)).map(|(h, l)| h << 4 | l);
                Some(match (too_long, want) {
                    (true, _) => Event::TooLong,
                    (_, Some(sum)) if sum == checksum(&content) => Event::Packet(content),
                    _ => Event::Damaged,
                })
            }
        }
    }
}

fn checksum(content: &[u8]) -> u8 {
    content.iter().fold(0, |s, b| s.wrapping_add(*b))
}

/// The value of a hexadecimal digit.
pub fn digit(c: u8) -> Option<u8> {
    char::from(c)
        .to_digit(16)
        .and_then(|d| u8::try_from(d).ok())
}

/// Bytes as hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// The bytes of an even number of hexadecimal digits.
pub fn unhex(digits: &[u8]) -> Option<Vec<u8>> {
    if !digits.len().is_multiple_of(2) {
        return None;
    }
    digits
        .chunks_exact(2)
        .map(|d| Some(digit(d[0])? << 4 | digit(d[1])?))
        .collect()
}

/// Binary data with what may not stand in a packet escaped.
pub fn escape(data: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(data.len());
    for &b in data {
        match b {
            b'#' | b'$' | b'}' | b'*' => out.extend([b'}', b ^ 0x20]),
            _ => out.push(b),
        }
    }
    out
}

/// Binary data without escapes; `None` if it ends within one.
pub fn unescape(data: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(data.len());
    let mut rest = data.iter();
    while let Some(&b) = rest.next() {
        out.push(match b {
            b'}' => rest.next()? ^ 0x20,
            _ => b,
        });
    }
    Some(out)
}

/// A packet's bytes.
pub fn packet(content: &[u8]) -> Vec<u8> {
    let mut out = vec![b'$'];
    out.extend(content);
    out.extend(format!("#{:02x}", checksum(content)).into_bytes());
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn events(bytes: &[u8]) -> Vec<Event> {
        let mut f = Framer::default();
        bytes.iter().filter_map(|&b| f.take(b)).collect()
    }

    #[test]
    fn noise_cuts_and_damage_are_told_apart() {
        let g = || Event::Packet(b"g".to_vec());
        assert_eq!(events(b"+x$g#67+"), [g()]);
        assert_eq!(
            events(b"-\x03$g#66"),
            [Event::Again, Event::Interrupt, Event::Damaged]
        );
        assert_eq!(events(b"$m8000$g#67"), [g()], "cut");
        assert_eq!(events(b"$g#zz$g#67"), [Event::Damaged, g()]);
        assert_eq!(events(b"$\x03-#30"), [Event::Packet(b"\x03-".to_vec())]);
        let mut long = vec![b'm'; PACKET];
        assert_eq!(events(&packet(&long)), [Event::Packet(long.clone())]);
        long.push(b'm');
        let then = [packet(&long), packet(b"g")].concat();
        assert_eq!(events(&then), [Event::TooLong, g()]);
    }

    proptest! {
        #[test]
        fn what_is_packed_comes_out(data in proptest::collection::vec(any::<u8>(), 0..200)) {
            let escaped = escape(&data);
            prop_assert_eq!(unescape(&escaped).unwrap(), data.clone());
            prop_assert_eq!(unhex(hex(&data).as_bytes()).unwrap(), data);
            prop_assert_eq!(events(&packet(&escaped)), vec![Event::Packet(escaped)]);
        }
    }
}
