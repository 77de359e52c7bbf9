//! Lists of I/O ports.

use nagori_iomap::merge::merge;
use nagori_iomap::ports::parse;
use nagori_iomap::{verilog, Access, Answer, Entry, Table, MAX_ENTRIES};

/// A byte of slack, then a list: it is refused, or its entries make a table that finds every port.
pub fn port_list(data: &[u8]) {
    let Some((slack, text)) = data.split_first() else {
        return;
    };
    let Ok(text) = std::str::from_utf8(text) else {
        return;
    };
    let Ok(list) = parse(text) else {
        return;
    };
    // Long lists take long and have nothing that short ones lack.
    if list.ports.len() > 2000 {
        return;
    }
    let Ok(merged) = merge(&list, 1 << (slack % 64) >> 1) else {
        return;
    };
    let entries: Vec<Entry> = merged.iter().map(|m| m.entry).collect();
    if entries.is_empty() || entries.len() > MAX_ENTRIES {
        return;
    }
    let mut table = Table::constant(&entries).expect("entries that fit together");
    for p in &list.ports {
        let access = if p.rights.read {
            Access::Read
        } else {
            Access::Write
        };
        for at in [0, p.size - 1] {
            let answer = table.look_up(p.vm, p.from + at, access);
            assert_eq!(answer, Answer::Hit(p.to + at), "line {}", p.line);
        }
    }
    verilog::constant("m", &entries).expect("the same entries");
}
