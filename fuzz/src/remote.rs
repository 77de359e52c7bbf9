//! What comes from outside to a running machine: messages, a debugger's packets, files of symbols.

use nagori_profile::Symbols;
use nagori_remote::api::{schemas, Command};
use nagori_remote::gdb::frame::packet;
use nagori_remote::gdb::toy::{packets, Toy};
use nagori_remote::gdb::{Halt, Stub, PACKET};
use nagori_remote::rpc::respond;
use serde_json::{json, Value};

/// A message to the control socket: answered as JSON-RPC has it, or not at all.
pub fn control_message(data: &[u8]) {
    let answer = respond(data, |request| match Command::parse(request)? {
        Command::Schema => Ok(schemas()),
        command => Ok(json!(format!("{command:?}"))),
    });
    let check = |v: &Value| {
        assert_eq!(v["jsonrpc"], "2.0");
        assert!(v["result"].is_null() != v["error"].is_null(), "{v}");
    };
    match answer {
        Some(Value::Array(all)) => all.iter().for_each(check),
        Some(one) => check(&one),
        None => {}
    }
}

/// A debugger's session: a byte for the number of harts, then lines, each the content of a packet, or bytes
/// behind `!`. Every packet is answered or makes the machine run, and only a request to end ends the session.
pub fn gdb_packets(data: &[u8]) {
    let Some((harts, lines)) = data.split_first() else {
        return;
    };
    let mut toy = Toy::new(usize::from(harts % 4) + 1);
    let size = toy.memory.len();
    let mut stub = Stub::new(0);
    for line in lines.split(|b| *b == b'\n') {
        let before = toy.resumed;
        let raw = line.first() == Some(&b'!') || line.iter().any(|b| matches!(b, b'$' | b'#'));
        match raw {
            true => stub.take(line, &mut toy),
            // Whatever began before it ends at its `$`.
            false => stub.take(&packet(line), &mut toy),
        }
        let out = std::mem::take(stub.output());
        let answers = packets(&out).expect("packets and acknowledgements");
        assert!(answers.iter().all(|p| p.len() <= PACKET));
        assert_eq!(toy.memory.len(), size);
        if stub.left().is_some() {
            assert!(
                raw || matches!(line.first(), Some(b'D' | b'k' | b'v')),
                "{line:?}"
            );
            return;
        }
        assert!(
            raw || line.len() > PACKET || !answers.is_empty() || toy.resumed > before,
            "{line:?}"
        );
        if stub.is_running() {
            let harts = toy.registers.len();
            match line.len() % 3 {
                0 => stub.take(b"\x03", &mut toy),
                1 => stub.halted(Halt::Step { hart: harts - 1 }),
                _ => stub.halted(Halt::Break {
                    hart: 0,
                    pc: 0x8000_0000,
                }),
            }
            let out = std::mem::take(stub.output());
            let stops = packets(&out).expect("a packet");
            assert!(
                raw || (stops.len() == 1 && stops[0].starts_with(b"T")),
                "{line:?}"
            );
        }
    }
}

/// An ELF file or a list of symbols, and looks at what it names.
pub fn symbol_file(data: &[u8]) {
    let (head, rest) = data.split_at(data.len().min(8));
    let mut bias = [0; 8];
    bias[..head.len()].copy_from_slice(head);
    let bias = u64::from_le_bytes(bias);
    for (bytes, bias) in [(data, 0), (rest, bias)] {
        let mut s = Symbols::default();
        if s.add("file", bytes, bias).is_ok() {
            for at in [0, bias, bias.wrapping_add(0x8000_0000), u64::MAX] {
                assert!(s.lookup(at).is_none_or(|f| (f.start..f.end).contains(&at)));
            }
        }
    }
}
