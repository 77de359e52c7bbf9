//! Lists of ports: text files that say which addresses of the bus a VM sees, and where.
//!
//! One port a line, `#` begins a comment:
//!
//! ```text
//! FROM [TO SIZE] [xCOUNT] [vm=N] [r|w|rw]
//! keep TO SIZE
//! ```
//!
//! `FROM` is the address that the VM uses, `TO` the one on the bus, `SIZE` in bytes; without them, 4 bytes
//! at the same address. `xCOUNT` stands for so many ports one behind the other, on both sides.
//! `keep` names ports of the bus that no VM may reach. Numbers are written as everywhere: `4096`,
//! `0x1000`, `4KiB`.

use crate::Rights;
use nagori_values::{count, SIZE};
use thiserror::Error as ThisError;

/// Most lines of a list, after `xCOUNT` is expanded.
pub const MAX_PORTS: usize = 1 << 20;

/// A port: some bytes of a VM's I/O map, and where they are on the bus.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Port {
    /// Number of the VM.
    pub vm: u16,
    /// First address in the map that the VM believes in.
    pub from: u64,
    /// First address on the bus.
    pub to: u64,
    /// Bytes, at least 1.
    pub size: u64,
    /// What the VM may do.
    pub rights: Rights,
    /// Line of the list, from 1 on.
    pub line: usize,
}

/// Bytes of the bus that no VM may reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kept {
    /// First address on the bus.
    pub to: u64,
    /// Bytes, at least 1.
    pub size: u64,
    /// Line of the list, from 1 on.
    pub line: usize,
}

/// What a list says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ports {
    /// The ports that VMs may reach, in the order of the list.
    pub ports: Vec<Port>,
    /// The ports that no VM may reach.
    pub kept: Vec<Kept>,
}

/// Why a list is refused.
#[derive(Debug, Clone, PartialEq, Eq, ThisError)]
#[error("line {line}: {what}")]
pub struct ParseError {
    /// Line, from 1 on.
    pub line: usize,
    /// What is wrong there, and what would be right.
    pub what: String,
}

/// The form of a port's line.
const FORM: &str = "FROM [TO SIZE] [xCOUNT] [vm=N] [r|w|rw]";

fn number(word: &str) -> Result<u64, String> {
    SIZE.read(word, Some(1))
}

/// Checks that bytes are within the address space.
fn within(first: u64, size: u64) -> Result<(), String> {
    if size == 0 {
        return Err("a size of 0: expected at least 1".into());
    }
    match first.checked_add(size - 1) {
        Some(_) => Ok(()),
        None => Err(format!(
            "{size} bytes from {first:#x} on pass the end of the addresses"
        )),
    }
}

fn keep(words: &[&str], line: usize) -> Result<Kept, String> {
    let &[to, size] = words else {
        return Err("expected `keep TO SIZE`".into());
    };
    let (to, size) = (number(to)?, number(size)?);
    within(to, size)?;
    Ok(Kept { to, size, line })
}

fn port(words: &[&str], line: usize) -> Result<(Port, u64), String> {
    let mut numbers = Vec::new();
    let (mut times, mut vm, mut rights) = (None, None, None);
    let both = |read, write| Rights { read, write };
    for &word in words {
        let twice = match word {
            "r" => rights.replace(both(true, false)).is_some(),
            "w" => rights.replace(both(false, true)).is_some(),
            "rw" => rights.replace(both(true, true)).is_some(),
            _ => {
                if let Some(n) = word.strip_prefix("vm=") {
                    let n = count::<u16>(n, ..).map_err(|e| format!("`{word}`: {e}"))?;
                    vm.replace(n).is_some()
                } else if let Some(n) = word.strip_prefix('x') {
                    let n = count::<u64>(n, 1..).map_err(|e| format!("`{word}`: {e}"))?;
                    times.replace(n).is_some()
                } else {
                    numbers.push(number(word)?);
                    numbers.len() > 3
                }
            }
        };
        if twice {
            return Err(format!("`{word}` is one too many"));
        }
    }
    let Some(&from) = numbers.first() else {
        return Err(format!("expected {FORM}"));
    };
    // Of two numbers the second one may be meant as either.
    let (to, size) = match numbers[1..] {
        [] => (from, 4),
        [to, size, ..] => (to, size),
        [n] => {
            return Err(format!(
            "{from:#x} and {n:#x}: an address on the bus needs its size, and a size the address \
                before it; expected {FORM}"
        ))
        }
    };
    let count = times.unwrap_or(1);
    let all = size
        .checked_mul(count)
        .ok_or_else(|| format!("{count} ports of {size} bytes pass the end of the addresses"))?;
    within(from, all)?;
    within(to, all)?;
    let port = Port {
        vm: vm.unwrap_or(0),
        from,
        to,
        size,
        rights: rights.unwrap_or(both(true, true)),
        line,
    };
    Ok((port, count))
}

/// Reads a list.
pub fn parse(text: &str) -> Result<Ports, ParseError> {
    let mut all = Ports::default();
    for (i, content) in text.lines().enumerate() {
        let line = i + 1;
        let content = content.split('#').next().unwrap_or_default();
        let words: Vec<&str> = content.split_whitespace().collect();
        let wrong = |what| ParseError { line, what };
        match words.split_first() {
            None => {}
            Some((&"keep", rest)) => all.kept.push(keep(rest, line).map_err(wrong)?),
            Some(_) => {
                let (first, count) = port(&words, line).map_err(wrong)?;
                if all.ports.len() as u64 + count > MAX_PORTS as u64 {
                    return Err(wrong(format!("more than {MAX_PORTS} ports")));
                }
                let ports = (0..count).map(|k| Port {
                    from: first.from + k * first.size,
                    to: first.to + k * first.size,
                    ..first
                });
                all.ports.extend(ports);
            }
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_with_their_defaults() {
        let text = "# a controller\n0x92000000 0x40001000 4 x2 vm=0x1 r # two\n\n8\n16 32 1 w\nkeep 0x10 4\n1MiB \
            0x4000_2000 4KiB x1e0\n";
        let p = parse(text).unwrap();
        let rights = |read, write| Rights { read, write };
        let port = |vm, from, to, size, rights, line| Port {
            vm,
            from,
            to,
            size,
            rights,
            line,
        };
        let expected = [
            port(1, 0x9200_0000, 0x4000_1000, 4, rights(true, false), 2),
            port(1, 0x9200_0004, 0x4000_1004, 4, rights(true, false), 2),
            port(0, 8, 8, 4, rights(true, true), 4),
            port(0, 16, 32, 1, rights(false, true), 5),
            port(0, 1 << 20, 0x4000_2000, 4096, rights(true, true), 7),
        ];
        assert_eq!(p.ports, expected);
        let kept = Kept {
            to: 16,
            size: 4,
            line: 6,
        };
        assert_eq!(p.kept, [kept]);
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        let cases = [
            ("\n12 ab", 2, "`ab`"),
            ("r", 1, "expected FROM"),
            (
                "0x3f8 8",
                1,
                "0x3f8 and 0x8: an address on the bus needs its size",
            ),
            (
                "1\n0x60000000 0x10001000 x2 vm=1 r",
                2,
                "expected FROM [TO SIZE]",
            ),
            ("1 2 3 4", 1, "`4` is one too many"),
            ("1 r rw", 1, "`rw` is one too many"),
            (
                "1 x0",
                1,
                "`x0`: 0 is not possible: expected a whole number from 1",
            ),
            (
                "1 vm=65536",
                1,
                "`vm=65536`: 65536 is not possible: expected a whole number from 0 to 65535",
            ),
            ("keep 1", 1, "keep TO SIZE"),
            ("keep 1 0", 1, "at least 1"),
            ("0xfffffffffffffffe 0 4", 1, "pass the end"),
            ("0 0 0x8000000000000000 x2", 1, "pass the end"),
            ("0 x2000000", 1, "more than 1048576 ports"),
            ("99999999999999999999", 1, "more than 2^64 bytes"),
        ];
        for (text, line, what) in cases {
            let e = parse(text).expect_err(text);
            assert_eq!(e.line, line, "{text}");
            assert!(e.what.contains(what), "{text}: {e}");
        }
    }
}
