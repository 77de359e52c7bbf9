//! Devices in virtio slots, besides those that every machine has.

use schemars::{gen::SchemaGenerator, schema::Schema, JsonSchema};
use serde::{de, Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// Greatest number of slots.
pub const MAX_SLOTS: usize = 8;
/// Greatest length of a slot's name in bytes: that of a block device's serial number.
const MAX_NAME: usize = 20;

/// What a slot holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SlotKind {
    /// A disk.
    Block,
    /// A network interface.
    Net,
    /// OpenCores Ethernet MAC: a network interface without virtio.
    Ethmac,
    /// A folder of the host (9p).
    Share,
    /// Named byte streams to the host.
    Console,
    /// The entropy source, which otherwise is behind all slots.
    Entropy,
    /// SiFive's GPIO controller.
    Gpio,
    /// SiFive's SPI controller with a NOR flash.
    Spi,
}

impl SlotKind {
    /// All kinds.
    pub const ALL: [SlotKind; 8] = [
        SlotKind::Block,
        SlotKind::Net,
        SlotKind::Ethmac,
        SlotKind::Share,
        SlotKind::Console,
        SlotKind::Entropy,
        SlotKind::Gpio,
        SlotKind::Spi,
    ];

    /// As it is written in a description.
    pub fn name(self) -> &'static str {
        match self {
            SlotKind::Block => "block",
            SlotKind::Net => "net",
            SlotKind::Ethmac => "ethmac",
            SlotKind::Share => "share",
            SlotKind::Console => "console",
            SlotKind::Entropy => "entropy",
            SlotKind::Gpio => "gpio",
            SlotKind::Spi => "spi",
        }
    }
}

/// A virtio slot: `KIND` or `KIND:NAME`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotConfig {
    /// What it holds.
    pub kind: SlotKind,
    /// Its name, if one is given; see [`slot_names`].
    pub name: Option<String>,
}

impl SlotConfig {
    /// A slot without a given name.
    pub fn new(kind: SlotKind) -> SlotConfig {
        SlotConfig { kind, name: None }
    }
}

/// The names of all slots in order: as given, else kind and number, such as `block0`. The guest
/// sees them as a disk's serial number or a share's tag.
pub fn slot_names(slots: &[SlotConfig]) -> Vec<String> {
    let mut counts = [0; SlotKind::ALL.len()];
    let mut names = Vec::new();
    for s in slots {
        let n = &mut counts[s.kind as usize];
        names.push(match &s.name {
            Some(name) => name.clone(),
            None => format!("{}{n}", s.kind.name()),
        });
        *n += 1;
    }
    names
}

impl FromStr for SlotConfig {
    type Err = String;

    fn from_str(text: &str) -> Result<SlotConfig, String> {
        let (kind, name) = match text.split_once(':') {
            Some((kind, name)) => (kind, Some(name)),
            None => (text, None),
        };
        let kind = SlotKind::ALL.into_iter().find(|k| k.name() == kind);
        let kind = kind.ok_or_else(|| {
            let known = SlotKind::ALL.map(SlotKind::name).join(", ");
            format!("`{text}` is no device: expected one of {known}, or that with a name, such as share:data")
        })?;
        if let Some(name) = name {
            let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
            if name.is_empty() || name.len() > MAX_NAME || !name.chars().all(plain) {
                return Err(format!(
                    "`{name}` is no name of a device: expected 1 to {MAX_NAME} letters, digits, -, _ and ."
                ));
            }
        }
        Ok(SlotConfig {
            kind,
            name: name.map(String::from),
        })
    }
}

impl fmt::Display for SlotConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind.name())?;
        match &self.name {
            Some(name) => write!(f, ":{name}"),
            None => Ok(()),
        }
    }
}

impl Serialize for SlotConfig {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for SlotConfig {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<SlotConfig, D::Error> {
        String::deserialize(d)?.parse().map_err(de::Error::custom)
    }
}

impl JsonSchema for SlotConfig {
    fn schema_name() -> String {
        "SlotConfig".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let kinds = SlotKind::ALL.map(SlotKind::name).join("|");
        let schema = serde_json::json!({
            "description": "A device in a slot: on virtio (block, net, share, console, entropy), or ethmac, gpio or \
                spi, and after a colon its name if it is to have one.",
            "type": "string",
            "pattern": format!("^({kinds})(:[A-Za-z0-9._-]{{1,{MAX_NAME}}})?$"),
        });
        serde_json::from_value(schema).expect("a fixed schema")
    }
}

/// How long disks take for a request: `request_ps`, and `byte_ps` for each byte of data. A disk
/// does one request after the other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct BlockConfig {
    /// For every request, in ps.
    pub request_ps: u64,
    /// More for a request that reads or writes elsewhere than where the one before it has ended, in ps.
    #[serde(skip_serializing_if = "is_zero")]
    pub seek_ps: u64,
    /// For every byte read or written, in ps.
    pub byte_ps: u64,
    /// More for a flush, in ps.
    pub flush_ps: u64,
}

impl Default for BlockConfig {
    // Of no particular disk: in the order of a SATA solid-state disk.
    fn default() -> Self {
        BlockConfig {
            request_ps: 50_000_000,
            seek_ps: 0,
            byte_ps: 2_000,
            flush_ps: 500_000_000,
        }
    }
}

/// Disks with a name, and the parts of [`BlockConfig`] that make them, each with its source.
///
/// `ssd`: Samsung's data for the 850 EVO (1 TB, SATA): 10 000 random reads of 4 KiB a second one after the other, 540
/// MB/s. `hdd`: average seek of a read (7.4 ms) and half a turn at 7200 rpm (4.16 ms) of Western Digital's
/// specification of the Ultrastar DC HC310, and the rate of Seagate's for the ST1000DM010 (210 MB/s at the outer edge).
/// No source: the 50 us of a request of `hdd`, and the flush of `ssd`. A flush of `hdd` is one more seek.
pub const DISK_LATENCIES: [(&str, BlockConfig); 2] = [
    (
        "ssd",
        BlockConfig {
            request_ps: 92_415_000,
            seek_ps: 0,
            byte_ps: 1_852,
            flush_ps: 500_000_000,
        },
    ),
    (
        "hdd",
        BlockConfig {
            request_ps: 50_000_000,
            seek_ps: 11_560_000_000,
            byte_ps: 4_762,
            flush_ps: 11_560_000_000,
        },
    ),
];

fn is_zero(value: &u64) -> bool {
    *value == 0
}

/// How long shares take for a request: `request_ps`, and `byte_ps` for each byte of request and reply. A share
/// does one request after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ShareConfig {
    /// For every request, in ps.
    pub request_ps: u64,
    /// For every byte of request and reply, in ps.
    pub byte_ps: u64,
}

impl Default for ShareConfig {
    // Of no particular host: as the disks.
    fn default() -> Self {
        ShareConfig {
            request_ps: 50_000_000,
            byte_ps: 2_000,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn slots(texts: &[&str]) -> Vec<SlotConfig> {
        texts.iter().map(|t| t.parse().unwrap()).collect()
    }

    #[test]
    fn slots_without_names_are_numbered_by_kind() {
        let s = slots(&["block", "share:data", "block", "share", "net"]);
        let names = slot_names(&s);
        assert_eq!(names, ["block0", "data", "block1", "share1", "net0"]);
        let text: Vec<String> = s.iter().map(|s| s.to_string()).collect();
        assert_eq!(text, ["block", "share:data", "block", "share", "net"]);
        for bad in [
            "",
            "disk",
            "Block",
            "block:",
            "block:a b",
            "net:é",
            ":x",
            "block:a:b",
            "share:123456789012345678901",
        ] {
            assert!(bad.parse::<SlotConfig>().is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_refused_or_written_back(text in "(block|net)?:?.*") {
            if let Ok(slot) = text.parse::<SlotConfig>() {
                prop_assert_eq!(slot.to_string(), text);
            }
        }
    }
}
