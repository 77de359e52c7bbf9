//! What can be asked of a machine, and what it answers.

use crate::rpc::{Request, RpcError, INVALID_PARAMS, NO_METHOD};
use schemars::{schema_for, JsonSchema};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{json, Value};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Version of the interface; it grows when something is taken away or changes its meaning.
pub const VERSION: u32 = 1;

/// No parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Nothing {}

/// Values of parameters by name.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Set {
    /// Names are those of `parameters`. A value is a number in the parameter's unit, `true` or
    /// `false` for 1 and 0, or a string: a method's name, or a time such as "300 ns".
    pub values: BTreeMap<String, SetValue>,
}

/// A value to be set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum SetValue {
    /// 1 or 0.
    Switch(bool),
    /// In the parameter's unit.
    Number(u64),
    /// A name, or a number with a unit.
    Text(String),
}

/// Where a snapshot goes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Snapshot {
    /// Absolute path of the file; one that exists is replaced when the new one is complete.
    pub path: String,
}

/// What of memory is wanted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Dump {
    /// First address.
    pub address: u64,
    /// Bytes: at least one; without a file at most 262144.
    pub length: u64,
    /// The address is a virtual one of this hart, in the address space that it runs in now; without
    /// it, it is physical.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hart: Option<u64>,
    /// Absolute path of the file for the bytes; without one they are in the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}

/// Memory that was read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Dumped {
    /// First address.
    pub address: u64,
    /// Bytes.
    pub length: u64,
    /// The file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The bytes as hexadecimal digits, where no file was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<String>,
}

/// Most bytes of memory in an answer.
pub const MAX_DUMP: u64 = 256 << 10;

/// When the power is to be cut.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PowerCutAt {
    /// A point as `--power-cut-at` takes it: insn:N, time:T, marker:LABEL[:N], nvmm-write:N, fence:N, flush:N.
    /// Instructions and time count from the machine's start, the others from now.
    pub when: String,
}

/// A label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Label {
    /// The number under which the statistics are kept.
    #[serde(default)]
    pub label: u64,
}

/// A request to a machine.
#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    /// What the machine is and how it stands.
    Status,
    /// Stop between two instructions of every hart, until `resume`.
    Pause,
    /// Go on.
    Resume,
    /// The statistics so far.
    Statistics,
    /// Start statistics anew.
    ResetStatistics,
    /// Keep the statistics so far under a label.
    DumpStatistics(Label),
    /// All parameters that can be set, and their values.
    Parameters,
    /// Set parameters: all or, if one is refused, none.
    Set(Set),
    /// Write a snapshot.
    Snapshot(Snapshot),
    /// Read memory.
    Dump(Dump),
    /// Restart harts and devices; memory is kept.
    Reset,
    /// Cut the power: what is volatile is lost, and the machine starts anew.
    PowerCut,
    /// Cut the power at a point that is still to come.
    PowerCutAt(PowerCutAt),
    /// End the run.
    Quit,
    /// The JSON schema of all this.
    Schema,
}

/// Whether a machine runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It runs.
    Running,
    /// A client has stopped it; `resume` goes on.
    Paused,
    /// Something else holds it: a debugger.
    Held,
}

/// Answer to what changes whether a machine runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Stands {
    /// How it stands now.
    pub state: State,
    /// Machine time in nanoseconds.
    pub time_ns: u64,
}

/// What a power cut has done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Lost {
    /// Machine time of the cut in nanoseconds.
    pub time_ns: u64,
    /// Instructions of all harts before it.
    pub instructions: u64,
    /// Lines of NVMM whose stores were lost in caches.
    pub lost_lines: u64,
    /// Writes to NVMM that were lost in the memory controller.
    pub lost_writes: u64,
}

/// A hart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HartStatus {
    /// Its number.
    pub hart: u64,
    /// Program counter.
    pub pc: u64,
    /// `user`, `supervisor` or `machine`.
    pub privilege: String,
    /// Whether it waits for an interrupt.
    pub waiting: bool,
    /// Core cycles since the start.
    pub cycles: u64,
    /// Instructions retired since the start.
    pub instructions: u64,
}

/// How a machine stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Status {
    /// Version of this interface.
    pub version: u32,
    /// Version of the program.
    pub program: String,
    /// Whether it runs.
    pub state: State,
    /// Machine time in nanoseconds.
    pub time_ns: u64,
    /// Whether the timing model is on.
    pub timed: bool,
    /// Delay method of NVMM.
    pub method: String,
    /// Clock of the cores in Hz.
    pub clock_hz: u64,
    /// Instructions retired by all harts.
    pub instructions: u64,
    /// The harts.
    pub harts: Vec<HartStatus>,
}

/// A parameter of the machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Parameter {
    /// Its value.
    pub value: u64,
    /// The value's name, where values have names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What the value counts; empty for pure numbers.
    pub unit: String,
    /// The value as a time in picoseconds, where it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ps: Option<u64>,
    /// What it does.
    pub doc: String,
}

/// All parameters by name.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Parameters {
    /// The parameters.
    pub parameters: BTreeMap<String, Parameter>,
}

/// Statistics, as `--stats json` has them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Statistics {
    /// Since the start or the last reset of statistics, with what was kept under labels in `marks`.
    pub report: Value,
    /// These statistics as a table for people.
    pub table: String,
}

/// A written snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Written {
    /// The file.
    pub path: String,
    /// Its size.
    pub bytes: u64,
}

/// A method as it is documented.
pub struct Method {
    /// Its name in requests.
    pub name: &'static str,
    /// What it does.
    pub doc: &'static str,
    parse: fn(Value) -> Result<Command, String>,
    params: fn() -> Value,
    result: fn() -> Value,
}

fn plain<T: DeserializeOwned>(
    params: Value,
    make: impl FnOnce(T) -> Command,
) -> Result<Command, String> {
    // Parameters by position are not offered; an empty list is none.
    let params = match params {
        Value::Array(a) if a.is_empty() => json!({}),
        Value::Array(_) => return Err("parameters are given by name".into()),
        p => p,
    };
    serde_json::from_value(params)
        .map(make)
        .map_err(|e| e.to_string())
}

fn schema<T: JsonSchema>() -> Value {
    json!(schema_for!(T))
}

macro_rules! method {
    ($name:literal, $params:ident, $make:expr, $result:ident, $doc:literal) => {
        Method {
            name: $name,
            doc: $doc,
            parse: |p| plain::<$params>(p, $make),
            params: schema::<$params>,
            result: schema::<$result>,
        }
    };
}

/// All methods.
pub const METHODS: &[Method] = &[
    method!("status", Nothing, |_| Command::Status, Status,
        "What the machine is and how it stands"),
    method!("pause", Nothing, |_| Command::Pause, Stands,
        "Stop between two instructions, until `resume`; answered when it stands"),
    method!("resume", Nothing, |_| Command::Resume, Stands, "Go on"),
    method!("statistics", Nothing, |_| Command::Statistics, Statistics,
        "The statistics so far"),
    method!("reset_statistics", Nothing, |_| Command::ResetStatistics, Stands,
        "Start the statistics anew"),
    method!("dump_statistics", Label, Command::DumpStatistics, Stands,
        "Keep the statistics so far under a label, beside what the guest keeps"),
    method!("parameters", Nothing, |_| Command::Parameters, Parameters,
        "All parameters that can be set while the machine runs, and their values"),
    method!("set", Set, Command::Set, Parameters,
        "Set parameters, all at the same machine time; if one is refused, none is set. Answers those set"),
    method!("snapshot", Snapshot, Command::Snapshot, Written,
        "Write the whole machine to a file, which `nagori resume` continues"),
    method!("dump", Dump, Command::Dump, Dumped,
        "Read memory by physical addresses, or virtual ones of a hart, into a file or the answer; the guest does not \
            notice"),
    method!("reset", Nothing, |_| Command::Reset, Stands,
        "Restart harts and devices and load the software again; what else is in memory stays"),
    method!("power_cut", Nothing, |_| Command::PowerCut, Lost,
        "Cut the power: caches, DRAM and devices lose their contents, NVMM keeps what has reached it; then start anew"),
    method!("power_cut_at", PowerCutAt, Command::PowerCutAt, Stands,
        "Cut the power at a point that is still to come, in the same way"),
    method!("quit", Nothing, |_| Command::Quit, Stands, "End the run, with its statistics if they were asked for"),
    method!("schema", Nothing, |_| Command::Schema, Nothing,
        "The JSON schemas of all methods' parameters and results"),
];

impl Command {
    /// Understands a request.
    pub fn parse(request: &Request) -> Result<Command, RpcError> {
        let Some(method) = METHODS.iter().find(|m| m.name == request.method) else {
            let known: Vec<_> = METHODS.iter().map(|m| m.name).collect();
            let text = format!("no such method; there are {}", known.join(", "));
            return Err(RpcError::new(NO_METHOD, text));
        };
        (method.parse)(request.params.clone())
            .map_err(|e| RpcError::new(INVALID_PARAMS, format!("{}: {e}", method.name)))
    }
}

/// The schemas of all methods as one JSON object.
pub fn schemas() -> Value {
    let of = |m: &Method| {
        let v = json!({"doc": m.doc, "params": (m.params)(), "result": (m.result)()});
        (m.name.to_string(), v)
    };
    let methods: serde_json::Map<String, Value> = METHODS.iter().map(of).collect();
    json!({"version": VERSION, "methods": methods})
}

/// The methods as a table for the documentation.
pub fn markdown() -> String {
    let mut out =
        String::from("| method | parameters | result | what it does |\n|---|---|---|---|\n");
    let fields = |schema: Value| -> String {
        let Some(p) = schema["properties"].as_object() else {
            return String::new();
        };
        let names: Vec<_> = p.keys().map(|k| format!("`{k}`")).collect();
        names.join(", ")
    };
    for m in METHODS {
        let (params, result) = (fields((m.params)()), fields((m.result)()));
        let _ = writeln!(out, "| `{}` | {params} | {result} | {} |", m.name, m.doc);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(method: &str, params: Value) -> Result<Command, RpcError> {
        Command::parse(&Request {
            method: method.into(),
            params,
            id: None,
        })
    }

    #[test]
    fn every_method_is_understood() {
        for m in METHODS {
            let params = match m.name {
                "set" => json!({"values": {"method": "fine", "coarse_read": 3, "timed": true}}),
                "snapshot" => json!({"path": "/x"}),
                "dump" => json!({"address": 0x8000_0000u64, "length": 16, "hart": 0}),
                "power_cut_at" => json!({"when": "fence:3"}),
                _ => json!({}),
            };
            assert!(parse(m.name, params).is_ok(), "{}", m.name);
        }
        assert_eq!(parse("status", json!([])), Ok(Command::Status));
        assert_eq!(
            parse("dump_statistics", json!({"label": 3})),
            Ok(Command::DumpStatistics(Label { label: 3 }))
        );
    }

    #[test]
    fn wrong_parameters_are_named() {
        for (method, params, hint) in [
            ("status", json!({"x": 1}), "unknown field `x`"),
            ("status", json!([1]), "by name"),
            ("set", json!({}), "values"),
            ("set", json!({"values": {"a": -1}}), "SetValue"),
            ("snapshot", json!({"path": 3}), "string"),
            ("dump", json!({"address": 0}), "length"),
            ("dump", json!({"address": -1, "length": 1}), "u64"),
            ("dump_statistics", json!({"label": "a"}), "u64"),
        ] {
            let e = parse(method, params).unwrap_err();
            assert_eq!(e.code, INVALID_PARAMS);
            assert!(e.message.contains(hint), "{}", e.message);
        }
        assert_eq!(parse("x", json!({})).unwrap_err().code, NO_METHOD);
    }

    #[test]
    fn schemas_describe_what_is_written() {
        let all = schemas();
        let status = &all["methods"]["status"]["result"];
        assert!(status["properties"]["harts"].is_object(), "{status}");
        assert_eq!(markdown().lines().count(), METHODS.len() + 2);
    }

    #[test]
    fn the_documentation_has_all_methods() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/control.md");
        let text = std::fs::read_to_string(path).unwrap();
        let (begin, end) = ("<!-- methods -->\n", "<!-- end of methods -->");
        let from = text.find(begin).unwrap() + begin.len();
        let to = text.find(end).unwrap();
        let new = format!("{}{}{}", &text[..from], markdown(), &text[to..]);
        nagori_golden::golden(path, &new);
    }
}
