//! Counters of a host: of its cores, and of other devices.

use std::collections::BTreeMap;

use perf_event::events::Event;
use perf_event_open_sys::bindings::{perf_event_attr, PERF_TYPE_RAW};
use serde::Deserialize;

/// What a counter counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// An event of a core: `perf_event_attr.config`.
    Core(u64),
    /// An event of another device: its type, and `config`, `config1`, `config2`.
    Device(u32, [u64; 3]),
}

impl Event for What {
    fn update_attrs(self, attr: &mut perf_event_attr) {
        let (kind, [config, config1, config2]) = match self {
            What::Core(config) => (PERF_TYPE_RAW, [config, 0, 0]),
            What::Device(kind, config) => (kind, config),
        };
        attr.type_ = kind;
        attr.config = config;
        attr.__bindgen_anon_3.config1 = config1;
        attr.__bindgen_anon_4.config2 = config2;
    }
}

/// A counter of each device whose name begins alike.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UncoreEvent {
    /// What the names of the devices begin with.
    pub pmu: String,
    /// An event that the kernel names, with its code.
    #[serde(default)]
    pub event: Option<String>,
    /// The fields of its code, for an event that the kernel does not name.
    #[serde(default)]
    pub fields: BTreeMap<String, u64>,
}

impl UncoreEvent {
    /// As perf writes it.
    pub fn text(&self) -> String {
        let fields = self.fields.iter().map(|(f, v)| format!("{f}={v:#x}"));
        self.event
            .clone()
            .into_iter()
            .chain(fields)
            .collect::<Vec<_>>()
            .join(",")
    }
}
