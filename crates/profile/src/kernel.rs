//! The names of a Linux kernel's functions, from its own table in guest memory (`kernel/kallsyms.c`, as
//! `scripts/kallsyms.c` lays it out), so that nobody has to read them in the guest.
//!
//! The parts of the table lie behind one another, each at a multiple of eight bytes: the number of symbols, their names
//! (each a length and numbers of tokens), markers (where each 256th name begins), the 256 tokens, where each of them
//! begins. The addresses, offsets from a base, stand in front of that, or behind it since Linux 6.4. Numbers are
//! little-endian.

use nagori_ram::{GuestRam, PAGE};

/// Tokens of which names consist.
const TOKENS: usize = 256;
/// Bytes that say where tokens begin.
const INDEX: u64 = 2 * TOKENS as u64;
/// Longest token that is looked for.
const LONGEST_TOKEN: u64 = 128;
/// Names for each marker.
const MARKED: usize = 256;
/// Most bytes of the names behind the last marker.
const LAST_NAMES: u64 = 128 << 10;
/// Most symbols of a kernel.
const MOST: usize = 1 << 20;
/// Bytes of memory that are searched at a time.
const PIECE: u64 = 1 << 20;
/// Addresses of a kernel are in the upper half, and it begins with a page.
const UPPER: u64 = 1 << 63;

/// Functions as [`Symbols::add_table`](crate::Symbols::add_table) takes them: address, size (0: up to the next one),
/// name.
pub type Table = Vec<(u64, u64, String)>;

/// The functions of the kernel in guest memory; `None` if there is none, or if it has no table, or not relocated itself
/// yet.
pub fn functions(ram: &GuestRam) -> Option<Table> {
    let memory = Memory(ram);
    for range in ram.touched() {
        let mut at = range.start.next_multiple_of(8);
        while at < range.end {
            let end = (at + PIECE).min(range.end);
            let piece = memory.bytes(at, end - at)?;
            for (n, word) in piece.chunks_exact(8).enumerate() {
                if may_begin_index(word) {
                    let found = memory.table(at + 8 * n as u64);
                    if found.is_some() {
                        return found;
                    }
                }
            }
            at = end;
        }
    }
    None
}

/// Whether these may be the first four of 256 ascending offsets.
fn may_begin_index(word: &[u8]) -> bool {
    let n = |i: usize| u16::from_le_bytes([word[2 * i], word[2 * i + 1]]);
    n(0) == 0 && 0 < n(1) && n(1) < n(2) && n(2) < n(3) && u64::from(n(3)) < 3 * LONGEST_TOKEN
}

fn aligned(at: u64) -> u64 {
    at.next_multiple_of(8)
}

/// Guest memory by offset.
struct Memory<'a>(&'a GuestRam);

impl Memory<'_> {
    fn bytes(&self, at: u64, len: u64) -> Option<Vec<u8>> {
        if at.checked_add(len)? > self.0.len() {
            return None;
        }
        let mut bytes = vec![0; usize::try_from(len).ok()?];
        self.0.read_bytes(at, &mut bytes).ok()?;
        Some(bytes)
    }

    fn words(&self, at: u64, count: usize) -> Option<Vec<u32>> {
        let bytes = self.bytes(at, 4 * count as u64)?;
        let word = |b: &[u8]| u32::from_le_bytes([b[0], b[1], b[2], b[3]]);
        Some(bytes.chunks_exact(4).map(word).collect())
    }

    /// The table whose tokens begin where this index says.
    fn table(&self, index: u64) -> Option<Table> {
        let (tokens_at, tokens) = self.tokens(index)?;
        let (markers_at, markers) = self.markers(tokens_at)?;
        let (number_at, names) = self.names(markers_at, &markers, &tokens)?;
        let addresses = self.addresses(number_at, index + INDEX, names.len())?;
        let functions = names.into_iter().zip(addresses);
        // The type is the first character.
        let functions = functions.filter_map(|(name, at)| {
            let name = name.strip_prefix(['t', 'T', 'w', 'W'])?;
            (!name.starts_with(['$', '.'])).then(|| (at, 0, name.to_string()))
        });
        Some(functions.collect())
    }

    fn tokens(&self, index: u64) -> Option<(u64, Vec<Vec<u8>>)> {
        let bytes = self.bytes(index, INDEX)?;
        let starts: Vec<u64> = { bytes.chunks_exact(2) }
            .map(|b| u64::from(u16::from_le_bytes([b[0], b[1]])))
            .collect();
        if !starts
            .windows(2)
            .all(|w| w[0] < w[1] && w[1] - w[0] <= LONGEST_TOKEN)
        {
            return None;
        }
        let last = *starts.last()?;
        // Behind the last token there are less than eight bytes up to the index.
        let first = index.checked_sub(last + LONGEST_TOKEN)? & !7;
        let text = self.bytes(first, index - first)?;
        (0..)
            .step_by(8)
            .map_while(|skip| text.get(skip..))
            .find_map(|text| {
                let mut tokens = Vec::with_capacity(TOKENS);
                for (n, start) in starts.iter().enumerate() {
                    let rest = text.get(*start as usize..)?;
                    let end = rest.iter().position(|b| *b == 0)? as u64;
                    let next = starts.get(n + 1).copied();
                    let whole = next.map_or_else(
                        || aligned(start + end + 1) == text.len() as u64,
                        |next| start + end + 1 == next,
                    );
                    if !whole || end == 0 {
                        return None;
                    }
                    tokens.push(rest[..end as usize].to_vec());
                }
                Some((index - text.len() as u64, tokens))
            })
    }

    /// Where the 256th names begin, and where that stands: the numbers up to the tokens, back to a 0.
    fn markers(&self, end: u64) -> Option<(u64, Vec<u32>)> {
        let most = (MOST / MARKED) as u64 * 4;
        let from = end.saturating_sub(most) & !7;
        let mut all = self.words(from, ((end - from) / 4) as usize)?;
        if *all.last()? == 0 {
            all.pop();
        }
        let first = all.iter().rposition(|n| *n == 0)?;
        let markers = all.split_off(first);
        let at = from + 4 * first as u64;
        (at.is_multiple_of(8) && markers.windows(2).all(|w| w[0] < w[1])).then_some((at, markers))
    }

    /// The names, and where their number stands.
    fn names(
        &self,
        markers_at: u64,
        markers: &[u32],
        tokens: &[Vec<u8>],
    ) -> Option<(u64, Vec<String>)> {
        let latest = markers_at.checked_sub(u64::from(*markers.last()?))? & !7;
        (0..LAST_NAMES / 8).find_map(|n| {
            let at = latest.checked_sub(8 * n)?;
            let number_at = at.checked_sub(8)?;
            let number = self.words(number_at, 2)?;
            let count = number[0] as usize;
            if number[1] != 0 || count.div_ceil(MARKED) != markers.len() || count > MOST {
                return None;
            }
            let bytes = self.bytes(at, markers_at - at)?;
            Some((number_at, names(&bytes, count, markers, tokens)?))
        })
    }

    /// The addresses of symbols: offsets from a base, before the symbols' number or behind the tokens.
    fn addresses(&self, number_at: u64, behind: u64, count: usize) -> Option<Vec<u64>> {
        let len = aligned(4 * count as u64);
        let base_before = number_at.checked_sub(8)?;
        let places = [
            (Some(aligned(behind)), aligned(behind) + len),
            (base_before.checked_sub(len), base_before),
        ];
        places.into_iter().find_map(|(offsets_at, base_at)| {
            let offsets = self.words(offsets_at?, count)?;
            let base = self.words(base_at, 2)?;
            let base = u64::from(base[0]) | u64::from(base[1]) << 32;
            let ascend = offsets.windows(2).all(|w| w[0] <= w[1]);
            let spread = offsets.first() < offsets.last();
            (ascend && spread && base >= UPPER && base.is_multiple_of(PAGE)).then(|| {
                offsets
                    .iter()
                    .map(|o| base.wrapping_add(u64::from(*o)))
                    .collect()
            })
        })
    }
}

/// So many names that fill these bytes, of which the 256th ones begin at the markers.
fn names(bytes: &[u8], count: usize, markers: &[u32], tokens: &[Vec<u8>]) -> Option<Vec<String>> {
    let mut names = Vec::with_capacity(count);
    let mut at = 0;
    for n in 0..count {
        if n % MARKED == 0 && markers.get(n / MARKED) != Some(&(at as u32)) {
            return None;
        }
        let mut len = usize::from(*bytes.get(at)?);
        at += 1;
        if len >= 0x80 {
            len = len & 0x7f | usize::from(*bytes.get(at)?) << 7;
            at += 1;
        }
        let numbers = bytes.get(at..at.checked_add(len)?)?;
        at += len;
        let mut name = Vec::new();
        for number in numbers {
            name.extend_from_slice(tokens.get(usize::from(*number))?);
        }
        names.push(String::from_utf8_lossy(&name).into_owned());
    }
    (aligned(at as u64) == bytes.len() as u64).then_some(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The base of addresses.
    const BASE: u64 = 0xffff_ffff_8000_0000;

    /// Symbols as the table has them: with their type, sorted by address.
    fn symbols(count: usize) -> Vec<(u32, String)> {
        let kinds = ["t", "T", "d", "W"];
        (0..count)
            .map(|n| {
                let long = if n == 7 {
                    "_x".repeat(90)
                } else {
                    String::new()
                };
                (16 * n as u32, format!("{}name_{n}{long}", kinds[n % 4]))
            })
            .collect()
    }

    /// The table of a kernel, with addresses before or behind the rest.
    fn table(symbols: &[(u32, String)], behind: bool, base: u64) -> Vec<u8> {
        fn align(to: &mut Vec<u8>) {
            to.resize(to.len().next_multiple_of(8), 0);
        }
        // A token for each character, and one for a frequent row of them.
        let token = |n: usize| match n {
            1 => "name_".to_string(),
            n if (33..127).contains(&n) => char::from(n as u8).to_string(),
            n => format!("<{n}>"),
        };
        let mut addresses = Vec::new();
        for (offset, _) in symbols {
            addresses.extend(offset.to_le_bytes());
        }
        align(&mut addresses);
        addresses.extend(base.to_le_bytes());
        let mut all = Vec::new();
        if !behind {
            all.extend(&addresses);
        }
        all.extend((symbols.len() as u64).to_le_bytes());
        let (mut names, mut markers) = (Vec::new(), Vec::new());
        for (n, (_, name)) in symbols.iter().enumerate() {
            if n % 256 == 0 {
                markers.extend((names.len() as u32).to_le_bytes());
            }
            let (kind, rest) = name.split_at(1);
            let mut numbers = kind.as_bytes().to_vec();
            numbers.push(1);
            numbers.extend(rest.strip_prefix("name_").unwrap().bytes());
            match numbers.len() {
                len @ 0..=0x7f => names.push(len as u8),
                len => names.extend([len as u8 | 0x80, (len >> 7) as u8]),
            }
            names.extend(numbers);
        }
        let (mut tokens, mut index) = (Vec::new(), Vec::new());
        for n in 0..256 {
            index.extend((tokens.len() as u16).to_le_bytes());
            tokens.extend(token(n).bytes());
            tokens.push(0);
        }
        for part in [names, markers, tokens, index] {
            all.extend(part);
            align(&mut all);
        }
        if behind {
            all.extend(&addresses);
        }
        all
    }

    fn memory(bytes: &[u8], at: u64) -> GuestRam {
        let ram = GuestRam::new(8 << 20).unwrap();
        // What lies in front of it looks like numbers, too.
        ram.write_bytes(at - 64, &[0xff; 64]).unwrap();
        ram.write_bytes(at, bytes).unwrap();
        ram
    }

    #[test]
    fn functions_are_found_wherever_addresses_stand() {
        for count in [3, 256, 257, 700] {
            let all = symbols(count);
            for behind in [false, true] {
                let ram = memory(&table(&all, behind, BASE), (1 << 20) - 1000);
                let found = functions(&ram).expect("a table");
                let want = all.iter().filter(|(_, name)| !name.starts_with('d'));
                let want: Vec<_> = want
                    .map(|(o, name)| (BASE + u64::from(*o), 0, name[1..].to_string()))
                    .collect();
                assert_eq!(found, want, "{count} {behind}");
            }
        }
    }

    #[test]
    fn what_is_no_table_gives_nothing() {
        let whole = table(&symbols(700), true, BASE);
        assert!(functions(&memory(&[], 4096)).is_none());
        // Not relocated yet.
        assert!(functions(&memory(&table(&symbols(700), true, 0), 4096)).is_none());
        for at in (0..whole.len()).step_by(97) {
            let mut damaged = whole.clone();
            damaged[at] ^= 0x55;
            damaged.truncate(whole.len() - at / 3);
            // Names may differ, but nothing is read that is not there.
            if let Some(found) = functions(&memory(&damaged, 4096)) {
                assert!(found.len() <= 700);
            }
        }
    }
}
