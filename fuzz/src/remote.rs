//! What comes from outside to a running machine: messages, files of symbols.

use nagori_profile::Symbols;
use nagori_remote::api::{schemas, Command};
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
